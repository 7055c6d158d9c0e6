"""Sound from a pipe is that of the file, in whatever pieces it comes."""

import io
import struct
from typing import Any

import numpy as np
import pytest

from foveate.data.audio_file import CUT
from foveate.data.audio_pipe import Pipe
from foveate.errors import DataError, UsageError

TONE = np.sin(np.arange(4_000) / 9).astype(np.float32) / 2


class Dripping(io.BytesIO):
    """A pipe that gives a few bytes at a time, however many are wanted."""

    def read(self, size: Any = -1) -> bytes:
        return super().read(min(size, 37) if size and size > 0 else size)


def wave(samples: np.ndarray, code: int, bits: int, *, channels: int = 1, size: int | None = None) -> bytes:
    """A WAV file, with a chunk before the samples that says nothing."""
    data = samples.tobytes()
    facts = struct.pack("<HHIIHH", code, channels, 8_000, 8_000 * bits // 8 * channels, bits // 8 * channels, bits)
    body = b"fmt " + struct.pack("<I", 16) + facts + b"LIST" + struct.pack("<I", 3) + b"abc\0"
    length = len(data) if size is None else size
    return b"RIFF" + struct.pack("<I", 0) + b"WAVE" + body + b"data" + struct.pack("<I", length) + data


@pytest.mark.parametrize("kind", [io.BytesIO, Dripping])
@pytest.mark.parametrize(
    ("samples", "code", "bits"),
    [(np.rint(TONE * 32768).astype("<i2"), 1, 16), (TONE.astype("<f4"), 3, 32), (TONE.astype("<f8"), 3, 64)],
)
def test_a_wave_file_is_read_from_a_pipe(kind: Any, samples: np.ndarray, code: int, bits: int) -> None:
    recording = Pipe.of(kind(wave(samples, code, bits))).recording()
    assert recording.rate == 8_000
    np.testing.assert_allclose(recording.samples, TONE, atol=2e-5)


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF])
def test_a_program_that_writes_to_a_pipe_does_not_know_the_size(size: int) -> None:
    samples = np.rint(TONE * 32768).astype("<i2")
    assert len(Pipe.of(io.BytesIO(wave(samples, 1, 16, size=size))).recording().samples) == len(TONE)


def test_a_pipe_that_ends_too_early_is_remarked() -> None:
    samples = np.rint(TONE * 32768).astype("<i2")
    assert Pipe.of(io.BytesIO(wave(samples, 1, 16))).recording().remarks == ()
    assert Pipe.of(io.BytesIO(wave(samples, 1, 16, size=2 * len(samples) + 2))).recording().remarks == (CUT,)


def test_what_follows_the_samples_is_not_sound() -> None:
    samples = np.rint(TONE * 32768).astype("<i2")
    assert len(Pipe.of(io.BytesIO(wave(samples, 1, 16) + b"LIST\4\0\0\0abcd")).recording().samples) == len(TONE)


def test_the_channels_of_a_recording_have_a_mean() -> None:
    both = np.stack([TONE, -TONE], 1).astype("<f4")
    recording = Pipe.of(io.BytesIO(wave(both, 3, 32, channels=2))).recording()
    assert np.abs(recording.samples).max() == 0
    assert recording.remarks == ("2 channels, whose mean is read", "silence")


def test_raw_sound_needs_a_rate() -> None:
    raw = np.rint(TONE * 32768).astype("<i2").tobytes()
    remarks: list[str] = []
    pieces = list(Pipe.of(Dripping(raw + b"\0"), 8_000).pieces(remarks))
    assert remarks == ["1 of the 2 bytes of a last sample, which are left out"]
    np.testing.assert_allclose(np.concatenate(pieces), TONE, atol=2e-5)
    assert [len(piece) for piece in pieces] == [1600, 1600, 800]
    with pytest.raises(DataError, match=r"is not a WAV file. Raw samples, .* need --rate N"):
        Pipe.of(io.BytesIO(raw))
    with pytest.raises(UsageError, match=r"has a rate of its own. Leave --rate out"):
        Pipe.of(io.BytesIO(wave(TONE, 3, 32)), 8_000)
    with pytest.raises(UsageError, match="rate must be from 1,000"):
        Pipe.of(io.BytesIO(raw), 10)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "standard input is empty"),
        (wave(TONE[:0], 3, 32), "has no samples"),
        (wave(TONE, 3, 32)[:40], "begins as a WAV file and has no samples"),
        (wave(TONE, 7, 8), r"samples of 8 bits \(code 7\)"),
    ],
)
def test_other_bytes_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Pipe.of(io.BytesIO(data)).recording()


@pytest.mark.parametrize("begin", [b"fLaC", b"OggS", b"ID3\4", b"RF64", b"FORM"])
def test_another_file_of_sound_is_not_taken_for_raw_samples(begin: bytes) -> None:
    with pytest.raises(DataError, match=r"and not raw samples\. Name the file as an argument"):
        Pipe.of(io.BytesIO(begin + bytes(100)), rate=16_000)
