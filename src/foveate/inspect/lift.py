"""Lift is the ratio of a weight to an equal share. Tiles, the viewer's server and pictures use this definition."""

import numpy as np
from jaxtyping import Bool, Float, Int

Shares = float | Float[np.ndarray, "query key"]
Counts = int | Int[np.ndarray, "query 1"]


def lift(weight: Shares, count: Counts) -> Shares:
    """The ratio of a weight to an equal share: weight × number of keys that the query sees.

    1 means equal weights for all visible keys. `count` is one number, or a column with one number per row.

    >>> lift(0.5, 4)
    2.0
    """
    return weight * count


def equal(visible: Bool[np.ndarray, "query key"]) -> Float[np.ndarray, "query key"]:
    """Equal weights for all visible keys. The lift of a word, or of any other block, is its weight divided by its
    equal weight.

    >>> equal(np.array([[True, True, False], [False, False, False]]))
    array([[0.5, 0.5, 0. ],
           [0. , 0. , 0. ]], dtype=float32)
    """
    counts = visible.sum(-1, keepdims=True)
    return (visible / np.maximum(counts, 1)).astype(np.float32)
