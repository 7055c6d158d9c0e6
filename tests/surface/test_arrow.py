"""Arrows between packages point only downwards."""

import re
import tomllib
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[2]


def test_imports_follow_the_layers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    code = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)
    assert code == 0, capsys.readouterr().out


def test_the_house_is_drawn_as_it_stands() -> None:
    """The layers that are checked are those of the picture, in its order."""
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    checked = [layer.replace("foveate.", "") for layer in layers[0]["layers"]]
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    house = page.partition("## The house")[2].partition("```\n")[2].partition("```")[0]
    drawn = [re.split(r"  +", line.strip())[0] for line in house.splitlines() if re.match(r" \w", line)]
    assert drawn == checked
