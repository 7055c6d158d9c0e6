import sys

import pytest

from foveate.errors import DataError, SetupError
from foveate.metrics import character_error_rate, phone_error_rate, sentence_error_rate, word_error_rate

RATES = [word_error_rate, phone_error_rate, character_error_rate, sentence_error_rate]


def test_a_rate_is_the_edits_of_the_corpus_over_its_words_not_a_mean_of_lines():
    score = word_error_rate(["a b c d e f g x", "y"], ["a b c d e f g h", "z w"])

    assert score.value == pytest.approx(100 * 3 / 10)
    assert not score.higher_is_better


@pytest.mark.parametrize(
    ("hypothesis", "edits"), [("a b c d", 0), ("a x c d", 1), ("a c d", 1), ("a b b c d", 1), ("", 4), ("d c b a", 4)]
)
def test_substitutions_deletions_and_insertions_count_alike(hypothesis, edits):
    assert phone_error_rate([hypothesis], ["a b c d"]).value == 25.0 * edits


def test_white_space_of_any_kind_only_separates():
    assert word_error_rate(["  a\tb\u00a0c "], ["a b  c"]).value == 0.0
    assert sentence_error_rate(["  a\tb "], ["a b"]).value == 0.0


def test_an_error_rate_may_exceed_100_and_silence_counts_insertions():
    assert word_error_rate(["x y z", "noise"], ["a", ""]).value == 400.0


def test_characters_count_the_space_between_words():
    assert character_error_rate(["ab"], ["a b"]).value == pytest.approx(100 / 3)


def test_names_and_signatures_tell_the_rates_apart():
    scores = [rate(["a"], ["a"]) for rate in RATES]

    assert [score.name for score in scores] == ["WER", "PER", "CER", "SER"]
    assert [score.signature.split("|")[0] for score in scores] == [
        "unit:word",
        "unit:phone",
        "unit:character",
        "unit:line",
    ]


@pytest.mark.parametrize("rate", RATES)
def test_unequal_counts_and_empty_corpora_are_refused(rate):
    with pytest.raises(DataError, match=r"2 hypotheses but 1 reference\."):
        rate(["a", "b"], ["a"])
    with pytest.raises(DataError, match="nothing to score"):
        rate([], [])


@pytest.mark.parametrize("rate", RATES[:3])
def test_references_without_a_word_are_refused(rate):
    with pytest.raises(DataError, match="no reference has a"):
        rate(["a", "b"], ["", " "])


def test_without_jiwer_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jiwer", None)
    with pytest.raises(SetupError, match=r"pip install 'foveate\[eval\]'"):
        word_error_rate(["a"], ["a"])
