"""Made-up batches of a configured size: what `plan` measures a step with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from foveate.data.batch import Batch
from foveate.data.tokeniser import SPECIALS, ByteConfig
from foveate.errors import UsageError

VOCABULARY = 8000
"""Assumed where a tokeniser takes its size from the data."""
LABELS = 10
"""Assumed: how many there are is for the data to say."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Probe:
    """A model with a batch of the configured size, made up: what a step of training is measured with."""

    model: nn.Module
    loss: Callable[[], Tensor]
    vocabulary: str
    """In words."""
    batch: str
    """In words."""
    tokens: int
    """Of the batch, counted as `unit` says."""
    unit: str


def vocabulary(tokeniser: Any, default: int | None = None) -> int:
    """How many tokens a tokeniser will know, as far as its configuration says. Raises UsageError without room."""
    fixed = ByteConfig().train([]).vocab_size if isinstance(tokeniser, ByteConfig) else None
    size = fixed or getattr(tokeniser, "vocab_size", None) or default or VOCABULARY
    if size <= len(SPECIALS):
        raise UsageError(
            f"A vocabulary of {size} has no room for text beside the {len(SPECIALS)} special tokens. Raise --vocab."
        )
    return int(size)


def made_up(rows: int, length: int, vocab: int) -> Batch:
    """Random text without padding, the same every time."""
    ids = torch.randint(len(SPECIALS), vocab, (rows, length), generator=torch.Generator().manual_seed(0))
    return Batch(ids, torch.full((rows,), length), rows * length)


def require_fit(positions: int | None, longest: int, options: str) -> None:
    """Raises UsageError for lengths that the model has no positions for; `options` are those that change them."""
    if positions is not None and longest > positions:
        raise UsageError(
            f"The model has {positions} positions, the batch needs {longest}. Raise max_length, of "
            f"the model's positions or attention, or plan for less with {options}."
        )
