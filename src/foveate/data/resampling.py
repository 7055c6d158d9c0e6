"""Scales pictures by an antialiased linear filter, and fits them into another shape."""

from functools import lru_cache
from typing import Literal

import numpy as np
from jaxtyping import Float, Real, UInt8

Fit = Literal["crop", "pad", "stretch"]
SMALL = 1 << 16
"""Pictures of at most so many numbers are scaled by one product."""
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
    """
    rows, columns = pixels.shape[:2]
    top, left, height, width = box or (0.0, 0.0, float(rows), float(columns))
    if (rows, columns) == size and box is None:
        return pixels
    between = _weighed(pixels.reshape(rows, -1), _taps(rows, size[0], top, height)).reshape(size[0], columns, -1)
    across = between.swapaxes(0, 1).reshape(columns, -1)
    result = _weighed(across, _taps(columns, size[1], left, width)).reshape(size[1], size[0], -1).swapaxes(0, 1)
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


Taps = tuple[tuple[int, np.ndarray], ...]
"""For each new pixel the first old pixel that it is made of, and the weights of this and the next ones."""


@lru_cache(maxsize=32)
def _taps(old: int, new: int, start: float, length: float) -> Taps:
    scale = length / new
    reach = max(scale, 1.0)
    taps = []
    for place in range(new):
        centre = start + (place + 0.5) * scale
        first, last = max(int(centre - reach + 0.5), 0), min(int(centre + reach + 0.5), old)
        weights = np.maximum(1 - np.abs(np.arange(first, last) + 0.5 - centre) / reach, 0)
        taps.append((first, (weights / weights.sum()).astype(np.float32)))
    return tuple(taps)


def _weighed(lines: Real[np.ndarray, "old numbers"], taps: Taps) -> Float[np.ndarray, "new numbers"]:
    """The weighted sums of lines. One product is faster for small pictures, one for each line for large ones."""
    if lines.size <= SMALL:
        matrix = np.zeros((len(taps), len(lines)), np.float32)
        for line, (first, weights) in enumerate(taps):
            matrix[line, first : first + len(weights)] = weights
        return matrix @ lines.astype(np.float32)
    result = np.empty((len(taps), lines.shape[1]), np.float32)
    for line, (first, weights) in enumerate(taps):
        result[line] = weights @ lines[first : first + len(weights)].astype(np.float32)
    return result
