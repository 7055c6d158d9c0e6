"""The small models that come with the package work at once, with the scores that their cards state."""

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from foveate.data.labelled import Tagged, read_tagged
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


def test_a_model_for_another_command_names_those_that_suit(foveate: Any) -> None:
    said = foveate("tag", "en-fr", ADDRESS, "--no-tune")
    assert said.code == 2
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


def test_the_help_and_the_page_about_them_list_every_model(foveate: Any) -> None:
    page = (EXAMPLES.parent / "docs/models/README.md").read_text("utf-8")
    lines = foveate("--help").out.splitlines()
    for name, model in SHIPPED.items():
        assert any(line.split(maxsplit=1) == [name, model.summary] for line in lines)
        assert f"| [`{name}`](../../src/foveate/shipped/{model.run}/README.md) | {model.summary}" in page
