"""Forms batches of more examples than can be shuffled in memory: shards are shuffled, then the examples of each."""

from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int, Int64, Integer

from foveate.data.batching import BatchPlan

SHARD = 100_000_000
"""Examples that are shuffled together, which takes about 40 bytes of memory for each."""


@runtime_checkable
class Lengths(Protocol):
    """Rows on a disk, whose lengths can be read part by part."""

    def __len__(self) -> int: ...

    def lengths_between(self, start: int, stop: int) -> Int64[np.ndarray, " rows"]:
        """The lengths of a stretch of rows."""


class ShardPlan:
    """Batches like those of a `BatchPlan`, in which an epoch reads one shard after the other.

    A shard is a stretch of the stored examples, and all have the same size, give or take one. Every epoch shuffles the
    shards, and within each the batches and the examples. The examples of a step still follow from (seed, step) alone.
    Memory is needed for one shard at a time. Examples of different shards never meet in a batch, and stretches of the
    data that differ, such as two corpora, are read apart: mix the lines of such files before.

    Raises DataError like `BatchPlan`.
    """

    def __init__(
        self,
        source: Lengths,
        target: Lengths | None = None,
        *,
        shard: int,
        max_tokens: int,
        seed: int,
        lines: Integer[np.ndarray, " examples"] | None = None,
    ) -> None:
        self.source, self.target, self.lines = source, target, lines
        self.max_tokens, self.seed = max_tokens, seed
        count = max(-(-len(source) // shard), 1)
        self._bounds = [len(source) * number // count for number in range(count + 1)]
        self._shard: tuple[int, BatchPlan] | None = None
        self._steps = np.array([self._plan(number).steps_per_epoch for number in range(count)])

    @property
    def num_shards(self) -> int:
        return len(self._steps)

    @property
    def steps_per_epoch(self) -> int:
        return int(self._steps.sum())

    def examples(self, step: int) -> Int[np.ndarray, " rows"]:
        """The numbers of the examples of a step. Steps are counted over all epochs."""
        epoch, index = divmod(step, self.steps_per_epoch)
        order = np.random.default_rng([self.seed % (1 << 64), epoch]).permutation(self.num_shards)
        ends = np.cumsum(self._steps[order])
        place = int(np.searchsorted(ends, index, side="right"))
        number = int(order[place])
        within = index - int(ends[place] - self._steps[number])
        # The step of this shard in this epoch, as if there were no other shard.
        examples = self._plan(number).examples(epoch * int(self._steps[number]) + within)
        return self._bounds[number] + examples

    def _plan(self, number: int) -> BatchPlan:
        """The batches of a shard. The last one is kept."""
        if self._shard is None or self._shard[0] != number:
            self._shard = None  # before the next one takes its memory
            start, stop = self._bounds[number : number + 2]
            self._shard = (
                number,
                BatchPlan(
                    *_lengths(self.source, self.target, start, stop),
                    max_tokens=self.max_tokens,
                    seed=self.seed,
                    lines=None if self.lines is None else self.lines[start:stop],
                    shard=number,
                ),
            )
        return self._shard[1]


def plan_of(
    source: Lengths,
    target: Lengths | None = None,
    *,
    max_tokens: int,
    seed: int,
    lines: Integer[np.ndarray, " examples"] | None = None,
    shard: int | None = None,
) -> BatchPlan | ShardPlan:
    """The batches of stored pairs, or of single rows, in shards if there are more than `shard` of them (by default 100
    million).
    """
    if len(source) > (shard or SHARD):
        return ShardPlan(source, target, shard=shard or SHARD, max_tokens=max_tokens, seed=seed, lines=lines)
    return BatchPlan(*_lengths(source, target, 0, len(source)), max_tokens=max_tokens, seed=seed, lines=lines)


def _lengths(source: Lengths, target: Lengths | None, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
    """The lengths of both sides of a stretch; those of a second side that is missing are 0."""
    lengths = source.lengths_between(start, stop)
    return lengths, np.zeros_like(lengths) if target is None else target.lengths_between(start, stop)
