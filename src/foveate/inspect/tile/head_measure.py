"""What a head does, in one number per query: definitions that every provider shares.

With p = α / Σ α of a row; rows that look at nothing are left out (NaN).

entropy      −Σ p ln p, in nats
distance     Σ p |key position − query position|
sink         p of the first key
diagonality  Σ p (1 − |i / (n − 1) − j / (m − 1)|): 1 follows the diagonal from corner to corner
previous     p of the key just before the query; rows without such a key are left out
induction    p on the keys that follow an earlier occurrence of the query's label; rows without such a key are left out
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.inspect.trace.site import Site
from foveate.inspect.trace.trace import Trace

NOTHING = 1e-12
"""What a row sums to that looks at nothing."""
MEASURES = ("entropy", "distance", "sink", "diagonality", "previous", "induction")


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
