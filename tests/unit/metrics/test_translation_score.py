import sys

import pytest
import sacrebleu

from foveate.errors import DataError, SetupError, UsageError
from foveate.metrics import corpus_bleu, corpus_chrf, corpus_ter

HYPOTHESES = ["The cat sat on the mat .", "It rains", "Привет, мир!"]
REFERENCES = ["The cat is sitting on the mat.", "It is raining.", "Привет, мир!"]
OTHERS = ["A cat sat on the mat.", "It rains.", "Здравствуй, мир!"]

METRICS = [corpus_bleu, corpus_chrf, corpus_ter]


@pytest.mark.parametrize(
    ("metric", "theirs", "name", "higher_is_better"),
    [
        (corpus_bleu, sacrebleu.corpus_bleu, "BLEU", True),
        (corpus_chrf, sacrebleu.corpus_chrf, "chrF2", True),
        (corpus_ter, sacrebleu.corpus_ter, "TER", False),
    ],
)
@pytest.mark.parametrize("references", [[REFERENCES], [REFERENCES, OTHERS]])
def test_scores_are_sacrebleus_with_its_signature(metric, theirs, name, higher_is_better, references):
    score = metric(HYPOTHESES, *references)

    assert score.value == theirs(HYPOTHESES, references).score
    assert (score.name, score.higher_is_better) == (name, higher_is_better)
    assert score.signature.startswith(f"nrefs:{len(references)}|")
    assert score.signature.endswith(f"version:{sacrebleu.__version__}")
    assert str(score) == f"{name}|{score.signature} = {score.value:.2f}"


def test_the_signature_says_how_the_text_was_tokenised_and_cased():
    score = corpus_bleu(["你 好 吗"], ["你好吗"], tokenise="zh", lowercase=True)

    assert "case:lc" in score.signature
    assert "tok:zh" in score.signature


def test_chrf_with_words_is_called_so():
    assert corpus_chrf(HYPOTHESES, REFERENCES, word_order=2).name == "chrF2++"


@pytest.mark.parametrize("metric", METRICS)
def test_perfect_translations_get_the_perfect_score(metric):
    score = metric(REFERENCES, REFERENCES)

    assert score.value == pytest.approx(100.0 if score.higher_is_better else 0.0)


@pytest.mark.parametrize("metric", METRICS)
def test_unequal_counts_are_refused(metric):
    with pytest.raises(DataError, match="3 hypotheses but 2 references"):
        metric(HYPOTHESES, REFERENCES[:2])


@pytest.mark.parametrize("metric", METRICS)
def test_empty_references_are_named_instead_of_being_left_out(metric):
    with pytest.raises(DataError, match=r"2 of 3 references are empty \(line 2, 3\)"):
        metric(HYPOTHESES, ["The cat", "", "  "])


@pytest.mark.parametrize("metric", METRICS)
def test_nothing_to_score_is_refused(metric):
    with pytest.raises(DataError, match="nothing to score"):
        metric([], [])
    with pytest.raises(DataError, match="no references"):
        metric(HYPOTHESES)


def test_a_single_text_instead_of_a_list_is_refused():
    with pytest.raises(DataError, match="a corpus is a list of lines"):
        corpus_bleu("a cat", "a dog")


def test_an_unknown_tokeniser_is_refused_with_those_there_are():
    with pytest.raises(UsageError, match=r"unknown tokeniser 'moses'. Choose one of: .*13a"):
        corpus_bleu(HYPOTHESES, REFERENCES, tokenise="moses")


def test_without_sacrebleu_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(SetupError, match=r"pip install 'foveate\[eval\]'"):
        corpus_bleu(HYPOTHESES, REFERENCES)
