"""Documents are true: their links lead somewhere, their examples run, and the commands they name exist."""

import doctest
import importlib.util
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from foveate import config
from foveate.attention import visibility
from foveate.cli import COMMANDS
from foveate.models import LuongConfig, TransformerConfig

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])


def test_the_examples_of_the_readme_run() -> None:
    outcome = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert outcome.attempted > 5
    assert outcome.failed == 0


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_to_a_file_leads_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_the_readme_names_every_command_and_every_package() -> None:
    said = (ROOT / "README.md").read_text(encoding="utf-8")
    for command in COMMANDS:
        assert f"`foveate {command}" in said
    for package in (ROOT / "src/foveate").glob("*/__init__.py"):
        assert f"  {package.parent.name}/" in said


def pages_of_mechanisms() -> Any:
    spec = importlib.util.spec_from_file_location("build", ROOT / "docs/build.py")
    assert spec
    assert spec.loader
    build = importlib.util.module_from_spec(spec)
    sys.modules["build"] = build
    spec.loader.exec_module(build)
    return build


def test_the_pages_of_mechanisms_are_those_of_the_docstrings() -> None:
    build = pages_of_mechanisms()
    made = build.pages(list(build.entries()))
    assert {path.name for path in build.FOLDER.iterdir()} == {*made, "measured.json"}
    for name, text in made.items():
        if name.endswith(".md"):
            assert (build.FOLDER / name).read_text(encoding="utf-8") == text, f"python docs/build.py renews {name}"


def test_the_line_of_each_page_is_one_that_a_configuration_takes() -> None:
    build = pages_of_mechanisms()
    for entry in build.entries():
        if entry.kind not in build.IN_PYTHON:
            settings = tomllib.loads(entry.setting)["model"]
            config.build(LuongConfig if "attention" in settings else TransformerConfig, settings)


def test_every_rule_has_a_page() -> None:
    shown = {entry.kind for entry in pages_of_mechanisms().entries() if entry.section == "visibility"}
    rules = {name for name in visibility.__all__ if name.islower()}
    assert rules - shown <= {"nothing"}  # what remains of rules that contradict each other
