"""Scores of a corpus by the names of metrics."""

from collections.abc import Callable, Sequence
from functools import partial

from foveate.errors import UsageError
from foveate.metrics.error import character_error_rate, phone_error_rate, sentence_error_rate, word_error_rate
from foveate.metrics.named_score import Score
from foveate.metrics.translation_score import corpus_bleu, corpus_chrf, corpus_ter
from foveate.suggestion import did_you_mean

METRICS: dict[str, Callable[[Sequence[str], Sequence[str]], Score]] = {
    "bleu": corpus_bleu,
    "bleu_zh": partial(corpus_bleu, tokenise="zh"),
    "chrf": corpus_chrf,
    "ter": corpus_ter,
    "word_error": word_error_rate,
    "phone_error": phone_error_rate,
    "character_error": character_error_rate,
    "sentence_error": sentence_error_rate,
}
"""Phones, or any symbols with spaces between them, are what `phone_error` counts; `sentence_error` counts whole lines,
which for pronunciations are the words missed. `bleu_zh` counts Chinese characters, since no spaces separate words."""

FOR_SENTENCES = ("bleu", "chrf", "ter")
FOR_CHINESE = ("bleu_zh", "chrf")
FOR_SYMBOLS = ("phone_error", "sentence_error")


def evaluate(hypotheses: Sequence[str], references: Sequence[str], names: Sequence[str]) -> list[Score]:
    """The named scores of a corpus. Raises UsageError for an unknown name, DataError for unequal counts."""
    require_metrics(names)
    return [METRICS[name](hypotheses, references) for name in names]


def require_metrics(names: Sequence[str]) -> None:
    """Raises UsageError for an unknown name and SetupError for a missing package: before hours of decoding."""
    for name in names:
        if name not in METRICS:
            raise UsageError(
                f"There is no metric {name!r}.{did_you_mean(name, METRICS)} Choose one of: {', '.join(METRICS)}."
            )
        METRICS[name](["a"], ["a"])
