"""The one thing decoding asks of a model, and the one thing it gives back."""

import math
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from foveate.errors import DataError, UsageError

State = Any  # whatever a model carries from step to step; decoding only hands it back


@runtime_checkable
class Stepper(Protocol):
    """A model that is asked for one token at a time.

    The state is a value: `step` and `select` return a new one, and each state is used once. A model that can
    represent only so many target positions says so in an attribute `max_length`; decoding refuses to go beyond it.
    """

    def step(self, state: State, token: Int[Tensor, " rows"]) -> tuple[State, Float[Tensor, "rows vocab"]]:
        """Read each row's last token; return the state after it and the logits (not log-probabilities) of the next."""
        ...

    def select(self, state: State, rows: Int[Tensor, " new_rows"]) -> State:
        """The state of the named rows, in that order.

        Rows come in whole groups of `beam` consecutive rows of one sentence (row = sentence · beam + place). Within a
        group a row may be named twice or not at all; groups keep their order and may be missing: their sentences are
        done.
        """
        ...


@dataclass(frozen=True)
class Hypothesis:
    """One decoded sequence.

    `tokens` are without begin and end. `log_probability` is the sum of the model's log-probabilities, that of the end
    token included; constraints and sampling filters hide tokens but do not renormalise. `score` is what hypotheses
    are ranked by: `log_probability` after the length penalty. `finished` is false where the length limit came before
    the end token.
    """

    tokens: tuple[int, ...]
    score: float
    log_probability: float
    finished: bool


def require_rows(logits: Float[Tensor, "given vocab"], rows: int) -> None:
    """Raise `UsageError` where the state was started for another number of rows."""
    if len(logits) != rows:
        raise UsageError(
            f"decode: the model gave logits for {len(logits)} rows instead of {rows}. "
            "Start its state with one row a sentence, or `beam` rows a sentence for beam search."
        )


def require_number(log_probability: float, sentence: int) -> None:
    """Raise `DataError` for NaN, which only a broken model gives, and `UsageError` where no token was left."""
    if math.isnan(log_probability):
        raise DataError(
            f"decode: the model's logits for sentence {sentence} are not numbers (NaN). "
            "The checkpoint is damaged or its training diverged: use an earlier checkpoint."
        )
    if math.isinf(log_probability):
        raise UsageError(
            f"decode: no token was left to choose for sentence {sentence}. "
            "Relax forbid, min_length, no_repeat_ngram or the prefix."
        )
