"""What a head does, in one number per query, and lift: definitions that every provider and every picture shares.

With p = α / Σ α of a row; rows that look at nothing are left out (NaN).

entropy      −Σ p ln p, in nats
distance     Σ p |key position − query position|
sink         p of the first key
diagonality  Σ p (1 − |i / (n − 1) − j / (m − 1)|): 1 follows the diagonal from corner to corner
previous     p of the key just before the query; rows without such a key are left out
induction    p on the keys that follow an earlier occurrence of the query's label; rows without such a key are left out
"""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from foveate.inspect.trace.site import Site
from foveate.inspect.trace.trace import Trace

NOTHING = 1e-12
"""What a row sums to that looks at nothing."""
MEASURES = ("entropy", "distance", "sink", "diagonality", "previous", "induction")


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


def along(count: int) -> Float[Tensor, " count"]:
    """Places from 0 at the first to 1 at the last."""
    return torch.arange(count, dtype=torch.float32) / max(count - 1, 1)


def numbered(trace: Trace, site: Site) -> Int[Tensor, " keys"] | None:
    """The labels of a self-attention as numbers; None where queries and keys are not the same places."""
    track = trace.tracks[site.key]
    if site.kind != "self" or site.query != site.key or len(track) != site.queries or site.queries != site.keys:
        return None
    numbers = {label: number for number, label in enumerate(dict.fromkeys(track.labels))}
    return torch.tensor([numbers[label] for label in track.labels])
