"""Spans (names, places, dates …) are written as a tag on every word and scored as a whole."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from foveate.metrics.classification import ClassScore
from foveate.metrics.named_score import Score, require_pairs

_TAG = re.compile(r"([BIESLU])-(.+)")
OUTSIDE = "O"


class Span(NamedTuple):
    """The words from `begin` to `end` (exclusive), with their kind."""

    kind: str
    begin: int
    end: int


def marks_spans(tags: Iterable[str]) -> bool:
    """Whether tags mark spans: B-, I- (optionally E-, S-, L-, U-) with a kind, and O for words outside.

    >>> marks_spans(["O", "B-PER", "I-PER"]), marks_spans(["B-PER", "I-PER"]), marks_spans(["NOUN", "O"])
    (True, True, False)
    """
    marked = set(tags) - {OUTSIDE}
    return any(tag[:1] in ("B", "S", "U") for tag in marked) and all(_TAG.fullmatch(tag) for tag in marked)


def spans(tags: Sequence[str]) -> list[Span]:
    """The spans of one sentence.

    A span begins with B, S or U, and also with I, E or L if no span of its kind is open; it ends after E, S, L or U.
    These are the rules of the CoNLL-2000 evaluation, which interpret every sequence of tags.

    >>> spans(["B-PER", "I-PER", "O", "I-LOC", "I-PER", "B-PER"])
    [Span(kind='PER', begin=0, end=2), Span(kind='LOC', begin=3, end=4), Span(kind='PER', begin=4, end=5),
     Span(kind='PER', begin=5, end=6)]
    """
    return list(_spans(tags))


def _spans(tags: Sequence[str]) -> Iterator[Span]:
    kind, begin = None, 0
    for place, tag in enumerate(tags):
        match = _TAG.fullmatch(tag)
        mark, here = (match[1], match[2]) if match else (OUTSIDE, None)
        if kind is not None and (here != kind or mark in "BSU"):
            yield Span(kind, begin, place)
            kind = None
        if here is not None and kind is None:
            kind, begin = here, place
        if kind is not None and mark in "ESLU":
            yield Span(kind, begin, place + 1)
            kind = None
    if kind is not None:
        yield Span(kind, begin, len(tags))


def span_scores(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> list[ClassScore]:
    """The counts of each kind of span. A prediction is right if its words and its kind are those of the reference."""
    require_pairs("span F1", predicted, gold)
    guesses = {(number, span) for number, tags in enumerate(predicted) for span in spans(tags)}
    there = {(number, span) for number, tags in enumerate(gold) for span in spans(tags)}
    scores = []
    for kind in sorted({span.kind for _, span in guesses | there}):
        both = [{one for one in side if one[1].kind == kind} for side in (guesses, there)]
        scores.append(ClassScore(kind, len(both[0] & both[1]), len(both[0]), len(both[1])))
    return scores


def span_f1(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> Score:
    """F1 of exact spans over the corpus, all kinds together.

    >>> print(span_f1([["B-PER", "O", "B-LOC"]], [["B-PER", "I-PER", "B-LOC"]]))
    span F1|spans:exact|mean:micro = 50.00

    Reference: Tjong Kim Sang & Buchholz 2000, "Introduction to the CoNLL-2000 Shared Task: Chunking", section 4.
    """
    scores = span_scores(predicted, gold)
    parts = (sum(getattr(score, name) for score in scores) for name in ("right", "predicted", "there"))
    total = ClassScore("all", *parts)
    return Score(name="span F1", value=total.f1, signature="spans:exact|mean:micro", higher_is_better=True)
