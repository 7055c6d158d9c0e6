"""Variants of rows in a store, such as speeds of recordings: which one training reads is a function of its step."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int64

from foveate.data.augmentation import speeds_of
from foveate.data.batch import Batch
from foveate.data.reader import RowMaker
from foveate.data.row import Row
from foveate.data.store import FeatureStore, RowStore


@runtime_checkable
class Augmenting(Protocol):
    """A row maker that changes the examples of training."""

    @property
    def varied(self) -> bool:
        """Whether examples have variants."""

    def variants(self, thing: Any) -> list[Row]:
        """Other rows of an example, such as speeds of a recording, as many for each."""

    def augmented(self, batch: Batch, examples: Sequence[int], *, seed: int, step: int) -> Batch:
        """A batch with random changes, which are functions of (seed, step, example)."""


def varies(rows: RowMaker) -> bool:
    """Whether training examples have variants."""
    return isinstance(rows, Augmenting) and rows.varied


def augmented(rows: RowMaker, batch: Batch, examples: Sequence[int], *, seed: int, step: int) -> Batch:
    """A batch of training as the row maker changes it; most leave it unchanged."""
    return rows.augmented(batch, examples, seed=seed, step=step) if isinstance(rows, Augmenting) else batch


class Draw(NamedTuple):
    """The seed and the step of a batch of training, by which variants and masks are drawn."""

    seed: int
    step: int


def drawn(
    rows: RowStore, variants: FeatureStore | None, examples: Sequence[int], draw: Draw | None
) -> list[np.ndarray]:
    """The rows of examples; with a `draw` and variants, each example's row or one of its variants, equally often.

    `variants` has the variants of example 0, then as many of example 1, and so on.
    """
    if draw is None or variants is None:
        return [rows[example] for example in examples]
    others = len(variants) // len(rows)
    numbers = speeds_of(examples, 1 + others, seed=draw.seed, step=draw.step)
    return [
        rows[example] if number == 0 else variants[example * others + number - 1]
        for example, number in zip(examples, numbers, strict=True)
    ]


def longest(lengths: Int64[np.ndarray, " rows"], variants: FeatureStore | None) -> Int64[np.ndarray, " rows"]:
    """The largest length of each row and its variants, which bounds the size of a batch."""
    if variants is None:
        return lengths
    return np.maximum(lengths, variants.lengths.reshape(len(lengths), -1).max(1))
