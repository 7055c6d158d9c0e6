"""Encodes weights in 16 bits: logarithmic steps of 0.03 %, and codes for zero, hidden pairs and NaN.

Only normalisers that do not divide, such as ReLU, give weights above 1; there is room for weights up to 256.
"""

import numpy as np
from jaxtyping import Bool, Float, UInt16

STEPS = 2048
"""Codes per factor of two."""
ONE = 8 * STEPS
"""The code of 1."""
SMALLEST, UNKNOWN, HIDDEN, ZERO = 65532, 65533, 65534, 65535
"""The codes of positive weights up to 2^−24, of NaN, of a cell without visible pairs, and of a weight of exactly 0."""
SIZE = 256
"""The number of cells along the side of a tile."""


def encode(
    weights: Float[np.ndarray, "rows columns"], visible: Bool[np.ndarray, "rows columns"] | None = None
) -> UInt16[np.ndarray, "rows columns"]:
    """round(16384 − 2048 · log2 w), between 0 (256 or more) and 65532.

    >>> encode(np.array([[2.0, 1.0, 0.5, 0.0, 1e-30]])).tolist()
    [[14336, 16384, 18432, 65535, 65532]]
    >>> encode(np.array([[0.0, 0.3, np.nan]]), np.array([[False, True, True]])).tolist()
    [[65534, 19941, 65533]]
    """
    positive = weights > 0
    logs = np.log2(weights, where=positive, out=np.zeros(weights.shape, dtype=np.float32), casting="unsafe")
    codes = np.clip(np.rint(ONE - STEPS * logs), 0, SMALLEST)
    codes = np.where(positive, codes, np.where(np.isnan(weights), UNKNOWN, ZERO))
    return (codes if visible is None else np.where(visible, codes, HIDDEN)).astype(np.uint16)


def decode(codes: UInt16[np.ndarray, "rows columns"]) -> Float[np.ndarray, "rows columns"]:
    """The weights of codes; 0 for hidden cells."""
    weights = np.exp2((ONE - codes.astype(np.float32)) / STEPS)
    weights[codes == UNKNOWN] = np.nan
    return np.where(codes >= HIDDEN, np.float32(0.0), weights)


def framed(codes: UInt16[np.ndarray, "rows columns"], size: int = SIZE) -> UInt16[np.ndarray, "size size"]:
    """A complete tile with these codes in its upper left corner and hidden cells elsewhere."""
    tile = np.full((size, size), HIDDEN, dtype=np.uint16)
    tile[: codes.shape[0], : codes.shape[1]] = codes
    return tile
