"""CIDEr-D, checked with the numbers that pycocoevalcap 1.2, the authors' program, prints for these captions."""

from dataclasses import dataclass

import pytest
import sacrebleu

from foveate.errors import DataError, UsageError
from foveate.metrics import caption_ciders, caption_scores, corpus_cider


@dataclass(frozen=True, kw_only=True)
class Case:
    """Captions, the references of each picture, and the published program's score of each caption."""

    captions: list[str]
    references: list[list[str]]
    scores: list[float]
    tokenise: str = "none"


CASES = {
    "one reference": Case(
        captions=["a sandal left of a bag", "a shirt", "two dogs run"],
        references=[["a sandal left of a bag"], ["a coat above a shirt"], ["a dog runs in the park"]],
        scores=[10.0, 2.3768956889, 0.0],
        tokenise="none",
    ),
    "several references": Case(
        captions=["a woman is throwing a frisbee in a park .", "a dog is standing on a floor", "a stop sign", "people"],
        references=[
            ["a woman is throwing a frisbee in a park .", "the woman throws a frisbee"],
            ["a dog is standing on a hardwood floor ."],
            [
                "a stop sign is on a road with a mountain in the background .",
                "a red sign stands by the road",
                "stop sign near a mountain",
            ],
            ["a giraffe standing in a forest with trees in the background .", "a giraffe"],
        ],
        scores=[5.6547577372, 6.679838032, 1.2629314942, 0.0],
        tokenise="none",
    ),
    "repetition and length": Case(
        captions=["the the the the the the the", "a cat a cat a cat sat on the mat on the mat on the mat today", ""],
        references=[["the cat", "a cat on the mat"], ["a cat sat on the mat"], ["nothing here"]],
        scores=[0.1647717365, 0.7513644202, 0.0],
        tokenise="none",
    ),
    "equal references": Case(
        captions=["a bag", "a shoe"], references=[["a bag"], ["a bag"]], scores=[0.0, 0.0], tokenise="none"
    ),
    "case and punctuation": Case(
        captions=[
            "A man isn't riding the child's bicycle, is he?",
            "Two T-shirts (blue) on a bed!",
            "A dog; it's brown.",
        ],
        references=[
            ["A man is riding a child's bicycle.", "He isn't on a bicycle"],
            ["Two blue T-shirts are lying on a bed.", "blue t-shirts: two"],
            ["It's a brown dog - sleeping...", 'A "dog" that\'s brown.'],
        ],
        scores=[2.2347300996, 1.8999957609, 2.8255275737],
        tokenise="words",
    ),
}


@pytest.fixture(params=CASES.values(), ids=CASES)
def case(request):
    return request.param


def test_every_caption_has_the_score_of_the_reference_implementation(case):
    scores = caption_ciders(case.captions, case.references, tokenise=case.tokenise)

    assert scores == pytest.approx(case.scores, abs=1e-9)


def test_the_score_of_the_corpus_is_the_mean_and_says_how_it_was_computed(case):
    score = corpus_cider(case.captions, case.references, tokenise=case.tokenise)

    assert score.value == pytest.approx(sum(case.scores) / len(case.scores))
    assert (score.name, score.higher_is_better) == ("CIDEr-D", True)
    assert f"|tok:{case.tokenise}|n:4|sigma:6" in f"|{score.signature}"


def test_pictures_with_several_references_are_scored_against_all_of_them():
    captions = ["a cat on a mat", "a dog runs"]
    references = [["the cat sits", "a cat on a mat", "one cat"], ["a dog is running"]]

    scores = {score.name: score for score in caption_scores(captions, references)}

    streams = [["the cat sits", "a dog is running"], ["a cat on a mat", None], ["one cat", None]]
    assert scores["BLEU"].value == sacrebleu.corpus_bleu(captions, streams).score
    assert scores["chrF2"].value == sacrebleu.corpus_chrf(captions, streams).score
    assert scores["BLEU"].signature.startswith("nrefs:var|")
    assert scores["CIDEr-D"].signature.startswith("nrefs:var|")


def test_the_order_of_references_does_not_matter():
    captions = ["a cat on a mat", "a dog runs"]
    references = [["the cat sits", "a cat on a mat"], ["a dog is running", "dogs"]]

    assert caption_ciders(captions, references) == pytest.approx(
        caption_ciders(captions, [texts[::-1] for texts in references])
    )


def test_a_single_picture_is_refused_because_no_word_is_rare_in_it():
    with pytest.raises(DataError, match="several pictures"):
        corpus_cider(["a cat"], [["a cat"]])


def test_pictures_without_references_and_single_texts_are_refused():
    with pytest.raises(DataError, match="1 picture without references, such as number 2"):
        corpus_cider(["a cat", "a dog"], [["a cat"], []])
    with pytest.raises(DataError, match="list of references"):
        corpus_cider(["a cat", "a dog"], ["a cat", "a dog"])
    with pytest.raises(DataError, match="2 hypotheses but 1 reference"):
        corpus_cider(["a cat", "a dog"], [["a cat"]])


def test_an_unknown_metric_is_named_with_a_suggestion():
    with pytest.raises(UsageError, match="Did you mean"):
        caption_scores(["a", "b"], [["a"], ["b"]], ["cidr"])


@pytest.mark.parametrize("name", ["bleu", "chrf"])
def test_an_empty_reference_is_still_refused_beside_missing_ones(name):
    with pytest.raises(DataError, match="empty"):
        caption_scores(["a", "b"], [["a", ""], ["b"]], [name])
