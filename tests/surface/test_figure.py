"""docs/figure.toml has the source of every figure in the README and in the pages that introduce the package: another
page, or code that computes it again here."""

import importlib.util
import lzma
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foveate.cli.program import INTERRUPTED
from foveate.cli.setup import resolve
from foveate.data.synthetic import synthetic
from foveate.errors import DataError, PeerError, SetupError, UsageError
from foveate.tasks import TASKS
from foveate.tasks.run_plan import MINUTES
from foveate.tasks.translate.task import build_model

ROOT = Path(__file__).parents[2]
FIGURES: dict[str, dict[str, Any]] = tomllib.loads((ROOT / "docs/figure.toml").read_text(encoding="utf-8"))
PAGES = {
    name: (ROOT / name).read_text(encoding="utf-8")
    for name in ("README.md", "docs/commands.md", "docs/examples.md", "docs/python.md", "docs/scope.md")
}
NUMBER = re.compile(r"(?<![\w.,–-])\d+(?:[.,]\d+)*k?(?![\w])")


def joined(text: str) -> str:
    """A page as one line, so that a sentence is found wherever its lines break."""
    return re.sub(r"\s+", " ", text)


def quoted(figure: dict[str, Any], quote: str) -> str:
    """A sentence with its values: all in one place, or numbered."""
    return quote.format(*([" | ".join(figure["values"])] if "{}" in quote else figure["values"]))


def unexplained(name: str, page: str) -> list[str]:
    """The numbers in the prose, tables and comments of a page that do not belong to a figure.

    Code and output are not prose: other tests run the one and compare the other.
    """
    fences = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    page = fences.sub(lambda fence: "" if fence[1] == "console" else "\n".join(re.findall(r"# .*", fence[2])), page)
    page = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "", page))
    page = joined(page)
    quotes = [quoted(figure, figure["quotes"][name]) for figure in FIGURES.values() if name in figure["quotes"]]
    spans = [place.span() for quote in quotes for place in re.finditer(re.escape(quote), page)]
    numbers = NUMBER.finditer(page)
    return [one[0] for one in numbers if not any(first <= one.start() < last for first, last in spans)]


def pronunciation_words() -> list[str]:
    with lzma.open(ROOT / "examples/data/cmudict.tsv.xz", "rt", encoding="utf-8") as file:
        return [f"{sum(1 for _ in file) - 2 * 1000:,}"]  # as many to validate on as to test on


def bottleneck_weights(name: str) -> list[str]:
    """What the example's models have, in thousands."""
    folder = ROOT / "examples/bottleneck"
    spec = importlib.util.spec_from_file_location("bottleneck", folder / "run.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    kind = TASKS["translate"].side.run_config
    config = resolve({}, str(folder / "run.toml"), {}, example.LETTERS[name], kind=kind)
    words = [pair.source for pair in synthetic("reverse", 200, symbols="abcdefgh", longest=40)]
    tokenisers = config.source_tokeniser.train(words), config.target_tokeniser.train(words)
    model = build_model(config, *(tokeniser.vocab_size for tokeniser in tokenisers))
    return [f"{round(model.parameter_count() / 1000)}k"]


COMPUTED: dict[str, Callable[[], list[str]]] = {
    "pronunciation_words": pronunciation_words,
    "small_minutes": lambda: [str(MINUTES["small"])],
    "bottleneck_fixed_weights": lambda: bottleneck_weights("fixed context"),
    "bottleneck_attention_weights": lambda: bottleneck_weights("Bahdanau"),
    "exit_codes": lambda: (
        [str(each.exit_code) for each in (UsageError, DataError, SetupError, PeerError)] + [str(INTERRUPTED)]
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_quoted_as_it_is(name: str) -> None:
    figure = FIGURES[name]
    for page, quote in figure["quotes"].items():
        sentence = quoted(figure, quote)
        assert sentence in joined((ROOT / page).read_text(encoding="utf-8")), f"{page} does not say: {sentence}"


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_has_a_unit_and_a_source(name: str) -> None:
    figure = FIGURES[name]
    assert figure["unit"]
    assert figure["source"] in {*figure["quotes"], "code"} - PAGES.keys()
    assert figure["quotes"].keys() & PAGES.keys()
    assert ("measured" in figure) == ("machine" in figure)
    assert (figure["source"] == "code") == (name in COMPUTED)


@pytest.mark.parametrize("name", COMPUTED)
def test_a_figure_that_code_gives_is_what_it_gives_now(name: str) -> None:
    assert COMPUTED[name]() == FIGURES[name]["values"]


@pytest.mark.parametrize("name", PAGES)
def test_every_figure_of_a_page_has_a_source(name: str) -> None:
    assert unexplained(name, PAGES[name]) == []


@pytest.mark.parametrize("name", FIGURES)
def test_a_number_changed_by_hand_is_noticed(name: str) -> None:
    """Each number of each quote, with a 9 before it."""
    for page in FIGURES[name]["quotes"].keys() & PAGES.keys():
        quote = quoted(FIGURES[name], FIGURES[name]["quotes"][page])
        text = PAGES[page]
        place = re.search(r"\s+".join(re.escape(word) for word in quote.split()), text)
        assert place
        for number in NUMBER.finditer(text, *place.span()):
            changed = f"{text[: number.start()]}9{text[number.start() :]}"
            assert f"9{number[0]}" in unexplained(page, changed)


@pytest.mark.parametrize("name", PAGES)
def test_a_number_added_by_hand_is_noticed(name: str) -> None:
    assert unexplained(name, f"{PAGES[name]}\nIt takes 7 minutes.\n") == ["7"]
    assert unexplained(name, f"{PAGES[name]}\nIt is 50 times as fast.\n") == ["50"]
