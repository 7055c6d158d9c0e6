"""The small models that come with the package work at once, with the scores that their cards state."""

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from foveate import Translator
from foveate.data.labelled import Tagged, read_tagged
from foveate.data.text import Pair, read_pairs
from foveate.metrics import phone_error_rate, sentence_error_rate
from foveate.storage.shipped import SHIPPED, run_folder
from foveate.tasks.tag.use import SentenceTagger

EXAMPLES = Path(__file__).parents[2] / "examples"
ADDRESS = "1600 Pennsylvania Avenue NW, Washington, DC 20500"
PARTS = [
    *("AddressNumber", "StreetName", "StreetNamePostType", "StreetNamePostDirectional"),
    *("PlaceName", "StateName", "ZipCode"),
]


def example(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tagger() -> SentenceTagger:
    return SentenceTagger.load("us-address")


@pytest.fixture(scope="module")
def unseen() -> list[Tagged]:
    """The bundled addresses that are test data."""
    part = example(EXAMPLES / "tagging/addresses.py").part
    return [one for one in read_tagged(EXAMPLES / "data/addresses.txt") if part(one.words) == "test"]


def test_the_tagger_labels_an_address_at_once(foveate: Any) -> None:
    said = foveate("tag", "us-address", ADDRESS, "--no-tune")
    labels = " ".join(f"{word}/B-{part}" for word, part in zip(ADDRESS.split(), PARTS, strict=True))
    assert (said.code, said.out, said.err) == (0, f"{labels}\n", "")


def test_its_words_may_be_in_small_letters_without_commas(tagger: SentenceTagger) -> None:
    assert [tag[2:] for tag in tagger.tag(ADDRESS.lower().replace(",", "")).tags] == PARTS


def test_it_is_as_good_as_its_card_states(tagger: SentenceTagger, unseen: list[Tagged]) -> None:
    row = re.search(r"^\| all \|.*$", (run_folder("us-address") / "README.md").read_text("utf-8"), re.MULTILINE)
    assert row is not None
    stated = float(row[0].split("|")[6])
    pairs = [
        pair
        for one, other in zip(unseen, tagger.tag([one.words for one in unseen]), strict=True)
        for pair in zip(one.tags, other.tags, strict=True)
    ]
    words = 100 * sum(gold[2:] == tag[2:] for gold, tag in pairs) / len(pairs)
    error = 100 * (stated / 100 * (1 - stated / 100) / len(pairs)) ** 0.5
    assert len(pairs) > 100
    assert abs(words - stated) < 3 * error


def test_it_has_words_of_several_addresses_only(tagger: SentenceTagger, unseen: list[Tagged]) -> None:
    """A house number of three digits or more that only one address has is known by its spelling."""
    numbers = [word for one in unseen for word in one.words if re.fullmatch(r"\d{4}", word)]
    assert sum(map(tagger.knows, numbers)) < len(numbers) / 2


def test_its_attention_can_be_looked_at(foveate: Any) -> None:
    said = foveate("look", "us-address", ADDRESS, "--no-tune")
    assert (said.code, said.err) == (0, "")
    assert "Pennsylvania " in said.out
    said = foveate("look", "us-address", ADDRESS, "--why", "DC", "--no-tune")
    assert said.code == 0, said.err
    assert "StateName" in said.out


def test_it_is_scored_by_name_but_has_no_report(foveate: Any, tmp_path: Path) -> None:
    data = EXAMPLES / "data/addresses.txt"
    said = foveate("evaluate", "us-address", "--data", data, "--no-tune")
    assert said.out.startswith("accuracy = ")
    said = foveate("evaluate", "us-address", "--data", data, "--report", tmp_path / "report.html", "--no-tune")
    assert (said.code, "us-address comes without one" in said.err) == (2, True)


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> list[Pair]:
    """The test words of the demo, whose first 200 are enough here."""
    folder = tmp_path_factory.mktemp("words")
    example(EXAMPLES / "pronunciation/run.py").split(folder, held_out=1000, most=2001)
    return list(read_pairs(folder / "test.tsv"))[:200]


def test_words_are_pronounced_at_once_in_small_and_capital_letters(foveate: Any) -> None:
    said = foveate("translate", "en-sounds", "nation", "National", "--no-tune")
    assert (said.code, said.out, said.err) == (0, "N EY SH AH N\nN AE SH AH N AH L\n", "")
    said = foveate("translate", "en-sounds", "nation", "--align", "--no-tune")
    assert "all attention" in said.out
    assert "vocabulary lacks" in foveate("translate", "en-sounds", "no 1", "--no-tune").err


def test_pronunciations_are_as_good_as_their_card_states(words: list[Pair]) -> None:
    card = (run_folder("en-sounds") / "README.md").read_text("utf-8")
    row = re.search(r"^\| this model \| ([\d.]+) \| ([\d.]+) \|$", card, re.MULTILINE)
    assert row is not None
    translator = Translator.load("en-sounds")
    phones = [one.text for one in translator.translate([pair.source for pair in words])]
    references = [pair.target for pair in words]
    stated = float(row[2])
    error = 100 * (stated / 100 * (1 - stated / 100) / len(words)) ** 0.5
    assert abs(sentence_error_rate(phones, references).value - stated) < 3 * error
    assert abs(phone_error_rate(phones, references).value - float(row[1])) < 2


def test_the_attention_of_a_pronunciation_follows_the_letters(words: list[Pair]) -> None:
    """From phone to phone, the letter with the largest weight is rarely an earlier one."""
    translator = Translator.load("en-sounds")
    texts = [pair.source for pair in words[:50]]
    places = [one.without_specials().weights.argmax(1) for one in translator.align(translator.translate(texts))]
    steps = np.concatenate([np.diff(place) for place in places])
    assert (steps >= 0).mean() > 0.9


def test_pronunciations_are_scored_by_a_program(tmp_path: Path) -> None:
    rows = [("cat", "K AE T"), ("dog", "D AO G")]
    for name in ("train", "test"):
        (tmp_path / f"{name}.tsv").write_text("".join(f"{word}\t{phones}\n" for word, phones in rows))
    (tmp_path / "dictionary").write_text("cat K AE1 T # an animal\ndog D AA1 G\ndog(2) D AO1 G\n")
    scores = example(EXAMPLES / "pronunciation/word_scores.py")
    test, out = str(tmp_path / "test.tsv"), tmp_path / "scores.json"
    scores.main(["en-sounds", test, "--dictionary", str(tmp_path / "dictionary"), "--out", str(out)])
    values = [row["phones"] for row in json.loads(out.read_text("utf-8"))]
    assert values[:2] == [0, 0]
    assert values[2] >= values[3]


def test_a_model_for_another_command_names_those_that_suit(foveate: Any) -> None:
    said = foveate("tag", "en-fr", ADDRESS, "--no-tune")
    assert said.code == 2
    assert said.err.startswith("foveate tag: en-fr is a run of the task translate, but this command is for runs of tag")
    assert "Name such a run, or us-address, which comes with foveate, or see `foveate --help`" in said.err
    said = foveate("fill", "us-address", ADDRESS, "--no-tune")
    assert "is for runs of masked_language_model. Name such a run, or see" in said.err


def test_its_scores_and_its_page_are_made_by_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES / "tagging"))
    data = tmp_path / "addresses"
    example(EXAMPLES / "tagging/addresses.py").main([str(data), "--sample", "--plain"])
    train = (data / "train.txt").read_text("utf-8").splitlines()
    assert all(line.count("/B-") == train[0].count("/B-") for line in train[:2])
    assert not set(train) & set((data / "test.txt").read_text("utf-8").splitlines())
    scores = example(EXAMPLES / "tagging/address_scores.py")
    scores.main(["us-address", str(data), "--out", str(tmp_path / "scores.json")])
    rows = json.loads((tmp_path / "scores.json").read_text("utf-8"))["rows"]
    assert rows[0]["us-address: words"] > rows[0]["most frequent: words"] + 10
    assert sum(row["number"] for row in rows[1:-1]) == rows[0]["number"] == rows[-1]["number"]
    page = tmp_path / "page.md"
    example(EXAMPLES / "unchosen.py").main(["us-address", str(data / "test.txt"), "--out", str(page)])
    assert page.read_text("utf-8").count("\n## `test.txt`, line ") == 10


