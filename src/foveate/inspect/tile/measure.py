"""What a head does, in one number per query: definitions that every provider shares.

entropy      −Σ α ln α, in nats
distance     Σ α |key position − query position|
sink         the weight of the first key
diagonality  the weight near the diagonal: within 2 % of the keys, and one at least
previous     the weight of the key just before the query
induction    the weight on earlier keys that followed the same label as the query's
"""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from foveate.inspect.trace.site import Site
from foveate.inspect.trace.trace import Trace

NEAR = 0.02
MEASURES = ("entropy", "distance", "sink", "diagonality", "previous", "induction")


def first_real(site: Site) -> int:
    """The number of the first key that is no padding."""
    real = site.tensors.get("real")
    return 0 if real is None or not bool(real.any()) else int(real.int().argmax())


def centre_of(site: Site) -> Float[Tensor, " queries"]:
    """Where the diagonal crosses each row, as a number of a key."""
    if site.kind == "self":
        return (site.query_position - site.key_position[0]).double() if site.keys else site.query_position.double()
    return torch.arange(site.queries, dtype=torch.float64) * (max(site.keys - 1, 0) / max(site.queries - 1, 1))


def width_of(site: Site) -> float:
    """How far from the diagonal is near."""
    return max(1.0, NEAR * site.keys)


def diagonal_band(site: Site) -> Bool[np.ndarray, "queries keys"]:
    away = torch.arange(site.keys) - centre_of(site)[:, None]
    return (away.abs() <= width_of(site)).numpy()


def numbered(trace: Trace, site: Site) -> Int[Tensor, " keys"] | None:
    """The labels of a self-attention as numbers; None where they are not words of a language."""
    track = trace.tracks[site.key]
    if site.kind != "self" or site.query != site.key or track.kind != "tokens" or len(track) != site.queries:
        return None
    numbers = {label: number for number, label in enumerate(dict.fromkeys(track.labels))}
    return torch.tensor([numbers[label] for label in track.labels])


def induction_pairs(trace: Trace, site: Site) -> Bool[np.ndarray, "queries keys"] | None:
    """Keys before the query whose preceding label is the query's label."""
    labels = numbered(trace, site)
    if labels is None or site.queries != site.keys:
        return None
    before = torch.full_like(labels, -1)
    before[1:] = labels[:-1]
    place = torch.arange(len(labels))
    return ((before == labels[:, None]) & (place < place[:, None])).numpy()
