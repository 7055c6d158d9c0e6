"""A word has one meaning: the cases of `words.json` are Python's and the viewer's (viewer/test)."""

import json
from pathlib import Path
from typing import Any

import pytest

from foveate.inspect.answer_switch import words_of
from foveate.inspect.trace import Track

GOLDEN: list[dict[str, Any]] = json.loads((Path(__file__).parent / "words.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", GOLDEN)
def test_the_words_that_can_be_switched_off_are_the_stored_ones(row: dict[str, Any]) -> None:
    spans = None if row["spans"] is None else tuple(map(tuple, row["spans"]))
    notes = None if "notes" not in row else tuple(row["notes"])
    track = Track(labels=tuple(row["labels"]), words=spans, notes=notes)
    assert track.readable().labels == track.labels, "the viewer sees readable labels"
    assert words_of(track) == list(map(tuple, row["words"]))
