"""The tables of pages have the figures that the scripts have measured."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "examples"


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("tables", FOLDER / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "tables", module)
    spec.loader.exec_module(module)
    return module


def test_pages_have_the_figures_of_the_results(tables: ModuleType) -> None:
    assert tables.main(["--check"]) == 0, "run examples/tables.py"


def test_another_figure_on_a_page_is_replaced(tables: ModuleType) -> None:
    for name, figures, own in tables.PAGES:
        page = (FOLDER.parent / "docs" / name).read_text(encoding="utf-8")
        results = json.loads((FOLDER / figures).read_text(encoding="utf-8"))
        lines = page.split("\n")
        for table in own:
            row = next(number for number, line in enumerate(lines) if line.startswith(table.heading)) + 2
            other = [*lines[:row], "| a row of another time |", *lines[row + 1 :]]
            assert tables.fill("\n".join(other), results, own) == page


def test_a_page_without_a_table_is_refused(tables: ModuleType) -> None:
    with pytest.raises(SystemExit, match="no table that begins with"):
        tables.fill("# Speech", {}, tables.SPEECH)


def test_the_spread_of_seeds_is_written_as_the_docstring_says(tables: ModuleType) -> None:
    assert tables.spread([4.0, 5.0]) == "4.5 ± 0.7"
    assert tables.spread([0.5, 0.6], places=2) == "0.55 ± 0.07"
    assert tables.spread([99.96]) == "100"
    assert tables.spread([]) == "–"
