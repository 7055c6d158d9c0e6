"""The amount of work in a file, by its header."""

import struct

import numpy as np
import pytest
from tests.surface.sense_run import sound

from foveate.inspect.figure.pixel import photograph
from foveate.serve.service.file_size import pixels, seconds, units
from foveate.tasks.file_limit import LONGEST, MOST_PIXELS


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "RF64"])
def test_the_header_of_a_recording_tells_its_seconds(kind: str) -> None:
    assert seconds(sound(3.0, kind, rate=16_000)) == pytest.approx(3.0, abs=0.02)
    assert units("recordings", sound(900.0, "FLAC")) == LONGEST


def test_where_the_header_tells_nothing_the_bytes_do() -> None:
    mp3 = sound(4.0, "MP3", rate=16_000)
    assert seconds(mp3) == len(mp3) / 16_000
    assert seconds(b"") == 0
    for start in (b"RIFF....WAVEfmt ", b"fLaC", b"OggS\0", b"RIFF"):
        for size in range(60):
            seconds((start + bytes(60))[:size])
    lying = bytearray(sound(2.0, "WAV"))
    lying[28:32] = struct.pack("<I", 0xFFFFFFFF)
    assert seconds(bytes(lying)) == len(lying) / 400_000


def test_the_header_of_a_picture_tells_its_pixels() -> None:
    assert pixels(photograph(np.zeros((5, 7, 3), np.uint8))) == 35
    large = photograph(np.random.default_rng(0).integers(0, 256, (400, 300, 3), dtype=np.uint8))
    assert len(large) > 1 << 18
    assert units("pictures", large) == 120_000
    assert pixels(b"RIFF" + bytes(96)) == 400
    assert pixels(b"GIF89a\3\0\2\0" + bytes(90)) == 25  # frames may follow
    assert pixels(b"GIF89a" + b"\xff" * 90) == MOST_PIXELS


def test_only_the_beginning_of_a_header_without_an_end_is_read() -> None:
    endless = b"\xff\xd8" + b"\xff\xe0\0\2" * 100_000
    assert pixels(endless + b"\xff\xc0\0\x0b\x08\0\5\0\7" + bytes(99)) == 4 * (len(endless) + 108)
