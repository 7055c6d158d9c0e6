"""Sounds in a trace: outlines to see, samples to play, and refusals."""

import io
import json
import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from foveate.errors import DataError, UsageError
from foveate.inspect import Sound, Trace, Track, read_trace, write_trace
from foveate.inspect.trace import given
from foveate.inspect.trace.folder import parsed

RATE = 8000


def tone(seconds: float = 0.5) -> np.ndarray:
    return 0.5 * np.sin(np.arange(int(RATE * seconds)) * 2 * np.pi * 440 / RATE)


def heard(sound: Sound) -> Trace:
    frames = Track.of_frames(5, hop=0.1, sound=sound)
    return Trace(tracks={"source": frames}, sites=(given(torch.full((1, 5, 5), 0.2)),))


def test_a_sound_keeps_the_lowest_and_highest_of_each_piece() -> None:
    samples = np.sin(np.arange(48_000) / 7)
    sound = Sound.of(samples, seconds=3.0)
    assert len(sound.low) == len(sound.high) == 2000
    assert (min(sound.low), max(sound.high)) == (-127, 127)
    assert Sound.read(json.loads(json.dumps(sound.header()))) == sound


@pytest.mark.parametrize(
    "header",
    [
        {"low": [1], "high": [0], "seconds": 1},
        {"low": [0], "high": [], "seconds": 1},
        {"low": [], "high": [], "seconds": 0},
    ],
)
def test_a_sound_that_cannot_be_is_refused(header: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="outline of a sound"):
        Sound.read(header)


def test_the_samples_of_a_playable_sound_are_those_that_were_given() -> None:
    sound = Sound.of(tone(), rate=RATE)
    assert (sound.media, sound.seconds) == ("audio/flac", 0.5)
    samples, rate = soundfile.read(io.BytesIO(sound.audio or b""))
    assert rate == RATE
    np.testing.assert_allclose(samples, tone(), atol=1 / 32767)
    assert Sound.of(tone(), rate=RATE) == sound


def test_without_soundfile_the_samples_are_a_wav_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    sound = Sound.of(torch.from_numpy(tone()).float(), rate=RATE)
    assert sound.media == "audio/wav"
    with wave.open(io.BytesIO(sound.audio or b"")) as opened:
        assert (opened.getnchannels(), opened.getframerate(), opened.getsampwidth()) == (1, RATE, 2)
        samples = np.frombuffer(opened.readframes(RATE), dtype="<i2") / 32767
    np.testing.assert_allclose(samples, tone(), atol=1 / 32767)


def test_samples_beyond_full_scale_are_clipped_and_what_is_not_a_number_is_silent() -> None:
    sound = Sound.of([2.0, -3.0, float("nan"), 0.0], rate=RATE)
    samples, _ = soundfile.read(io.BytesIO(sound.audio or b""))
    np.testing.assert_allclose(samples, [1.0, -1.0, 0.0, 0.0], atol=1e-4)


def test_a_trace_with_a_playable_sound_reads_back_whole(tmp_path: Path) -> None:
    trace = heard(Sound.of(tone(), rate=RATE))
    path = write_trace(trace, tmp_path / "a.trace")
    assert json.loads((path / "trace.json").read_text())["version"] == 2
    assert read_trace(path).tracks == trace.tracks


def test_a_reader_that_does_not_know_samples_still_has_the_outline() -> None:
    header = Sound.of(tone(), rate=RATE).header()
    del header["audio"]
    assert header == Sound.of(tone(), seconds=0.5).header()
    assert Sound.read(header).audio is None


def test_a_long_sound_is_refused_with_a_remedy() -> None:
    noise = np.random.default_rng(0).uniform(-1, 1, 2_100_000)
    with pytest.raises(UsageError, match=r"4\.\d MB; a trace contains at most 4\. Show a shorter stretch"):
        Sound.of(noise, rate=48_000)
    assert Sound.of(noise, seconds=43.75).audio is None


@pytest.mark.parametrize("lengths", [{}, {"seconds": 1.0, "rate": 8000}, {"rate": 0}])
def test_a_sound_has_either_a_rate_or_a_length(lengths: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="either `rate` in samples a second"):
        Sound.of(tone(), **lengths)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda sound: sound["audio"].update(data="€"), "not a sequence of labels"),
        (lambda sound: sound["audio"].update(data="T2dnUw=="), "not a complete FLAC or WAV file"),
        (lambda sound: sound["audio"].pop("data"), "not a sequence of labels"),
        (lambda sound: sound.update(seconds=2.5), "take 0.50 seconds, but its outline 2.50"),
    ],
)
def test_damaged_samples_are_refused(change: Any, message: str) -> None:
    header = heard(Sound.of(tone(), rate=RATE)).header()
    change(header["sequences"]["source"]["sound"])
    with pytest.raises(DataError, match=message):
        parsed(header, lambda _: heard(Sound.of(tone(), seconds=0.5)).sites[0].tensors, "here")


@pytest.mark.parametrize("missing", [1, 100, 4000])
def test_a_wav_file_that_ends_early_is_refused(monkeypatch: pytest.MonkeyPatch, missing: int) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    sound = Sound.of(tone(), rate=RATE)
    with pytest.raises(UsageError, match="not a complete FLAC or WAV file"):
        Sound(sound.low, sound.high, sound.seconds, (sound.audio or b"")[:-missing])
