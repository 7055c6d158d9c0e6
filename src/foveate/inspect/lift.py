"""Lift: how many times as much as an equal share. The one definition, for tiles, the viewer's server and pictures."""

import numpy as np
from jaxtyping import Bool, Float, Int

Shares = float | Float[np.ndarray, "query key"]
Counts = int | Int[np.ndarray, "query 1"]


def lift(weight: Shares, count: Counts) -> Shares:
    """How many times as much as an equal share: weight × number of keys that the query sees.

    1 looks at all it may look at alike. `count` is one number, or a column of one number a row.

    >>> lift(0.5, 4)
    2.0
    """
    return weight * count


def equal(visible: Bool[np.ndarray, "query key"]) -> Float[np.ndarray, "query key"]:
    """The weights of a head that looks at all it may look at alike. What a word, or any other block, weighs over what
    it would weigh so is its lift.

    >>> equal(np.array([[True, True, False], [False, False, False]]))
    array([[0.5, 0.5, 0. ],
           [0. , 0. , 0. ]], dtype=float32)
    """
    counts = visible.sum(-1, keepdims=True)
    return (visible / np.maximum(counts, 1)).astype(np.float32)
