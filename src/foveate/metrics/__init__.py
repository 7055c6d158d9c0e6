"""Metrics score whole corpora with the programs that papers use; their signatures make scores comparable."""

from foveate.metrics.alignment_error import Links, alignment_error_rate, link_scores, parse_naacl, parse_pharaoh
from foveate.metrics.caption_score import caption_ciders, caption_scores, caption_words, corpus_cider
from foveate.metrics.classification import ClassScore, accuracy, class_scores, macro_f1
from foveate.metrics.error import (
    character_error_rate,
    phone_error_rate,
    sentence_error_rate,
    word_error_rate,
)
from foveate.metrics.named_score import Score
from foveate.metrics.span import Span, marks_spans, span_f1, span_scores, spans
from foveate.metrics.translation_score import corpus_bleu, corpus_chrf, corpus_ter

__all__ = [
    "ClassScore",
    "Links",
    "Score",
    "Span",
    "accuracy",
    "alignment_error_rate",
    "caption_ciders",
    "caption_scores",
    "caption_words",
    "character_error_rate",
    "class_scores",
    "corpus_bleu",
    "corpus_chrf",
    "corpus_cider",
    "corpus_ter",
    "link_scores",
    "macro_f1",
    "marks_spans",
    "parse_naacl",
    "parse_pharaoh",
    "phone_error_rate",
    "sentence_error_rate",
    "span_f1",
    "span_scores",
    "spans",
    "word_error_rate",
]
