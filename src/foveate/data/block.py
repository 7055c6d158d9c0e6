"""Splits a long text into blocks: the tokens of each row of each batch are a pure function of the step."""

import itertools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Integer

from foveate.errors import DataError

SHARD = 100_000_000
"""Rows that are shuffled together."""


class BlockPlan:
    """Consecutive rows of `length` tokens of one text, for training on the next token at every position.

    A row contains one token more, which is only predicted. Every epoch begins at another offset and shuffles the rows,
    so that the boundaries of rows, at which the preceding text is unknown, move through the text. The
    number of batches is the same in each epoch, so that the rows of a step follow from (seed, step) alone.

    >>> plan = BlockPlan(num_tokens=10, length=3, rows=2, seed=0)
    >>> [plan.starts(step).tolist() for step in range(plan.steps_per_epoch)]
    [[2, 5]]
    >>> plan.read(np.arange(10), plan.starts(0)).tolist()
    [[2, 3, 4, 5], [5, 6, 7, 8]]

    Of more rows than a `shard` has (by default 100 million), the shards are shuffled, then the rows of each.

    A text that is shorter than a row is one row. Raises DataError for a text without a token to predict.
    """

    def __init__(self, *, num_tokens: int, length: int, rows: int, seed: int, shard: int | None = None) -> None:
        if num_tokens < 2:
            raise DataError(f"The text has {num_tokens} tokens: there is nothing to predict. Give a longer text.")
        self.num_tokens, self.seed = num_tokens, seed
        self.length = min(length, num_tokens - 1)
        # One row less than fits, so that every offset has the same number.
        self.num_rows = max((num_tokens - self.length) // self.length, 1)
        self.rows = min(rows, self.num_rows)
        whole = max((shard or SHARD) // self.rows, 1)  # complete batches of every shard but the last
        self._steps = np.diff([*range(0, self.steps_per_epoch, whole), self.steps_per_epoch])
        self._bounds = np.append(np.cumsum([0, *self._steps[:-1]]) * self.rows, self.num_rows)
        self._epoch, self._shard, self._offset = -1, -1, 0
        self._shards = self._ends = self._rows = np.arange(0)

    @property
    def steps_per_epoch(self) -> int:
        """The number of complete batches; the remaining rows of an epoch are not used in it."""
        return self.num_rows // self.rows

    def starts(self, step: int) -> Int[np.ndarray, " rows"]:
        """The first tokens of the rows of a step. Steps are counted over all epochs."""
        epoch, index = divmod(step, self.steps_per_epoch)
        if self._epoch != epoch:
            self._begin(epoch)
        place = int(np.searchsorted(self._ends, index, side="right"))
        if self._shard != self._shards[place]:
            self._shard = int(self._shards[place])
            self._rows = self._rows[:0]  # before the next ones take their memory
            generator = np.random.default_rng([self.seed % (1 << 64), epoch, self._shard])
            self._rows = self._bounds[self._shard] + generator.permutation(int(np.diff(self._bounds)[self._shard]))
        first = (index - int(self._ends[place] - self._steps[self._shard])) * self.rows
        return np.sort(self._offset + self.length * self._rows[first : first + self.rows])

    def _begin(self, epoch: int) -> None:
        """Draws the offset of an epoch, and the order of its shards; or of its rows, if they are one shard."""
        generator = np.random.default_rng([self.seed % (1 << 64), epoch])
        spare = self.num_tokens - 1 - self.num_rows * self.length
        self._epoch, self._offset = epoch, int(generator.integers(min(spare, self.length - 1) + 1))
        alone = len(self._steps) == 1
        self._rows = generator.permutation(self.num_rows if alone else 0)
        self._shards = generator.permutation(len(self._steps))
        self._shard, self._ends = 0 if alone else -1, np.cumsum(self._steps[self._shards])

    def read(
        self, tokens: Integer[np.ndarray, " tokens"], starts: Int[np.ndarray, " rows"]
    ) -> Int[np.ndarray, "rows length_and_next"]:
        """The rows that begin at these tokens."""
        return np.stack([tokens[start : start + self.length + 1] for start in starts]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Block:
    """A part of a text. Its first tokens may be context, which is read but not predicted."""

    tokens: Integer[np.ndarray, " length_and_next"]
    known: int = 0
    """The number of predictions at the beginning that belong to another block. Prediction i is that of token i + 1."""


def blocks_in_turn(
    tokens: Integer[np.ndarray, " tokens"], length: int, rows: int, *, context: int = 0
) -> list[list[Block]]:
    """The whole text in batches of rows, in order: every token after the first is predicted exactly once.

    Each block begins with `context` tokens that the block before has predicted. Raises ValueError if no token would
    be left to predict.

    >>> [[block.tokens.tolist() for block in batch] for batch in blocks_in_turn(np.arange(6), length=2, rows=2)]
    [[[0, 1, 2], [2, 3, 4]], [[4, 5]]]
    >>> [(block.tokens.tolist(), block.known) for block in blocks_in_turn(np.arange(6), 3, 9, context=2)[0]]
    [([0, 1, 2, 3], 0), ([1, 2, 3, 4], 2), ([2, 3, 4, 5], 2)]
    """
    if not 0 <= context < length:
        raise ValueError(f"context must be at least 0 and less than the block of {length} tokens, got {context}")
    ends = [0, *range(length, len(tokens) - 1, length - context), len(tokens) - 1]
    cut = []
    for before, end in itertools.pairwise(ends):
        first = max(before - context, 0)
        cut.append(Block(tokens[first : end + 1], before - first))
    return [cut[first : first + rows] for first in range(0, len(cut), rows)]
