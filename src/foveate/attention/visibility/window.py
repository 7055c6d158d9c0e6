"""Rules about the distance between a query and a key, in a sequence or in a picture."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import torch
from jaxtyping import Bool
from torch import Tensor

from foveate.attention.check import require_real, require_whole, whole_numbers
from foveate.attention.onnx import Graph, Places
from foveate.attention.position import Positions
from foveate.attention.visibility.reach import Reach, Span
from foveate.attention.visibility.rule import TRIANGLE, Band, Count, Visibility, everything


class BandRule(Visibility):
    """A rule that states a band. Each holds the query itself, so that no gap can lie between two of them."""

    def meet(self, other: Visibility) -> Visibility | None:
        return self._band_of_both(other, min)

    def join(self, other: Visibility) -> Visibility | None:
        return self._band_of_both(other, max)

    def _band_of_both(self, other: Visibility, which: Callable[[Count, Count], Count]) -> Visibility | None:
        if self.band is None or other.band is None:
            return None
        return window(left=which(self.band[0], other.band[0]), right=which(self.band[1], other.band[1]))


@dataclass(frozen=True)
class Causal(BandRule):
    band = TRIANGLE

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads query key"]:
        return at.key <= at.query

    def __repr__(self) -> str:
        return "causal()"


@dataclass(frozen=True)
class Window(BandRule):
    left: Count
    right: Count

    def __post_init__(self) -> None:
        require_counts("A window", left=self.left, right=self.right)

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads query key"]:
        distance = at.query - at.key
        return (distance <= self.left) & (-distance <= self.right)

    @property
    def band(self) -> Band:
        return self.left, self.right

    def __repr__(self) -> str:
        return f"window(left={number(self.left)}, right={number(self.right)})"


@dataclass(frozen=True)
class Dilated(Visibility):
    left: Count
    right: Count
    step: int
    by_pair, _counts = True, ("left", "right")

    def __post_init__(self) -> None:
        require_counts("A dilated window", left=self.left, right=self.right)
        require_whole(step=self.step)

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads query key"]:
        distance = at.query - at.key
        near = (distance <= self.left * self.step) & (-distance <= self.right * self.step)
        return near & (distance % self.step == 0)

    @property
    def ahead(self) -> Count:
        return self.right * self.step

    @property
    def behind(self) -> Count:
        return self.left * self.step

    @property
    def width(self) -> int | float:
        return (self.left + self.right) * self.step + 1

    def reach(self, at: Positions) -> Reach:
        left, right = self.left * self.step, self.right * self.step
        return Reach((Span(at.query.double() - left, at.query.double() + right),))

    def meet(self, other: Visibility) -> Visibility | None:
        if other.band is None:
            return super().meet(other)
        steps = [keys if math.isinf(keys) else int(keys) // self.step for keys in other.band]
        return Dilated(min(self.left, steps[0]), min(self.right, steps[1]), self.step)

    def __repr__(self) -> str:
        return f"dilated(left={number(self.left)}, right={number(self.right)}, step={self.step})"


@dataclass(frozen=True)
class Around(Visibility):
    left: Count
    right: Count
    by_pair, _counts = True, ("left", "right")  # the centre, a real number, leaves no gap between two of them

    def __post_init__(self) -> None:
        require_counts("A window", left=self.left, right=self.right, whole=False)

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads query key"]:
        distance = (at.query if at.centre is None else at.centre.detach()) - at.key
        return (distance <= self.left) & (-distance <= self.right)

    @property
    def width(self) -> int | float:
        return self.left + self.right + 1

    def reach(self, at: Positions) -> Reach:
        # No rounding to whole positions here: `first` and `last` need not be keys.
        centre = (at.query if at.centre is None else at.centre.detach()).to(torch.float64)
        slack = 0.0 if at.centre is None else 1.0  # a float32 difference may round to the border
        return Reach((Span(centre - self.left - slack, centre + self.right + slack),))

    def simplified(self, at: Positions) -> Visibility:
        """Without a centre of its own, a query looks around itself: at whole distances."""
        if at.centre is not None:
            return self
        left, right = (side if math.isinf(side) else math.floor(side) for side in (self.left, self.right))
        return window(left=left, right=right)

    def __repr__(self) -> str:
        return f"around(left={number(self.left)}, right={number(self.right)})"


@dataclass(frozen=True)
class Neighbourhood(Visibility):
    columns: int
    reach_of: tuple[int, int]
    first: int = 0
    by_pair = True

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads query key"]:
        rows, columns = self.reach_of
        query, key = at.query - self.first, at.key - self.first
        near_row = (query // self.columns - key // self.columns).abs() <= rows
        near = near_row & ((query % self.columns - key % self.columns).abs() <= columns)
        return near & (query >= 0) & (key >= 0) if self.first else near

    @property
    def ahead(self) -> Count:
        return self.reach_of[0] * self.columns + self.reach_of[1]

    @property
    def behind(self) -> Count:
        return self.ahead

    @property
    def width(self) -> int | float:
        # Spans run along the rows, so what lies beside the patch is passed over and not skipped.
        return 2 * self.reach_of[0] * self.columns + 2 * self.reach_of[1] + 1

    def reach(self, at: Positions) -> Reach:
        return Reach((Span(at.query.double() - self.ahead, at.query.double() + self.ahead),))

    def meet(self, other: Visibility) -> Visibility | None:
        same = isinstance(other, Neighbourhood) and (other.columns, other.first) == (self.columns, self.first)
        if isinstance(other, Neighbourhood) and same:
            both = tuple(zip(self.reach_of, other.reach_of, strict=True))
            return Neighbourhood(self.columns, (min(both[0]), min(both[1])), self.first)
        return None

    def onnx(self, graph: Graph, places: Places) -> str:
        """|row(j) − row(i)| ≤ rows and |column(j) − column(i)| ≤ columns"""
        near, sides = [], list[str]()
        for part, reach in zip(("Div", "Mod"), self.reach_of, strict=True):
            query, key = (self._part(graph, place, part) for place in (places.query, places.key))
            near.append(graph.op("LessOrEqual", _apart(graph, query, key), graph.single(reach)))
        if self.first:
            for place, axis in ((places.query, 1), (places.key, 0)):
                patch = graph.op("GreaterOrEqual", place, graph.single(self.first))
                sides.append(graph.op("Unsqueeze", patch, graph.whole(axis)))
        return reduce(lambda one, other: graph.op("And", one, other), (*near, *sides))

    def _part(self, graph: Graph, place: str, part: str) -> str:
        """Rows ("Div") or columns ("Mod"). What is before the grid is hidden in any case, and counts from 0."""
        inside = graph.op("Max", graph.op("Sub", place, graph.single(self.first)), graph.single(0))
        return graph.op(part, inside, graph.single(self.columns))

    def __repr__(self) -> str:
        rows, columns = self.reach_of
        reach = rows if rows == columns else (rows, columns)
        first = f", first={self.first}" if self.first else ""
        return f"neighbourhood(columns={self.columns}, reach={reach}{first})"


def causal() -> Visibility:
    """A query sees the keys up to its own position: the triangle M of masked self-attention.

    >>> print(causal().picture(3, 3))
    # . .
    # # .
    # # #
    """
    return Causal()


def window(*, left: Count, right: Count) -> Visibility:
    """A query sees `left` keys before itself, itself, and `right` keys after; `math.inf` reaches everything.

    `window(left=2, right=0)` is the truncated self-attention of streaming speech models.

    >>> print(window(left=1, right=0).picture(4, 4))
    # . . .
    # # . .
    . # # .
    . . # #
    >>> window(left=math.inf, right=0)
    causal()
    """
    if left == math.inf and right == math.inf:
        return everything()
    return Causal() if left == math.inf and right == 0 else Window(left, right)  # kernels know causal() by name


def dilated(*, left: Count, right: Count, step: int) -> Visibility:
    """A window with gaps: `left` keys before the query, itself and `right` after, `step` apart.

    >>> print(dilated(left=1, right=1, step=2).picture(5, 5))
    # . # . .
    . # . # .
    # . # . #
    . # . # .
    . . # . #

    Reference: Beltagy et al. 2020 (Longformer), figure 2c.
    """
    return Dilated(left, right, step) if step != 1 else window(left=left, right=right)


def around(*, left: Count, right: Count) -> Visibility:
    """A query sees the keys within [p − left, p + right] of the centre p that it predicted, a real number.

    The centre is `Positions.centre`; without one it is the query's own position, as in local-m.

    >>> centre = torch.tensor([0.2, 2.5])[None, None, :, None]
    >>> at = Positions(query=torch.arange(2)[None, None, :, None], key=torch.arange(5)[None, None, None], centre=centre)
    >>> around(left=1, right=1)(at)[0, 0].int().tolist()
    [[1, 1, 0, 0, 0], [0, 0, 1, 1, 0]]

    Reference: Luong et al. 2015, section 3.2.
    """
    return Around(left, right)


def neighbourhood(*, columns: int, reach: int | tuple[int, int], first: int = 0) -> Visibility:
    """A patch of a picture sees the patches at most `reach` rows and columns away; `columns` is the picture's width.

    Positions count along the rows. In a picture of 3 × 3, the patch in the middle of the upper edge sees six:

    >>> visible = neighbourhood(columns=3, reach=1)(Positions.of(9, 9))[0, 0, 1]
    >>> visible.reshape(3, 3).int().tolist()
    [[1, 1, 1], [1, 1, 1], [0, 0, 0]]

    `first` is the position of the first patch. This rule hides the tokens before it, such as a class token, which
    another rule shows to all patches:

    >>> from foveate.attention import global_tokens
    >>> print((neighbourhood(columns=2, reach=(0, 1), first=1) | global_tokens(1)).picture(5, 5))
    # # # # #
    # # # . .
    # # # . .
    # . . # #
    # . . # #
    """
    numbers = whole_numbers("reach", reach)
    both = (numbers, numbers) if isinstance(numbers, int) else numbers
    require_whole(-math.inf, columns=columns, first=first)
    if columns < 1 or len(both) != 2 or min(both) < 0:
        raise ValueError(
            f"A grid has columns={columns} and a reach of {reach}: at least 1, and not negative, one for rows and "
            "columns or one for each."
        )
    if first < 0:
        raise ValueError(f"first={first} is the number of tokens before the grid, which is at least 0.")
    return Neighbourhood(columns, (both[0], both[1]), first)


def _apart(graph: Graph, query: str, key: str) -> str:
    """|j − i|: [query, key]"""
    there = graph.op("Unsqueeze", key, graph.whole(0))
    return graph.op("Abs", graph.op("Sub", there, graph.op("Unsqueeze", query, graph.whole(1))))


def number(value: Count) -> str:
    """A count as it is written in code."""
    return "math.inf" if math.isinf(value) else str(value)


def require_counts(what: str, of: str = "", *, left: Count, right: Count, whole: bool = True) -> None:
    """Raise TypeError for a side that is neither a (whole) number nor math.inf, ValueError for a negative one."""
    sides = {"left": left, "right": right}
    finite = {name: side for name, side in sides.items() if not (isinstance(side, float) and side == math.inf)}
    if whole:
        require_whole(-math.inf, **finite)
    else:
        require_real(positive=False, **finite)
    if left < 0 or right < 0:
        raise ValueError(f"{what} reaches left={left} and right={right}{of}: neither may be negative.")
