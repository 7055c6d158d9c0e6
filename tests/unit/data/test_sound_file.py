"""Sounds as files: every format has the tone that was written, at a rate that the format has."""

import io
import sys

import numpy as np
import pytest
import soundfile

from foveate.data.sound_file import FORMATS, sound_file
from foveate.errors import SetupError

HERTZ, SECONDS = 440, 0.5


def tone(rate: int) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * HERTZ * np.arange(round(SECONDS * rate)) / rate)).astype(np.float32)


@pytest.mark.parametrize(
    ("form", "rate", "written"),
    [
        *(("wav", rate, rate) for rate in (7_000, 16_000, 44_100)),
        *(("flac", rate, rate) for rate in (7_000, 16_000, 44_100)),
        *(("mp3", rate, written) for rate, written in ((16_000, 16_000), (20_000, 22_050), (96_000, 48_000))),
        *(("opus", rate, written) for rate, written in ((8_000, 8_000), (22_050, 24_000))),
        *(("pcm", rate, 24_000) for rate in (8_000, 24_000, 44_100)),
    ],
)
def test_a_tone_is_heard_with_its_pitch_length_and_loudness(form: str, rate: int, written: int) -> None:
    content = sound_file(tone(rate), rate, form)
    if form == "pcm":
        samples, read = np.frombuffer(content, "<i2") / 32768, 24_000
    else:
        samples, read = soundfile.read(io.BytesIO(content))
    assert read == written
    assert len(samples) / read == pytest.approx(SECONDS, abs=0.1)
    middle = samples[len(samples) // 4 : 3 * len(samples) // 4]
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle))))
    assert spectrum.argmax() * read / len(middle) == pytest.approx(HERTZ, abs=5)
    assert np.abs(middle).max() == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize("form", FORMATS)
def test_samples_beyond_full_scale_are_cut_and_do_not_wrap(form: str) -> None:
    loud = 3 * tone(24_000)
    content = sound_file(loud, 24_000, form)
    samples = np.frombuffer(content, "<i2") / 32768 if form == "pcm" else soundfile.read(io.BytesIO(content))[0]
    likeness = np.correlate(samples, np.clip(loud, -1, 1)[3_000:9_000], "valid").max()
    assert likeness > 0.9 * (np.clip(loud, -1, 1)[3_000:9_000] ** 2).sum()


def test_an_unknown_format_and_a_missing_package_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="wav, flac, mp3, opus, pcm"):
        sound_file(tone(8_000), 8_000, "aac")
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(SetupError, match=r"foveate\[audio\]"):
        sound_file(tone(8_000), 8_000, "flac")
    assert sound_file(tone(8_000), 8_000, "wav")[:4] == b"RIFF"
