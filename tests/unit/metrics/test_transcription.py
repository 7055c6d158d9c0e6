"""Edits are those of jiwer, and add up."""

import jiwer
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.metrics.transcription import Edits

TEXTS = st.lists(st.sampled_from("abcd"), max_size=12).map(" ".join)


@given(TEXTS.filter(bool), TEXTS)
def test_the_errors_of_words_are_those_of_jiwer(reference: str, hypothesis: str) -> None:
    theirs = jiwer.process_words([reference], [hypothesis])
    ours = Edits.of_words([reference], [hypothesis])
    assert ours.rate == pytest.approx(theirs.wer)
    assert ours.length == len(reference.split())
    assert ours.hits + ours.substitutions + ours.insertions == len(hypothesis.split())


@given(TEXTS.filter(bool), TEXTS)
def test_the_errors_of_characters_are_those_of_jiwer(reference: str, hypothesis: str) -> None:
    theirs = jiwer.process_characters([reference], [hypothesis])
    assert Edits.of_characters([reference], [hypothesis]).rate == pytest.approx(theirs.cer)


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=4))
def test_the_errors_of_a_corpus_are_the_sum(pairs: list[tuple[str, str]]) -> None:
    parts = [Edits.of_words([reference], [hypothesis]) for reference, hypothesis in pairs]
    whole = Edits.of_words(*zip(*pairs, strict=True)) if pairs else Edits()
    assert whole.count == sum(part.count for part in parts)


def test_words_without_a_reference_are_insertions() -> None:
    assert Edits.of_words([""], ["a b"]) == Edits(insertions=2)
    assert Edits.of_words([""], ["a b"]).rate == float("inf")
    assert Edits.of_words([""], [""]).rate == 0.0
