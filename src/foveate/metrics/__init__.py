"""Metrics: scores of whole corpora, by the programs that papers name, with the signature that makes them comparable."""

from foveate.metrics.alignment import Links, alignment_error_rate, parse_naacl, parse_pharaoh
from foveate.metrics.error import (
    character_error_rate,
    phone_error_rate,
    sentence_error_rate,
    word_error_rate,
)
from foveate.metrics.score import Score
from foveate.metrics.text import corpus_bleu, corpus_chrf, corpus_ter

__all__ = [
    "Links",
    "Score",
    "alignment_error_rate",
    "character_error_rate",
    "corpus_bleu",
    "corpus_chrf",
    "corpus_ter",
    "parse_naacl",
    "parse_pharaoh",
    "phone_error_rate",
    "sentence_error_rate",
    "word_error_rate",
]
