"""Lift has one meaning: the numbers of `lift.json`, worked by hand, are Python's and the viewer's (viewer/test)."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from foveate.errors import UsageError
from foveate.inspect.tile import HIDDEN, DenseProvider, TraceProvider, decode, equal, lift
from foveate.inspect.trace import Trace, Track, given

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "lift.json").read_text(encoding="utf-8"))
WEIGHTS = np.array(GOLDEN["weights"], dtype=np.float32)
VISIBLE = np.array(GOLDEN["visible"], dtype=bool)


def trace() -> Trace:
    tracks = {
        name: Track(labels=tuple("abcdefg"[: spans[-1][1]]), words=tuple(map(tuple, spans)))
        for name, spans in (("keys", GOLDEN["columns"]), ("queries", GOLDEN["rows"]))
    }
    site = given(torch.from_numpy(WEIGHTS)[None], torch.from_numpy(VISIBLE)[None], tracks=("queries", "keys"))
    return Trace(tracks=tracks, sites=(site,))


def stored(name: str) -> np.ndarray:
    return np.array([[np.nan if value is None else value for value in row] for row in GOLDEN[name]])


def test_the_lift_of_a_weight_counts_the_keys_that_its_row_sees() -> None:
    made = lift(WEIGHTS, VISIBLE.sum(1, keepdims=True))
    assert np.array_equal(np.where(VISIBLE, made, np.nan), stored("tokens"), equal_nan=True)


@pytest.mark.parametrize("kind", [TraceProvider, DenseProvider])
def test_providers_tell_the_lift_of_every_cell_and_how_many_keys_it_is_among(kind: Any) -> None:
    provider = kind(trace())
    for query, row in enumerate(stored("tokens")):
        for key, expected in enumerate(row):
            cell = provider.value(0, 0, query, key)
            assert cell.count == VISIBLE[query].sum()
            assert cell.visible is not np.isnan(expected)
            assert cell.lift == (expected if cell.visible else 0)
            assert 1 <= cell.rank <= cell.count or not cell.visible


@pytest.mark.parametrize("kind", [TraceProvider, DenseProvider])
def test_the_lift_of_a_word_is_its_share_over_its_share_of_the_visible_keys(kind: Any) -> None:
    provider = kind(trace())
    mass, share = (provider.tile(0, 0, "word", 0, 0, pool) for pool in ("mass", "equal"))
    assert np.array_equal(mass == HIDDEN, share == HIDDEN)
    shown = (decode(mass) / np.where(share == HIDDEN, np.nan, decode(share)))[:3, :3]
    assert np.allclose(shown, stored("words"), rtol=1e-3, equal_nan=True)


def test_a_head_that_looks_everywhere_alike_has_a_lift_of_one() -> None:
    assert np.allclose(lift(equal(VISIBLE), VISIBLE.sum(1, keepdims=True)), VISIBLE)
    assert not equal(np.zeros((2, 3), bool)).any()


def test_equal_shares_are_for_words_and_say_so() -> None:
    for kind in (TraceProvider, DenseProvider):
        with pytest.raises(UsageError, match=r"no pooling 'equal' here: equal is for words and sentences"):
            kind(trace()).tile(0, 0, 1, 0, 0, "equal")