@pytest.mark.parametrize("page", sorted((EXAMPLES.parent / "docs/models").glob("ten_*.md")), ids=lambda page: page.name)
def test_a_page_has_ten_examples(page: Path) -> None:
    text = page.read_text("utf-8")
    assert text.count("\n## `test.") == text.count("all attention\n") == 10


def test_too_few_examples_are_refused_and_not_shown_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tests, page = tmp_path / "test.txt", tmp_path / "page.md"
    main = example(EXAMPLES / "unchosen.py").main
    for count in (0, 9):
        tests.write_text("12/AddressNumber\n" * count)
        with pytest.raises(SystemExit, match=f"has {count} examples, and 10 are needed"):
            main(["us-address", str(tests), "--out", str(page)])
    with pytest.raises(SystemExit):
        main(["us-address", *[str(tests)] * 3, "--out", str(page)])
    assert "give 1, 2, 5 or 10 test files, not 3" in capsys.readouterr().err
    assert not page.exists()


def test_the_help_and_the_page_about_them_list_every_model(foveate: Any) -> None:
    page = (EXAMPLES.parent / "docs/models/README.md").read_text("utf-8")
    lines = foveate("--help").out.splitlines()
    for name, model in SHIPPED.items():
        assert any(line.split(maxsplit=1) == [name, model.summary] for line in lines)
        assert f"| [`{name}`](../../src/foveate/shipped/{model.run}/README.md) | {model.summary}" in page
