"""Measures of heads, with one number per query. All providers use these definitions.

p is α / Σ α of a row; rows without visible keys are left out (NaN).

entropy      −Σ p ln p, in nats
distance     Σ p |key position − query position|
sink         p of the first key
diagonality  Σ p (1 − |i / (n − 1) − j / (m − 1)|): 1 follows the diagonal from corner to corner
previous     p of the key just before the query; rows without this key are left out
induction    Σ p of the keys that follow an earlier occurrence of the query's label; rows without such keys are left out
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.inspect.trace.site import Site
from foveate.inspect.trace.trace import Trace

NOTHING = 1e-12
"""The limit on the sum of a row without visible keys."""
MEASURES = ("entropy", "distance", "sink", "diagonality", "previous", "induction")


def along(count: int) -> Float[Tensor, " count"]:
    """Positions from 0 for the first to 1 for the last."""
    return torch.arange(count, dtype=torch.float32) / max(count - 1, 1)


def numbered(trace: Trace, site: Site) -> Int[Tensor, " keys"] | None:
    """The labels of a self-attention as numbers; None if queries and keys have different positions."""
    track = trace.tracks[site.key]
    if site.kind != "self" or site.query != site.key or len(track) != site.queries or site.queries != site.keys:
        return None
    numbers = {label: number for number, label in enumerate(dict.fromkeys(track.labels))}
    return torch.tensor([numbers[label] for label in track.labels])
