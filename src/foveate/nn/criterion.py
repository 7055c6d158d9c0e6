"""The lectures' five criteria for position vectors, each decided by an experiment."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from foveate.nn.position_vector import PositionConfig

MEANING = {
    "unique": "no two positions of a sequence have the same vector",
    "equal_distance": "one step is the same distance everywhere, in sequences of every length",
    "works_for_longer": "there is a vector for positions that no sequence has reached before",
    "bounded": "numbers do not grow with the length",
    "deterministic": "the position alone decides: no training, no seed",
}
SHORT, MIDDLE, TRAINED, LONGER = 10, 25, 64, 300
"""Sequence lengths of the experiments. `TRAINED` is the longest sequence in training; `LONGER` exceeds it."""
SAME = 1e-5
"""Rounding error: distances that differ by less are equal."""


@dataclass(frozen=True, kw_only=True)
class Criteria:
    """The criteria that a kind of position vector meets; `MEANING` defines each.

    >>> from foveate.nn import BinaryConfig, SinusoidalConfig
    >>> criteria(SinusoidalConfig())
    Criteria(unique=True, equal_distance=True, works_for_longer=True, bounded=True, deterministic=True)
    >>> criteria(BinaryConfig(), model_dim=8)
    Criteria(unique=True, equal_distance=False, works_for_longer=False, bounded=True, deterministic=True)
    """

    unique: bool
    equal_distance: bool
    works_for_longer: bool
    bounded: bool
    deterministic: bool


@torch.no_grad()
def criteria(config: PositionConfig, *, model_dim: int = 64) -> Criteria:
    """Test the five criteria on vectors of `model_dim` numbers. Learned positions need a `max_length` of 64."""
    with torch.random.fork_rng(devices=()):
        vectors = _vectors(config, model_dim, TRAINED)
        apart = torch.cdist(vectors, vectors).fill_diagonal_(torch.inf)
        parts = [_vectors(config, model_dim, length) for length in (SHORT, MIDDLE, TRAINED)]
        steps = torch.cat([part.diff(dim=0).norm(dim=-1) for part in parts])
        try:
            longest, longer = _vectors(config, model_dim, LONGER), True
        except ValueError:
            longest, longer = vectors, False
        return Criteria(
            unique=bool(apart.min() > SAME),
            equal_distance=bool((steps - steps[0]).abs().max() < SAME),
            works_for_longer=longer,
            bounded=bool(longest.abs().max() <= 1.0 + parts[0].abs().max()),
            deterministic=torch.equal(vectors, _vectors(config, model_dim, TRAINED, seed=1)),
        )


def _vectors(
    config: PositionConfig, model_dim: int, length: int, *, seed: int = 0
) -> Float[Tensor, "length model_dim"]:
    """The position vectors of a sequence of this length, from a new module."""
    torch.manual_seed(seed)
    position = config.build(model_dim).double()
    vectors: Tensor = position(torch.arange(length), torch.tensor([length]))
    return vectors.double()
