"""Documents are true: their links lead somewhere, their examples run, and the commands they name exist."""

import doctest
import importlib
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from foveate import config
from foveate.attention import Positions, visibility
from foveate.attention.paths import MaterialisedPath
from foveate.cli.program import commands
from foveate.models import LuongConfig, TransformerConfig

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_the_examples_of_a_page_run(page: str) -> None:
    outcome = doctest.testfile(str(ROOT / page), module_relative=False)
    assert outcome.attempted > 5
    assert outcome.failed == 0


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_to_a_file_leads_somewhere(path: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_the_pages_name_every_command_and_every_package() -> None:
    page = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    for command in commands():
        assert f"`foveate {command}" in page
    house = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## The house")[2].partition("\n## ")[0]
    for package in (ROOT / "src/foveate").glob("*/__init__.py"):
        assert re.search(rf"\b{package.parent.name}\b", house), package.parent.name


def test_the_examples_of_the_page_about_paths_run() -> None:
    outcome = doctest.testfile(str(ROOT / "docs/paths.md"), module_relative=False)
    assert outcome.attempted > 10
    assert outcome.failed == 0


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Any:
    return module("build", monkeypatch)


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> Any:
    return module("measure", monkeypatch)


@pytest.fixture
def complexity(monkeypatch: pytest.MonkeyPatch) -> Any:
    return module("complexity", monkeypatch)


def module(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """One of the programs beside the documents."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return importlib.import_module(name)


def test_the_pages_of_mechanisms_are_those_of_the_docstrings(build: Any) -> None:
    made = build.pages(list(build.entries()))
    assert {path.name for path in build.FOLDER.iterdir()} == {*made, "measured.json"}
    for name, text in made.items():
        if name.endswith(".md"):
            assert (build.FOLDER / name).read_text(encoding="utf-8") == text, f"python docs/build.py renews {name}"


def test_every_page_has_a_picture_and_an_example(build: Any) -> None:
    for entry in build.entries():
        page = (build.FOLDER / f"{entry.name}.md").read_text(encoding="utf-8")
        assert f"]({entry.name}.svg)" in page
        assert ">>> " in page, f"{entry.name} has no doctest"
        assert (build.FOLDER / f"{entry.name}.svg").read_text(encoding="utf-8").startswith("<svg")


def test_the_line_of_each_page_is_one_that_a_configuration_takes(build: Any) -> None:
    for entry in build.entries():
        if entry.kind not in build.IN_PYTHON:
            settings = tomllib.loads(entry.setting)["model"]
            config.build(LuongConfig if "attention" in settings else TransformerConfig, settings)


def test_every_rule_has_a_page(build: Any) -> None:
    shown = {entry.kind for entry in build.entries() if entry.section == "visibility"}
    rules = {name for name in visibility.__all__ if name.islower()}
    assert rules - shown <= {"nothing"}  # what remains of rules that contradict each other


@pytest.mark.slow
def test_the_path_that_a_page_names_accepts_its_mechanism(build: Any, measure: Any) -> None:
    """Which of those that accept is the fastest, each processor says for itself."""
    figures = json.loads(build.MEASURED.read_text(encoding="utf-8"))["mechanisms"]
    every = {entry.name: entry for entry in build.entries()}
    assert set(figures) <= set(every)
    for name, row in figures.items():
        named = {size: at["path"] for size, at in row.items() if size.isdigit() and "path" in at}
        for size, path in named.items():
            mechanism, x, at = measure.timed(every[name], int(size))
            answers = {answer.name: answer.reasons for answer in mechanism.plan(x, x, at=at).paths}
            assert path in answers, f"{name}: there is no path {path}"
            # Whether there is a compiler for its kernels is the machine's affair, too.
            refused = [reason for reason in answers[path] if "compiler" not in reason]
            assert not refused, f"{name} at {size}: {path} refuses: {refused}"


def test_parts_with_a_limit_are_measured_past_it(measure: Any, build: Any) -> None:
    limited = {entry.name: entry for entry in build.entries() if measure.sized(entry.config, 600) != entry.config}
    assert set(limited) == {"score-location", "formula-linformer", "formula-synthesizer", "position-learned"}
    for entry in limited.values():
        assert measure.job(entry, 600).call().shape[-2] == 600


def test_parts_that_read_more_than_positions_are_measured_with_it(measure: Any, build: Any) -> None:
    every = {entry.kind: entry for entry in build.entries()}
    for kind in ("location_aware", "same_segment", "predicate", "ran", "rnn_made"):
        assert measure.job(every[kind], 20).call().shape[-2] == 20


def test_growth_is_the_exponent_of_three_lengths(measure: Any) -> None:
    cubes = {str(size): {"forward": 1e-6 * size**3} for size in (256, 1024, 512)}
    assert measure.growth({"weights": 0, **cubes}, "forward") == pytest.approx(3)
    assert measure.growth({"weights": 0, **cubes}, "training") is None
    assert measure.growth({size: cubes[size] for size in ("256", "512")}, "forward") is None


def test_what_the_table_of_layers_counts_is_what_is_timed(measure: Any, complexity: Any) -> None:
    """The arithmetic that torch counts, against the law."""
    length, width = 192, measure.WIDTH
    law = complexity.table(length, width, kernel=measure.KERNEL, neighbourhood=measure.NEAR)
    jobs = measure.layers()
    assert set(jobs) == set(law)
    near = jobs["restricted self-attention"].attention.visibility
    assert 4 * near.pairs(Positions.of(length, length)) * width == law["restricted self-attention"].flops
    jobs["self-attention"].attention.paths = (MaterialisedPath(),)  # torch does not count what is in our kernels
    for name in ("self-attention", "recurrent", "convolution"):
        with FlopCounterMode(display=False) as counter:
            jobs[name](torch.randn(1, length, width))
        assert counter.get_total_flops() == law[name].flops, name
