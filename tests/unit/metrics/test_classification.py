"""Accuracy, F1 of classes, and exact spans, against numbers worked out by hand."""

from collections.abc import Sequence

import numpy as np
import pytest

from foveate.errors import DataError
from foveate.metrics import accuracy, class_scores, macro_f1, marks_spans, span_f1, span_scores, spans
from foveate.metrics.property_error import roc_auc

PREDICTED = ["N", "N", "V", "N", "D", "V"]
GOLD = ["N", "V", "V", "N", "N", "A"]


def test_precision_recall_and_f1_of_every_class() -> None:
    scores = {score.name: score for score in class_scores(PREDICTED, GOLD)}
    assert [*scores] == ["N", "V", "A", "D"]
    assert (scores["N"].precision, scores["N"].recall) == pytest.approx((200 / 3, 200 / 3))
    assert (scores["V"].precision, scores["V"].recall, scores["V"].f1) == (50, 50, 50)
    assert (scores["A"].precision, scores["A"].recall, scores["A"].f1) == (0, 0, 0)
    assert scores["D"].f1 == 0
    assert accuracy(PREDICTED, GOLD).value == 50
    assert macro_f1(PREDICTED, GOLD).value == pytest.approx((200 / 3 + 50 + 0) / 3)


@pytest.mark.parametrize("score", [accuracy, macro_f1])
def test_an_empty_corpus_is_refused(score: object) -> None:
    with pytest.raises(DataError, match="nothing to score"):
        score([], [])  # type: ignore[operator]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("", []),
        ("O O", []),
        ("B-X I-X O B-X", [("X", 0, 2), ("X", 3, 4)]),
        ("B-X B-X", [("X", 0, 1), ("X", 1, 2)]),
        ("I-X I-X", [("X", 0, 2)]),
        ("B-X I-Y", [("X", 0, 1), ("Y", 1, 2)]),
        ("B-X I-X E-X I-X", [("X", 0, 3), ("X", 3, 4)]),
        ("S-X S-X U-Y L-Y", [("X", 0, 1), ("X", 1, 2), ("Y", 2, 3), ("Y", 3, 4)]),
        ("B-new-age I-new-age", [("new-age", 0, 2)]),
        ("I-X O I-X", [("X", 0, 1), ("X", 2, 3)]),
        ("I-X B-X I-X", [("X", 0, 1), ("X", 1, 3)]),
        ("B-X I-Y I-X", [("X", 0, 1), ("Y", 1, 2), ("X", 2, 3)]),
        ("E-X E-X", [("X", 0, 1), ("X", 1, 2)]),
        ("B-X S-X I-X", [("X", 0, 1), ("X", 1, 2), ("X", 2, 3)]),
        ("B-X E-Y I-Y", [("X", 0, 1), ("Y", 1, 2), ("Y", 2, 3)]),
    ],
)
def test_tags_give_spans(tags: str, expected: list[tuple[str, int, int]]) -> None:
    assert [tuple(span) for span in spans(tags.split())] == expected


def test_a_span_counts_only_as_a_whole_and_with_its_kind() -> None:
    gold = [["B-PER", "I-PER", "O", "B-LOC"], ["B-LOC", "O", "B-ORG", "I-ORG"]]
    predicted = [["B-PER", "I-PER", "O", "B-ORG"], ["B-LOC", "O", "B-ORG", "O"]]
    assert span_f1(gold, gold).value == 100
    assert span_f1(predicted, gold).value == 50  # 2 right of 4 predicted and 4 there
    by_kind = {score.name: (score.right, score.predicted, score.there) for score in span_scores(predicted, gold)}
    assert by_kind == {"LOC": (1, 1, 2), "ORG": (0, 2, 1), "PER": (1, 1, 1)}


def test_too_long_too_short_and_cut_in_two_are_all_wrong() -> None:
    gold = ["B-X I-X I-X", "B-X I-X O", "B-X B-X O"]
    predicted = ["B-X I-X O", "B-X I-X I-X", "B-X I-X O"]
    score = span_f1([one.split() for one in predicted], [one.split() for one in gold])
    assert score.value == 0  # 3 predicted and 4 there, though 7 of the 9 tags are right


def test_a_span_that_begins_with_inside_is_the_span_that_it_would_be() -> None:
    assert span_f1([["O", "I-X", "I-X"]], [["O", "B-X", "I-X"]]).value == 100


def test_the_same_span_in_another_sentence_is_another_span() -> None:
    assert span_f1([["B-X"], ["O"]], [["O"], ["B-X"]]).value == 0


@pytest.mark.parametrize(
    ("tags", "yes"),
    [
        ("O B-X", True),
        ("B-X I-X", True),  # nothing is outside, as in addresses
        ("O", False),
        ("", False),
        ("I-X", False),  # nothing begins
        ("O NOUN B-X", False),
    ],
)
def test_tags_of_spans_are_recognised(tags: Sequence[str], yes: bool) -> None:
    assert marks_spans(str(tags).split()) is yes


def test_empty_tags_mark_no_spans_and_nan_scores_have_no_area() -> None:
    assert not marks_spans([""])
    assert np.isnan(roc_auc(np.array([np.nan, 0.1]), np.array([1, 0])))
