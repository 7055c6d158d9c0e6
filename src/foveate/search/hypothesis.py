"""The result of decoding."""

import math
from dataclasses import dataclass

from foveate.errors import DataError, UsageError


@dataclass(frozen=True)
class Hypothesis:
    """One decoded sequence.

    `tokens` are without begin and end. `log_probability` is the sum of the model's log-probabilities, including that of
    the end token; constraints and sampling filters hide tokens but do not renormalise. `score`, the `log_probability`
    after the length penalty, ranks hypotheses. `finished` is false if the length limit came before the end token.
    """

    tokens: tuple[int, ...]
    score: float
    log_probability: float
    finished: bool


def require_number(log_probability: float, sentence: int) -> None:
    """Raise `DataError` for NaN, which indicates a broken model, and `UsageError` if all tokens are hidden."""
    if math.isnan(log_probability):
        raise DataError(
            f"decode: the model's logits for sentence {sentence} are not numbers (NaN). "
            "The checkpoint is damaged or its training diverged: use an earlier checkpoint."
        )
    if math.isinf(log_probability):
        raise UsageError(
            f"decode: the constraints exclude every token of sentence {sentence}. "
            "Relax forbid, min_length, no_repeat_ngram or the prefix."
        )
