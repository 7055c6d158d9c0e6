"""Mixup: examples that are blended with others, and so are their labels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from foveate.data.labelled_store import RowBatch
from foveate.data.reader import RowMaker


class Mixture(NamedTuple):
    """For each example of a batch the number of its partner, and the share of the example itself, from 0 to 1."""

    partners: tuple[int, ...]
    shares: Float[Tensor, " batch"]


@runtime_checkable
class Mixing(Protocol):
    """A row maker that blends the examples of training."""

    def mixture(self, examples: Sequence[int], count: int, *, seed: int, step: int) -> Mixture | None:
        """The partners of examples among `count`, a function of (seed, step, example); None without Mixup."""


@dataclass(frozen=True, eq=False)
class MixedBatch(RowBatch):
    """Blended rows: share · row + (1 − share) · partner, with both labels."""

    others: Int[Tensor, " labelled"]
    """The labels of the partners."""
    shares: Float[Tensor, " labelled"]


def mixture_of(rows: RowMaker, examples: Sequence[int], count: int, *, seed: int, step: int) -> Mixture | None:
    """The partners of examples; most row makers have none."""
    return rows.mixture(examples, count, seed=seed, step=step) if isinstance(rows, Mixing) else None


def mixed(batch: RowBatch, partners: RowBatch, shares: Float[Tensor, " batch"]) -> MixedBatch:
    """A batch blended with its partners, whose rows have the same lengths."""
    own = shares[:, None, None]
    values = own * batch.rows.features + (1 - own) * partners.rows.features
    return MixedBatch(replace(batch.rows, values=values), batch.labels, batch.examples, partners.labels, shares)
