"""Forms batches of examples with little padding, within a budget of tokens, and in a reproducible order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Integer

from foveate.errors import DataError
from foveate.interruption import ask

READ = 4096
"""The number of padded tokens in a batch of a trained model."""
_WORTH = 0.25
"""A bucket is split if that saves padding of at least this share of a batch. For words and characters of 5,000 to a
million pairs, this value gave the fewest batches. With less padding, buckets would be so small that the same pairs form
a batch in every epoch.
"""


def groups(lengths: Sequence[int], budget: int = READ) -> Iterator[list[int]]:
    """The indices of texts in groups of similar length, whose padded size is within the budget. Empty texts are left
    out. Before each group the caller is asked whether the work goes on (`foveate.interruption`).

    >>> list(groups([9, 2, 0, 3], budget=10))
    [[1, 3], [0]]
    """
    group: list[int] = []
    for index in sorted((i for i, length in enumerate(lengths) if length), key=lambda i: lengths[i]):
        if group and (len(group) + 1) * lengths[index] > budget:
            ask()
            yield group
            group = []
        group.append(index)
    if group:
        ask()
        yield group


class BatchPlan:
    """Batches of pairs of similar lengths: rows × (longest source + longest target) ≤ `max_tokens`, padding included.

    A bucket is a rectangle of source and target lengths; buckets are split where that saves most padding.
    Every epoch shuffles within the buckets, cuts them into batches, and shuffles the batches. The number of batches is
    the same in each epoch, so the examples of a step follow from (seed, step) alone: nothing has to be stored for
    resuming.

    >>> plan = BatchPlan(np.array([3, 9, 3, 2]), np.array([2, 9, 3, 2]), max_tokens=18, seed=0)
    >>> [plan.examples(step).tolist() for step in range(plan.steps_per_epoch)]
    [[2, 0, 3], [1]]

    Raises DataError without pairs, and for a pair that exceeds the budget, which the message names by its line.
    """

    def __init__(
        self,
        source_lengths: Int[np.ndarray, " examples"],
        target_lengths: Int[np.ndarray, " examples"],
        *,
        max_tokens: int,
        seed: int,
        lines: Integer[np.ndarray, " examples"] | None = None,
        shard: int | None = None,
    ) -> None:
        """`shard` is the number of the shard whose examples these are, which has an order of its own."""
        self.max_tokens, self.seed = max_tokens, seed
        self._stream = [] if shard is None else [shard]
        self._source = np.asarray(source_lengths, dtype=np.int64)
        self._target = np.asarray(target_lengths, dtype=np.int64)
        _require_room(self._source, self._target, max_tokens, lines)
        bucket, counts, rows = _buckets(self._source, self._target, max_tokens)
        # As few bits as possible: the stable sort of 16-bit numbers is many times faster.
        self._bucket = bucket.astype(np.uint16 if len(counts) <= 1 << 16 else np.int64)
        self._ends = _batch_ends(counts, rows)
        self._epoch: tuple[int, np.ndarray, np.ndarray] | None = None

    @property
    def steps_per_epoch(self) -> int:
        return len(self._ends) - 1

    def examples(self, step: int) -> Int[np.ndarray, " rows"]:
        """The numbers of the examples of a step. Steps are counted over all epochs."""
        epoch, index = divmod(step, self.steps_per_epoch)
        order, batches = self._arrangement(epoch)
        batch = batches[index]
        return order[self._ends[batch] : self._ends[batch + 1]]

    @property
    def padding_fraction(self) -> float:
        """The share of padding among the tokens of the first epoch."""
        order, _ = self._arrangement(0)
        starts, rows = self._ends[:-1], np.diff(self._ends)
        padded = sum(
            int((np.maximum.reduceat(lengths[order], starts) * rows).sum()) for lengths in (self._source, self._target)
        )
        return 1 - float(self._source.sum() + self._target.sum()) / padded

    def __str__(self) -> str:
        return (
            f"{len(self._source):,} pairs in {self.steps_per_epoch:,} batches of up to {self.max_tokens:,} tokens, "
            f"{100 * self.padding_fraction:.1f} % padding"
        )

    def _arrangement(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """The examples of an epoch, bucket by bucket, and the order of its batches. The last result is kept."""
        if self._epoch is None or self._epoch[0] != epoch:
            generator = np.random.default_rng([self.seed % (1 << 64), epoch, *self._stream])
            shuffled = generator.permutation(len(self._source))
            order = shuffled[np.argsort(self._bucket[shuffled], kind="stable")]
            self._epoch = epoch, order, generator.permutation(self.steps_per_epoch)
        return self._epoch[1:]


def _require_room(
    source: np.ndarray, target: np.ndarray, max_tokens: int, lines: Integer[np.ndarray, " examples"] | None
) -> None:
    if not len(source):
        raise DataError("There are no pairs for batches. See the report on the lines that were left out.")
    needed = source + target
    longest = int(needed.argmax())
    if needed[longest] > max_tokens:
        name = f"Example {longest} (counted from 0)" if lines is None else f"The pair of line {lines[longest]}"
        raise DataError(
            f"{name} has {source[longest]:,} source and {target[longest]:,} target tokens, {needed[longest]:,} in all; "
            f"a batch has room for {max_tokens:,}. Raise max_tokens, or lower max_length to leave such pairs out."
        )


@dataclass(frozen=True)
class _Cells:
    """The different pairs of lengths, with the number of examples of each."""

    source: np.ndarray
    target: np.ndarray
    count: np.ndarray

    def take(self, chosen: np.ndarray) -> "_Cells":
        return _Cells(self.source[chosen], self.target[chosen], self.count[chosen])


def _buckets(source: np.ndarray, target: np.ndarray, max_tokens: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The bucket of each example; the number of examples in each bucket; the number of rows in a batch of it."""
    width = int(source.max()) + 1
    keys, inverse, counts = np.unique(target * width + source, return_inverse=True, return_counts=True)
    cells = _Cells(keys % width, keys // width, counts)
    bucket_of_cell = np.zeros(len(keys), dtype=np.int64)
    sizes: list[int] = []
    rows: list[int] = []
    pending = [np.arange(len(keys))]
    while pending:
        members = pending.pop()
        part = cells.take(members)
        split = _best_split(part, max_tokens)
        if split is not None:
            pending += [members[split], members[~split]]
            continue
        bucket_of_cell[members] = len(sizes)
        sizes.append(int(part.count.sum()))
        # A single pair has room, even where the longest source and the longest target of different pairs have not.
        rows.append(max(max_tokens // int(part.source.max() + part.target.max()), 1))
    return bucket_of_cell[inverse.ravel()], np.array(sizes), np.array(rows)


def _best_split(cells: _Cells, max_tokens: int) -> np.ndarray | None:
    """The cells of the split that saves most padding; None if no split saves enough."""
    total = int(cells.count.sum())
    best = total * int(cells.source.max() + cells.target.max()) - int(_WORTH * max_tokens)
    split = None
    for along, across in ((cells.target, cells.source), (cells.source, cells.target)):
        order = np.argsort(along, kind="stable")
        along, across, count = along[order], across[order], cells.count[order]
        last = np.flatnonzero(along[1:] != along[:-1])  # the last cell before each possible cut
        if not len(last):
            continue
        below = np.cumsum(count)[last]
        longest_below = along[last] + np.maximum.accumulate(across)[last]
        longest_above = along[-1] + np.maximum.accumulate(across[::-1])[::-1][last + 1]
        tokens = below * longest_below + (total - below) * longest_above
        cut = int(tokens.argmin())
        if tokens[cut] < best:
            best, split = int(tokens[cut]), np.zeros(len(order), dtype=bool)
            split[order[: last[cut] + 1]] = True
    return split


def _batch_ends(counts: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The ends of batches among the examples of all buckets; within a bucket, sizes differ by at most one row."""
    ends = [0]
    for count, most in zip(counts.tolist(), rows.tolist(), strict=True):
        batches = -(-count // most)
        ends += (ends[-1] + np.arange(1, batches + 1) * count // batches).tolist()
    return np.array(ends)
