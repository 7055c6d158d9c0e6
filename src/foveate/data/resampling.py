"""Scales pictures by an antialiased linear filter, and fits them into another shape."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from jaxtyping import Float, Real, UInt8

Fit = Literal["crop", "pad", "stretch"]
SMALL = 1 << 16
"""Pictures of at most so many numbers are scaled by one product, with a matrix of at most as many."""
LONG = 1 << 14
"""Weights of axes of at most so many pixels are kept for the next picture."""
Box = tuple[float, float, float, float]
"""A part of a picture: its first row and column, and its numbers of rows and columns, in pixels."""


def resized(
    pixels: UInt8[np.ndarray, "rows columns channels"], size: tuple[int, int], box: Box | None = None
) -> UInt8[np.ndarray, "new_rows new_columns channels"]:
    """A picture, or the part in `box`, with `size` rows and columns.

    out_o = Σ_i w_oi in_i, with w_oi ∝ max(0, 1 − |i + ½ − c_o| / s), c_o the centre of the new pixel in the old picture
    and s its side there, at least 1. So every old pixel counts when a picture becomes smaller.

    >>> ramp = np.arange(0, 240, 30, dtype=np.uint8)[None, :, None]
    >>> resized(ramp, (1, 4)).ravel(), resized(ramp[:, :2], (1, 4)).ravel()
    (array([ 21,  75, 135, 189], dtype=uint8), array([ 0,  8, 22, 30], dtype=uint8))

    It differs from Pillow's `resize(…, BILINEAR)`, which rounds between rows and columns, by one level at most.

    Memory is bounded for all shapes: of r × c pixels for R × C, the rows are scaled first, which is fast and leaves
    Rc numbers in between, unless that is more than 2rC: so there are at most √(2rc · RC) ≤ rc + RC.
    """
    rows, columns = pixels.shape[:2]
    top, left, height, width = box or (0.0, 0.0, float(rows), float(columns))
    if (rows, columns) == size and box is None:
        return pixels
    down, across = _Axis(rows, size[0], top, height), _Axis(columns, size[1], left, width)
    part = pixels[down.needed, across.needed]
    if down.new * part.shape[1] <= 2 * part.shape[0] * across.new:
        result = _scaled(_scaled(part, down).swapaxes(0, 1), across).swapaxes(0, 1)
    else:
        result = _scaled(_scaled(part.swapaxes(0, 1), across).swapaxes(0, 1), down)
    return np.rint(result).clip(0, 255).astype(np.uint8)


def fitted(
    pixels: UInt8[np.ndarray, "rows columns channels"], size: tuple[int, int], fit: Fit
) -> UInt8[np.ndarray, "new_rows new_columns channels"]:
    """A picture with `size` rows and columns.

    crop: the largest part of its middle with the new shape is scaled; pad: the whole picture is scaled, with black bars
    at two sides; stretch: rows and columns are scaled separately.

    >>> wide = np.full((2, 8, 1), 200, np.uint8)
    >>> [fitted(wide, (4, 4), fit)[:, 0, 0].tolist() for fit in ("crop", "pad", "stretch")]
    [[200, 200, 200, 200], [0, 200, 0, 0], [200, 200, 200, 200]]
    """
    rows, columns = pixels.shape[:2]
    if (rows, columns) == size or fit == "stretch":
        return resized(pixels, size)
    shares = size[0] / rows, size[1] / columns
    if fit == "crop":
        height, width = size[0] / max(shares), size[1] / max(shares)
        return resized(pixels, size, ((rows - height) / 2, (columns - width) / 2, height, width))
    inner = tuple(min(max(round(min(shares) * old), 1), new) for old, new in zip((rows, columns), size, strict=True))
    result = np.zeros((*size, pixels.shape[2]), np.uint8)
    top, left = (size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2
    result[top : top + inner[0], left : left + inner[1]] = resized(pixels, (inner[0], inner[1]))
    return result


Tap = tuple[int, np.ndarray]
"""The first old pixel that a new pixel is made of, and the weights of this and the next ones."""


@dataclass(frozen=True)
class _Axis:
    """Pixels along one axis: `new` ones for the `length` from `start` among the `old`."""

    old: int
    new: int
    start: float
    length: float

    @property
    def needed(self) -> slice:
        """The old pixels that have a weight."""
        return slice(self._ends(0)[0], self._ends(self.new - 1)[1])

    def taps(self) -> Iterator[Tap]:
        """The weights of each new pixel, counted from the first of the needed ones."""
        begin = self.needed.start
        for place in range(self.new):
            first, last = self._ends(place)
            weights = np.maximum(1 - np.abs(np.arange(first, last) + 0.5 - self._centre(place)) / self._reach, 0)
            yield first - begin, (weights / weights.sum()).astype(np.float32)

    @property
    def _reach(self) -> float:
        return max(self.length / self.new, 1.0)

    def _centre(self, place: int) -> float:
        return self.start + (place + 0.5) * (self.length / self.new)

    def _ends(self, place: int) -> tuple[int, int]:
        centre, reach = self._centre(place), self._reach
        return max(int(centre - reach + 0.5), 0), min(int(centre + reach + 0.5), self.old)


@lru_cache(maxsize=32)
def _kept(axis: _Axis) -> tuple[Tap, ...]:
    return tuple(axis.taps())


def _scaled(pixels: Real[np.ndarray, "old others channels"], axis: _Axis) -> Float[np.ndarray, "new others channels"]:
    """A picture that is scaled along its first axis."""
    taps = _kept(axis) if axis.old <= LONG else axis.taps()
    return _weighed(pixels.reshape(len(pixels), -1), taps, axis.new).reshape(axis.new, *pixels.shape[1:])


def _weighed(lines: Real[np.ndarray, "old numbers"], taps: Iterable[Tap], new: int) -> Float[np.ndarray, "new numbers"]:
    """The weighted sums of lines. One product is faster for small pictures, one for each line for large ones."""
    if max(lines.size, new * len(lines)) <= SMALL:
        matrix = np.zeros((new, len(lines)), np.float32)
        for line, (first, weights) in enumerate(taps):
            matrix[line, first : first + len(weights)] = weights
        return matrix @ lines.astype(np.float32)
    result = np.empty((new, lines.shape[1]), np.float32)
    for line, (first, weights) in enumerate(taps):
        result[line] = weights @ lines[first : first + len(weights)].astype(np.float32)
    return result
