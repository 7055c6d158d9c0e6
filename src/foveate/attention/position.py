"""Where queries and keys stand: the facts that a visibility rule or a bias reads."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Positions:
    """Absolute positions of queries and keys, and which keys are real.

    Rules compare absolute positions, so caches, windows and different numbers of queries and keys need no
    alignment convention: the fourth query of a decoder with a cache of three keys says it stands at 3.

    >>> at = Positions.of(query=1, key=4, query_start=3)
    >>> (at.key <= at.query).flatten().tolist()
    [True, True, True, True]
    >>> Positions.of(query=2, key=3, key_lengths=torch.tensor([1, 3])).real.flatten(1).tolist()
    [[True, False, False], [True, True, True]]
    """

    query: Int[Tensor, "#batch #heads query 1"]
    key: Int[Tensor, "#batch #heads 1 key"]
    real: Bool[Tensor, "#batch 1 1 key"] | None = None
    """False where a key is padding; None when every key is real."""
    aligned: bool = False
    """True when query i and key i both stand at position i: kernels then know `causal()` natively."""
    zeroed: bool = False
    """True when the caller knows that keys and values which are padding, or lie behind every query in the free room of
    a cache, are zero, so that no path needs to make them so."""

    @classmethod
    def of(
        cls,
        query: int,
        key: int,
        *,
        query_start: int = 0,
        key_lengths: Int[Tensor, " batch"] | None = None,
        side: Literal["left", "right"] = "right",
        device: torch.device | str | None = None,
    ) -> "Positions":
        """Positions of `query` queries starting at `query_start` and of `key` keys starting at 0.

        With `key_lengths`, sequences are padded to `key` positions on the given side. On the left, positions
        count from the first real token, which only self-attention over the whole sequence can mean.
        """
        device = key_lengths.device if key_lengths is not None else device
        key_index = torch.arange(key, device=device)
        query_at = torch.arange(query_start, query_start + query, device=device)[None, None, :, None]
        if key_lengths is None:
            return cls(query_at, key_index[None, None, None, :], None, query == key and query_start == 0)
        if side == "right":
            real = (key_index < key_lengths[:, None])[:, None, None, :]
            return cls(query_at, key_index[None, None, None, :], real, query == key and query_start == 0)
        if query != key:
            raise ValueError(
                f"Left padding shifts {key} keys, but there are {query} queries, and they may stand anywhere. "
                "Build Positions(query=..., key=..., real=...) from your own position tensors."
            )
        shifted = key_index - (key - key_lengths[:, None])
        return cls(shifted[:, None, :, None], shifted[:, None, None, :], (shifted >= 0)[:, None, None, :])

    @property
    def device(self) -> torch.device:
        return self.query.device

    def select(self, examples: Int[Tensor, " new_batch"]) -> "Positions":
        """Some examples of the batch; parts that all examples share stay shared."""
        query, key, real = (
            part if part is None or part.shape[0] == 1 else part[examples] for part in (self.query, self.key, self.real)
        )
        assert query is not None
        assert key is not None
        return replace(self, query=query, key=key, real=real)

    def rows(self, rows: slice) -> "Positions":
        """The same keys seen by some of the queries."""
        return replace(self, query=self.query[..., rows, :], aligned=False)

    def columns(self, columns: slice) -> "Positions":
        """Some of the keys seen by the same queries."""
        real = None if self.real is None else self.real[..., columns]
        return replace(self, key=self.key[..., columns], real=real, aligned=False)
