"""The translator of several languages that stands in the repository: its scripts, and the pictures of its page."""

import html
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foveate import Translator

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "examples/five_languages/model"
PAGE = ROOT / "docs/models/five_languages.md"
PICTURES = re.findall(r'foveate look \S+ "(.+?)" --to (\w+) --words --out (\S+)', PAGE.read_text("utf-8"))


def test_each_language_is_written_in_its_script(foveate: Any) -> None:
    for to, letters in (
        ("fa", "\u0600-\u06ff"),
        ("zh", "\u4e00-\u9fff"),
        ("ru", "\u0400-\u04ff"),
        ("de", "a-zA-ZäöüßÄÖÜ"),
    ):
        said = foveate("translate", MODEL, "The file could not be found.", "--to", to, "--no-tune")
        assert said.code == 0, said.err
        text = [letter for letter in said.out if letter.isalpha()]
        assert len(re.findall(f"[{letters}]", "".join(text))) > 0.8 * len(text), said.out


@pytest.mark.parametrize(("sentence", "to", "picture"), PICTURES, ids=[picture for _, _, picture in PICTURES])
def test_a_picture_of_the_page_is_what_the_model_shows(sentence: str, to: str, picture: str) -> None:
    translator = Translator.load(MODEL).into(to)
    words = translator.align(translator.translate([sentence]))[0].words()
    cells = re.findall(r"<title>(\S+) → (\S+): ([\d.]+)</title>", html.unescape((ROOT / picture).read_text("utf-8")))
    assert len(cells) > len(words.target)
    for row, column, weight in cells:
        places = np.ix_([row == word for word in words.target], [column == word for word in words.source])
        assert np.abs(words.weights[places] - float(weight)).min() < 0.01


def test_the_page_has_a_picture_of_either_script() -> None:
    assert [to for _, to, _ in PICTURES] == ["fa", "zh"]


def test_persian_puts_the_verb_at_the_end_and_its_row_looks_back() -> None:
    """The sentence of the lesson on alignment."""
    translator = Translator.load(MODEL).into("fa")
    words = translator.align(translator.translate(["He gave the book to his son."]))[0].without_specials().words()
    looked = {word: words.source[column] for word, column in zip(words.target, words.weights.argmax(1), strict=True)}
    assert words.target[-1] == "داد."
    assert looked["داد."] == "gave"
    assert looked["کتاب"] == "book"
