"""The translator that comes with the package works at once, aligns, and says so when it cannot do what is asked."""

import html
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foveate import Translator

SENTENCE = "The black cat is sleeping in the garden."
FRENCH = "Le chat noir dort dans le jardin."
PAGE = Path(__file__).parents[2] / "docs/models/english_french.md"
PICTURES = re.findall(r'foveate look en-fr "(.+?)" --words --out (\S+)', PAGE.read_text("utf-8"))


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load("en-fr")


def test_the_shipped_model_translates_at_once(foveate: Any) -> None:
    said = foveate("translate", "en-fr", "Good morning.", SENTENCE, "--no-tune")
    assert (said.code, said.out, said.err) == (0, f"Bonjour.\n{FRENCH}\n", "")


def test_it_aligns_the_noun_and_its_adjective_crosswise(translator: Translator) -> None:
    (found,) = translator.translate([SENTENCE])
    assert found.text == FRENCH
    (alignment,) = translator.align([found])
    words = alignment.without_specials().words()
    looked = {word: words.source[column] for word, column in zip(words.target, words.weights.argmax(1), strict=True)}
    assert looked["chat"] == "cat"
    assert looked["noir"] == "black"


def test_the_lesson_on_alignment_describes_its_weights(translator: Translator) -> None:
    source = "The agreement on the European Economic Area was signed in August 1992."
    target = "L'accord sur la zone économique européenne a été signé en août 1992."
    words = translator.align(translator.forced(source, target)).words()
    rows = dict(zip(words.target, words.weights, strict=True))
    for word, own in (("zone", "Area"), ("économique", "Economic"), ("européenne", "European")):
        first, second = np.argsort(-rows[word])[:2]
        assert words.source[first] == own
        assert (words.source[second] == "</s>" and rows[word][second] > 0.25) == (word != "zone")


def test_its_alignment_is_the_one_it_was_shipped_with(translator: Translator) -> None:
    (found,) = translator.translate([SENTENCE])
    (own,), (named,) = translator.align([found]), translator.align([found], translator.head)
    assert (own.weights == named.weights).all()


def test_neighbours_in_a_batch_change_nothing(translator: Translator) -> None:
    texts = ["In the beginning God created the heavens and the earth.", SENTENCE, "Choose a file."]
    together = [found.text for found in translator.translate(texts)]
    assert together == [translator.translate([text])[0].text for text in texts]
    assert all(together)


def test_it_is_drawn_in_the_terminal(foveate: Any) -> None:
    said = foveate("translate", "en-fr", "Good morning.", "--align", "--no-tune")
    assert said.code == 0
    assert said.out.startswith("Bonjour.\n")
    assert "</s>" in said.out
    assert "all attention" in said.out


def test_it_is_scored_by_name_but_has_no_report(foveate: Any, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text(f"{SENTENCE}\t{FRENCH}\n", encoding="utf-8")
    said = foveate("evaluate", "en-fr", "--source", pairs, "--no-tune")
    assert said.out.startswith("BLEU|")
    assert "= 100.00" in said.out
    said = foveate("evaluate", "en-fr", "--source", pairs, "--report", tmp_path / "report.html", "--no-tune")
    assert (said.code, said.err) == (
        2,
        "foveate evaluate: --report describes a training run, and en-fr comes without one. Leave it out.\n",
    )


def test_a_name_that_is_nearly_right_is_corrected(
    foveate: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = foveate("translate", "en_fr", "Good morning.", "--no-tune")
    assert said.code == 3
    assert said.err.endswith("us-address). Did you mean 'en-fr'?\n")


@pytest.mark.parametrize(("sentence", "picture"), PICTURES, ids=lambda text: text.rpartition("/")[2])
def test_the_pictures_of_the_docs_are_its_own(translator: Translator, sentence: str, picture: str) -> None:
    (found,) = translator.translate([sentence])
    words = translator.align([found])[0].words()
    drawn = (PAGE.parents[2] / picture).read_text("utf-8")
    cells = re.findall(r"<title>(\S+) → (\S+): ([\d.]+)</title>", html.unescape(drawn))
    assert len(cells) > len(words.target)
    for row, column, weight in cells:
        places = np.ix_([row == word for word in words.target], [column == word for word in words.source])
        assert np.abs(words.weights[places] - float(weight)).min() < 0.01


@pytest.mark.parametrize("words", [("look", "en-fr", SENTENCE), ("translate", "en-fr", SENTENCE, "--align")])
def test_a_head_alone_leaves_the_layer_as_it_is(words: tuple[str, ...], translator: Translator, foveate: Any) -> None:
    layer = translator.head.layer
    said = foveate(*words, "--head", "99", "--no-tune")
    assert said.code == 2
    assert re.search(rf"There is no head 99: layer {layer} \(decoder\..*\) has 8, counted from 0\.", said.err), said.err
    outs = [
        foveate(*words, *options, "--no-tune").out
        for options in (("--head", "2"), ("--layer", str(layer), "--head", "2", "--when", translator.head.when))
    ]
    assert outs[0] == outs[1]
