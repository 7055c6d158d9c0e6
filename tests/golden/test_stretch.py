"""A stretch has one meaning: the ranges of `stretch.json` are Python's and the viewer's (viewer/test)."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foveate.inspect.time_alignment import stretch

GOLDEN: list[dict[str, Any]] = json.loads((Path(__file__).parent / "stretch.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", GOLDEN)
def test_a_stretch_is_the_stored_one(row: dict[str, Any]) -> None:
    assert stretch(np.array(row["weights"], dtype=float), row["share"]) == (row["stretch"] and tuple(row["stretch"]))
