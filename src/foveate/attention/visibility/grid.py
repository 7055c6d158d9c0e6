"""Rules over pictures: a flat index that runs along the rows of a grid."""

import math
from dataclasses import dataclass

from jaxtyping import Bool
from torch import Tensor

from foveate.attention.check import require_whole, whole_numbers
from foveate.attention.position import Positions
from foveate.attention.visibility.reach import Reach, Span
from foveate.attention.visibility.rule import Visibility


@dataclass(frozen=True)
class Neighbourhood(Visibility):
    columns: int
    reach_of: tuple[int, int]
    by_pair = True

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads query key"]:
        rows, columns = self.reach_of
        near_row = (at.query // self.columns - at.key // self.columns).abs() <= rows
        return near_row & ((at.query % self.columns - at.key % self.columns).abs() <= columns)

    @property
    def width(self) -> int | float:
        # Spans run along the rows, so what lies beside the patch is passed over and not skipped.
        return 2 * self.reach_of[0] * self.columns + 2 * self.reach_of[1] + 1

    def reach(self, at: Positions) -> Reach:
        rows, columns = self.reach_of
        far = rows * self.columns + columns
        return Reach((Span(at.query.double() - far, at.query.double() + far),))

    def meet(self, other: Visibility) -> Visibility | None:
        if isinstance(other, Neighbourhood) and other.columns == self.columns:
            both = tuple(zip(self.reach_of, other.reach_of, strict=True))
            return Neighbourhood(self.columns, (min(both[0]), min(both[1])))
        return None

    def __repr__(self) -> str:
        rows, columns = self.reach_of
        reach = rows if rows == columns else (rows, columns)
        return f"neighbourhood(columns={self.columns}, reach={reach})"


def neighbourhood(*, columns: int, reach: int | tuple[int, int]) -> Visibility:
    """A patch of a picture sees the patches at most `reach` rows and columns away; `columns` is the picture's width.

    Positions count along the rows. In a picture of 3 × 3, the patch in the middle of the upper edge sees six:

    >>> visible = neighbourhood(columns=3, reach=1)(Positions.of(9, 9))[0, 0, 1]
    >>> visible.reshape(3, 3).int().tolist()
    [[1, 1, 1], [1, 1, 1], [0, 0, 0]]
    """
    found = whole_numbers("reach", reach)
    both = (found, found) if isinstance(found, int) else found
    require_whole(-math.inf, columns=columns)
    if columns < 1 or len(both) != 2 or min(both) < 0:
        raise ValueError(
            f"A grid has columns={columns} and a reach of {reach}: at least 1, and not negative, one for rows and "
            "columns or one for each."
        )
    return Neighbourhood(columns, (both[0], both[1]))
