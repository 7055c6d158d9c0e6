"""Numbers that are stored as bytes, such as the levels of pixels."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, UInt8

from foveate.errors import DataError

_EXACT = 1e-2
"""The largest distance between a number and its level, in levels: sums in float32 are a thousand times as exact."""


@dataclass(frozen=True)
class Levels:
    """number = offset + step · byte, for vectors whose numbers are bytes; both repeat along a vector.

    >>> levels = Levels(offset=(-1.0,), step=(1 / 127.5,))
    >>> levels.numbers(np.array([[0, 255]], np.uint8))
    array([[-1.,  1.]], dtype=float32)
    """

    offset: tuple[float, ...]
    step: tuple[float, ...]

    def require(self, width: int) -> None:
        """Raise ValueError unless they fit vectors of this width."""
        if len(self.offset) != len(self.step) or width % len(self.step) or not min(self.step) > 0:
            raise ValueError(f"offset and step need equal lengths that divide {width}, and steps above 0")

    def numbers(self, values: UInt8[np.ndarray, "length width"]) -> Float[np.ndarray, "length width"]:
        offset, step = self._along(values.shape[1])
        return values * step + offset

    def bytes(self, numbers: Float[np.ndarray, "length width"]) -> UInt8[np.ndarray, "length width"]:
        """The inverse of `numbers`. Raises DataError for a number that is not one of them."""
        offset, step = self._along(numbers.shape[1])
        exact = (numbers - offset) / step
        nearest = np.rint(exact)
        if not ((np.abs(exact - nearest) <= _EXACT) & (nearest >= 0) & (nearest <= 255)).all():
            raise DataError("A row has a number that is not one of 256 levels, and it would be stored as another.")
        return nearest.astype(np.uint8)

    def _along(self, width: int) -> tuple[Float[np.ndarray, " width"], Float[np.ndarray, " width"]]:
        offset, step = (np.tile(np.array(one, np.float32), width // len(one)) for one in (self.offset, self.step))
        return offset, step
