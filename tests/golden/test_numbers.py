"""Numbers are written alike: the cases of `numbers.json` are those of Python and of the viewer (viewer/test)."""

import json
from pathlib import Path
from typing import Any

import pytest

from foveate.inspect.step.number import aligned

GOLDEN: list[dict[str, Any]] = json.loads((Path(__file__).parent / "numbers.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", GOLDEN)
def test_numbers_are_written_as_stored(row: dict[str, Any]) -> None:
    assert aligned(row["values"]) == row["written"]
