"""What a model takes: right-padded token ids with their true lengths."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Batch:
    """One side of a batch of sequences, right-padded with 0.

    >>> batch = Batch.of([[5, 6, 7], [8]])
    >>> batch.ids.tolist(), batch.num_tokens
    ([[5, 6, 7], [8, 0, 0]], 4)
    """

    ids: Int[Tensor, "batch length"]
    lengths: Int[Tensor, " batch"]
    num_tokens: int = field(default=-1)
    """The sum of the lengths, taken once: asking a device for it later would wait for the device."""

    def __post_init__(self) -> None:
        if self.num_tokens < 0:
            object.__setattr__(self, "num_tokens", int(self.lengths.sum()))

    @classmethod
    def of(cls, rows: Sequence[Sequence[int] | np.ndarray]) -> "Batch":
        """Pads rows of ids: lists, or the arrays of a token store, which are copied without a loop over tokens."""
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        ids = np.zeros((len(rows), int(lengths.max(initial=0))), dtype=np.int64)
        if ids.size:
            real = np.arange(ids.shape[1]) < lengths[:, None]
            ids[real] = np.concatenate(
                [row if isinstance(row, np.ndarray) else np.array(row, np.int64) for row in rows]
            )
        return cls(torch.from_numpy(ids), torch.from_numpy(lengths), int(lengths.sum()))

    @property
    def size(self) -> int:
        return self.ids.shape[0]

    @property
    def length(self) -> int:
        return self.ids.shape[1]

    def to(self, device: torch.device | str) -> "Batch":
        return Batch(self.ids.to(device), self.lengths.to(device), self.num_tokens)


@dataclass(frozen=True, eq=False)
class PairBatch:
    """Sources with their targets, row by row, and the numbers of the examples they are.

    `source.ids` are tokens + end; `target.ids` are begin + tokens + end, which the model shifts by itself.
    """

    source: Batch
    target: Batch
    examples: tuple[int, ...]
    links: Int[Tensor, "links 3"] | None = None
    """Row, source token and target token of every known link, begin not counted; None where none are known."""

    def to(self, device: torch.device | str) -> "PairBatch":
        links = None if self.links is None else self.links.to(device)
        return PairBatch(self.source.to(device), self.target.to(device), self.examples, links)
