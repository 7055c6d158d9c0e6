"""Distances of heads have one meaning: the cases of `heads.json` are those of the viewer, too (viewer/test)."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from foveate.inspect import Trace, Track, aligned, nearest_heads
from foveate.inspect.trace import given

GOLDEN: list[dict[str, Any]] = json.loads((Path(__file__).parent / "heads.json").read_text(encoding="utf-8"))


def trace(row: dict[str, Any], weights: list[list[list[float]]]) -> Trace:
    track = Track(labels=tuple(row["labels"]), text=row["text"], offsets=tuple(map(tuple, row["offsets"])))
    return Trace(tracks={"source": track}, sites=(given(torch.tensor(weights)),))


@pytest.mark.parametrize("row", GOLDEN)
def test_distances_of_heads_are_the_stored_ones(row: dict[str, Any]) -> None:
    one, other, stored = trace(row["one"], row["first"]), trace(row["other"], row["second"]), row["distances"]
    unit = row["unit"]
    means = [
        [
            aligned(one, other, site=0, head=head, other_site=0, other_head=at, unit=unit).mean
            for at in range(len(row["second"]))
        ]
        for head in range(len(row["first"]))
    ]
    np.testing.assert_allclose(means, stored, atol=1e-6)
    nearest = nearest_heads(one, other, unit=unit)
    assert [each.other_head for each in nearest] == np.argmin(stored, axis=1).tolist()
    np.testing.assert_allclose([each.distance for each in nearest], np.min(stored, axis=1), atol=1e-6)
