"""Vectors of a recording that arrives in pieces are those of the whole recording."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.data.audio import AudioReader, AudioRows
from foveate.data.audio_file import Recording
from foveate.errors import UsageError
from foveate.nn.latency import latency

STORED = 2e-3
"""Numbers are stored in 16 bits: a difference in the last bit of 32 may round the other way."""
SETTINGS: list[dict[str, Any]] = [
    {},
    {"features": "mfcc", "cepstra": 5, "deltas": 1},
    {"deltas": 2, "normalisation": "running"},
    {"stack": 3, "stride": 2},
    {"stack": 4, "stride": 4, "deltas": 2, "normalisation": "running"},
]


def rows(**settings: Any) -> AudioRows:
    reader = AudioReader(rate=8000, bands=12, **settings)
    width = reader.geometry.bands * reader.geometry.parts
    return AudioRows(settings=reader, mean=(0.5,) * width, deviation=(2.0,) * width)


def chirp(samples: int) -> np.ndarray:
    time = np.arange(samples) / 8000
    noise = np.random.default_rng(samples).normal(size=samples)
    return (0.3 * np.sin(2 * math.pi * (200 + 900 * time) * time) + 0.01 * noise).astype(np.float32)


@pytest.mark.parametrize("chosen", SETTINGS)
def test_vectors_of_pieces_are_those_of_the_recording(chosen: dict[str, Any]) -> None:
    vectors = rows(**chosen)

    @settings(max_examples=25)
    @given(pieces=st.lists(st.integers(0, 1300), min_size=1, max_size=6))
    def holds(pieces: list[int]) -> None:
        samples = chirp(1 + sum(pieces))
        streamed = torch.cat(list(vectors.stream().run(torch.from_numpy(samples).split([*pieces, 1])))).numpy()
        whole = np.asarray(vectors.row(Recording("chirp", samples, 8000)).values, np.float32)
        np.testing.assert_allclose(streamed, whole, atol=STORED, rtol=STORED)
        assert streamed.shape == whole.shape

    holds()


def test_the_state_keeps_less_than_a_window_and_a_few_frames() -> None:
    stream = rows(deltas=2, stack=3, stride=3).stream()
    state, _ = stream.advance(stream.begin(), torch.from_numpy(chirp(80_000)), last=False)
    windows, slopes, _, stacks, _ = state.parts
    assert len(windows) < 200
    assert len(slopes) == 8
    assert len(stacks.frames) < 3


def test_the_latency_is_that_of_window_slopes_and_stack() -> None:
    assert str(latency(rows().stream(), 1 / 8000)) == "25 ms (windows 25 ms)"
    waits = latency(rows(deltas=2, stack=4, stride=2).stream(), 1 / 8000)
    assert waits.worst == pytest.approx(0.025 + 0.04 + 0.03)


def test_normalisation_by_the_recording_cannot_be_streamed() -> None:
    with pytest.raises(UsageError, match="normalisation=running"):
        rows(normalisation="recording").stream()
