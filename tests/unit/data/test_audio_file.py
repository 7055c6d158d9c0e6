"""Recordings of all formats are read as one channel, limited before they are decoded, and bad ones are named."""

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from foveate.data import audio_file
from foveate.data.audio_file import (
    Clip,
    Recording,
    rate_of,
    read_recording,
    recording_of,
    remarks_on,
    seconds_of,
)
from foveate.data.audio_header import end_of_samples, mp3_samples, ogg_streams
from foveate.errors import DataError, SetupError

RATE = 8_000
TONE = (0.5 * np.sin(2 * np.pi * 440 * np.arange(RATE) / RATE)).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "error"), [("a.wav", 1e-4), ("a.flac", 1e-4), ("a.aiff", 1e-4), ("a.ogg", 0.1), ("a.mp3", 0.1)]
)
def test_every_format_gives_the_same_samples(name: str, error: float, tmp_path: Path) -> None:
    soundfile.write(tmp_path / name, TONE, RATE)
    recording = read_recording(Clip(tmp_path / name))
    assert (recording.rate, recording.samples.dtype, recording.remarks) == (RATE, np.float32, ())
    assert str(recording) == str(tmp_path / name)
    samples = recording.samples[: len(TONE)]
    assert len(samples) == len(TONE)
    content = recording_of((tmp_path / name).read_bytes(), "The recording")
    assert (content.rate, content.remarks, content.name) == (RATE, (), "The recording")
    assert (content.samples == recording.samples).all()
    middle = slice(2000, 6000)
    best = min(np.abs(samples[middle] - np.roll(TONE, shift)[middle]).max() for shift in range(19))
    assert best < error  # MP3 delays the sound


def test_several_channels_become_their_mean_with_a_remark(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.column_stack([TONE, np.zeros_like(TONE), TONE / 2]), RATE, subtype="FLOAT")
    recording = read_recording(Clip(tmp_path / "a.wav"))
    assert np.allclose(recording.samples, TONE / 2, atol=1e-6)
    assert recording.remarks == ("3 channels, whose mean is read",)


def test_a_stretch_is_read_without_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    soundfile.write(tmp_path / "a.wav", TONE, RATE, subtype="FLOAT")
    clip = Clip(tmp_path / "a.wav", 0.25, 0.5)
    assert np.array_equal(read_recording(clip).samples, TONE[2000:4000])
    assert seconds_of(clip) == 0.25
    monkeypatch.setattr(audio_file, "LONGEST", 0.5)
    assert read_recording(clip).seconds == 0.25
    with pytest.raises(DataError, match=r"a\.wav lasts 0\.0 hours, and at most .* are read\. Cut it"):
        read_recording(Clip(tmp_path / "a.wav"))


def test_long_files_are_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    soundfile.write(tmp_path / "a.wav", TONE, RATE, subtype="FLOAT")
    monkeypatch.setattr(audio_file, "_CHUNK", 777)
    assert np.array_equal(read_recording(Clip(tmp_path / "a.wav")).samples, TONE)


@pytest.mark.parametrize(("old", "new"), [(44_100, 16_000), (8_000, 16_000), (16_000, 8_000)])
def test_another_rate_is_resampled_with_a_remark(old: int, new: int) -> None:
    time = np.arange(old) / old
    recording = Recording("tone", np.sin(2 * np.pi * 300 * time).astype(np.float32), old).at(new)
    exact = np.sin(2 * np.pi * 300 * np.arange(new) / new)
    assert recording.rate == new
    assert abs(len(recording.samples) - new) <= 1
    assert np.abs(recording.samples[500:-500] - exact[500 : len(recording.samples) - 500]).max() < 1e-3
    assert recording.remarks == (f"{old:,} samples a second, resampled to {new:,}",)
    assert recording.at(new) is recording


def test_a_faster_recording_is_shorter_and_higher() -> None:
    faster = Recording("tone", TONE, RATE).faster(1.25)
    assert len(faster.samples) == len(TONE) / 1.25
    exact = 0.5 * np.sin(2 * np.pi * 550 * np.arange(len(faster.samples)) / RATE)
    assert np.abs(faster.samples - exact)[500:-500].max() < 1e-3


@pytest.mark.parametrize(
    ("samples", "remarks"),
    [
        (TONE, ()),
        (np.zeros(100, np.float32), ("silence",)),
        (np.clip(4 * TONE, -1, 1), ("clipping: samples at full scale",)),
        (np.clip(4 * TONE, -1, 0.5), ("clipping: samples at full scale",)),
        (np.where(np.arange(8000) % 50 == 0, 1, TONE).astype(np.float32), ()),
    ],
)
def test_silence_and_clipping_are_remarked(samples: np.ndarray, remarks: tuple[str, ...]) -> None:
    assert remarks_on(samples) == remarks


def bad(folder: Path, name: str) -> Path:
    path = folder / name
    if name == "text.wav":
        path.write_text("not a recording\n" * 9)
    elif name == "nothing.wav":
        path.write_bytes(b"")
    elif name == "samples.raw":
        path.write_bytes((32767 * TONE).astype("<i2").tobytes())
    elif name == "empty.wav":
        soundfile.write(path, TONE[:0], RATE)
    elif name == "folder.wav":
        path.mkdir()
    elif name == "rate.wav":
        soundfile.write(path, TONE, RATE)
        data = bytearray(path.read_bytes())
        data[24:28] = struct.pack("<I", 3)
        path.write_bytes(bytes(data))
    elif name == "cut.flac":
        soundfile.write(path, np.random.default_rng(0).normal(0, 0.1, 80_000), RATE)
        path.write_bytes(path.read_bytes()[:200])
    elif name == "loud.wav":
        soundfile.write(path, 32768 * TONE, RATE, subtype="FLOAT")
    elif name == "nan.wav":
        soundfile.write(path, np.where(np.arange(RATE) == 77, np.nan, TONE), RATE, subtype="FLOAT")
    return path


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("text.wav", "is not a recording that can be read, or is damaged"),
        ("nothing.wav", "nothing.wav is empty. Leave it out."),
        ("empty.wav", "empty.wav is empty: it has no samples. Leave it out."),
        ("samples.raw", "has raw samples, and nothing says their rate. Save it again as WAV"),
        ("folder.wav", "folder.wav is a folder, not a recording."),
        ("none.wav", "none.wav"),
        ("rate.wav", "its header states 3 samples a second of 1 channels"),
        ("cut.flac", "damaged"),
        ("loud.wav", "beyond ±16, where 1 is full scale. Divide them"),
        ("nan.wav", "has samples that are not numbers"),
    ],
)
def test_a_bad_file_is_named_with_a_remedy(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as refusal:
        read_recording(Clip(bad(tmp_path, name)))
    assert message in str(refusal.value)
    assert name in str(refusal.value)


def test_bad_content_of_a_file_is_refused_with_the_same_words(tmp_path: Path) -> None:
    for name in ("text.wav", "nothing.wav", "empty.wav", "rate.wav", "cut.flac", "loud.wav", "nan.wav"):
        path = bad(tmp_path, name)
        with pytest.raises(DataError) as by_path:
            read_recording(Clip(path))
        with pytest.raises(DataError) as by_content:
            recording_of(path.read_bytes(), "The recording")
        assert str(by_content.value) == str(by_path.value).replace(str(path), "The recording")


def test_content_that_is_too_long_is_refused_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    soundfile.write(file, np.tile(TONE, 5 * 3600), RATE, format="FLAC")  # five hours
    monkeypatch.setattr(np, "empty", None)
    with pytest.raises(DataError, match=r"The recording lasts 18,000\.0 seconds, and at most 600 are read\. Cut it\."):
        recording_of(file.getvalue(), "The recording", longest=600.0)
    with pytest.raises(DataError, match="has 144,000,000 samples, and at most 67,108,864 are read"):
        recording_of(file.getvalue(), "The recording", longest=20_000.0)


def test_a_stretch_outside_the_recording_is_refused(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", TONE, RATE)
    for start, end in ((1.0, None), (0.5, 1.2), (7.0, 8.0)):
        with pytest.raises(DataError, match=r"lies outside the recording, which lasts 1\.00 s"):
            read_recording(Clip(tmp_path / "a.wav", start, end))
    assert seconds_of(Clip(tmp_path / "a.wav", 0.5, 1.04)) == 0.5  # a rounded end
    with pytest.raises(DataError, match=r"from 0\.5 s to 0\.5 s has no length"):
        Clip(tmp_path / "a.wav", 0.5, 0.5)
    with pytest.raises(DataError, match="has no samples: it is shorter than one"):
        read_recording(Clip(tmp_path / "a.wav", 0.5, 0.50001))


def test_a_file_with_fewer_samples_than_its_header_states_gives_those_that_it_has(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", TONE, RATE, subtype="PCM_16")
    (tmp_path / "b.wav").write_bytes((tmp_path / "a.wav").read_bytes()[: 44 + 2 * 4000])
    cut = read_recording(Clip(tmp_path / "b.wav"))
    assert len(cut.samples) == 4000
    assert cut.remarks == (audio_file.CUT,)
    assert read_recording(Clip(tmp_path / "a.wav")).remarks == ()
    assert read_recording(Clip(tmp_path / "b.wav", 0.1, 0.2)).remarks == ()  # its samples are all there


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("a.wav", {"format": "WAVEX"}),
        ("a.wav", {"format": "RF64"}),
        ("a.wav", {"format": "WAV", "endian": "BIG"}),
        ("a.aiff", {}),
        ("a.aiff", {"subtype": "FLOAT"}),
        ("a.aiff", {"subtype": "ULAW"}),
        ("a.au", {}),
        ("a.au", {"endian": "LITTLE"}),
        ("a.w64", {}),
        ("a.w64", {"subtype": "FLOAT"}),
        ("a.sph", {"format": "NIST"}),
    ],
)
def test_the_end_of_the_samples_is_known_by_the_header(name: str, settings: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / name
    sound = np.column_stack([TONE, -TONE])
    soundfile.write(path, sound, RATE, **settings)
    with path.open("rb") as file:
        end = end_of_samples(file)
    assert end is not None
    assert end <= path.stat().st_size
    assert audio_file.CUT not in read_recording(Clip(path)).remarks
    data = path.read_bytes()
    path.write_bytes(data[: end - 1])
    cut = read_recording(Clip(path))
    assert len(cut.samples) == len(TONE) - 1
    assert audio_file.CUT in cut.remarks
    for size in range(0, 120, 7):  # a header that is cut off, too
        end_of_samples(io.BytesIO(data[:size]))


@pytest.mark.parametrize(("name", "place", "size"), [("a.aiff", b"SSND", 4), ("a.au", b".snd", 8)])
@pytest.mark.parametrize("unknown", [0, 0x7FFFFFFF, 0xFFFFFFFF])
def test_a_header_that_does_not_know_its_size_promises_nothing(
    name: str, place: bytes, size: int, unknown: int, tmp_path: Path
) -> None:
    path = tmp_path / name
    soundfile.write(path, TONE, RATE)
    data = bytearray(path.read_bytes())
    at = data.index(place) + size
    data[at : at + 4] = struct.pack(">I", unknown)
    assert end_of_samples(io.BytesIO(data)) is None


def test_a_wave_file_that_does_not_know_its_size_is_not_cut_off(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", TONE, RATE, subtype="PCM_16")
    data = (tmp_path / "a.wav").read_bytes()
    for number, size in enumerate((0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFFF00, 0x7FFFF000)):
        (tmp_path / f"{number}.wav").write_bytes(data[:40] + struct.pack("<I", size) + data[44:])
        assert read_recording(Clip(tmp_path / f"{number}.wav")).remarks == ()


@pytest.mark.parametrize(
    ("own", "long", "samples"),
    [(2 * RATE, 4 * RATE, 2 * RATE), (0xFFFFFFFF, 2 * RATE, 2 * RATE), (0xFFFFFFFF, 2**63 - 1, None)],
)
def test_the_long_size_of_rf64_counts_where_the_short_one_refers_to_it(
    own: int, long: int, samples: int | None
) -> None:
    sizes = struct.pack("<4sIQQQI", b"ds64", 28, 0, long, 0, 0)
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, RATE, 2 * RATE, 2, 16)
    head = b"RF64" + b"\xff" * 4 + b"WAVE" + sizes + form + struct.pack("<4sI", b"data", own)
    assert end_of_samples(io.BytesIO(head + bytes(2 * RATE))) == (samples and len(head) + samples)


@pytest.mark.parametrize("ending", ["flac", "ogg"])
def test_a_compressed_file_that_ends_too_early_is_refused(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{ending}"
    soundfile.write(path, TONE, RATE)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match=rf"a\.{ending} is not a recording that can be read, or is damaged"):
        read_recording(Clip(path))


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_an_ogg_file_whose_last_page_is_missing_is_remarked(subtype: str, tmp_path: Path) -> None:
    path = tmp_path / "a.ogg"
    noise = np.random.default_rng(0).normal(size=4 * 16_000).astype(np.float32) / 10
    soundfile.write(path, noise, 16_000, format="OGG", subtype=subtype)
    assert read_recording(Clip(path)).remarks == ()
    data = path.read_bytes()
    last = data.rindex(b"OggS")
    for size in (last, last + 10, len(data) - 1):  # between pages, in a header, in a page
        path.write_bytes(data[:size])
        cut = read_recording(Clip(path))
        assert 0 < cut.seconds < 4
        assert cut.remarks == (audio_file.UNENDED,)
        assert read_recording(Clip(path, 0.5, 1.0)).remarks == ()  # its samples are all there


def test_the_place_in_a_table_stands_before_errors(tmp_path: Path) -> None:
    clip = Clip(tmp_path / "none.wav", place="clips.tsv:7")
    for read in (read_recording, seconds_of, rate_of):
        with pytest.raises(DataError, match=r"^clips\.tsv:7: .*none\.wav: there is no such file"):
            read(clip)
    assert (clip, repr(clip)) == (Clip(clip.path), repr(Clip(clip.path)))  # so that prepared rows stay


def test_the_rate_is_read_from_the_header(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.flac", TONE, 11_025)
    assert rate_of(Clip(tmp_path / "a.flac")) == 11_025


@pytest.mark.parametrize("package", ["soundfile", "soxr"])
def test_a_missing_package_is_named_with_its_installation(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    soundfile.write(tmp_path / "a.wav", TONE, RATE)
    recording = read_recording(Clip(tmp_path / "a.wav"))
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(SetupError, match=rf"{package}: pip install 'foveate\[audio\]'"):
        read_recording(Clip(tmp_path / "a.wav")) if package == "soundfile" else recording.at(16_000)


def mp3(samples: np.ndarray, rate: int = 16_000, **options: Any) -> bytes:
    content = io.BytesIO()
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    with soundfile.SoundFile(content, "w", rate, channels, format="MP3", **options) as file:
        file.write(samples)
    return content.getvalue()


@pytest.mark.parametrize("rate", [8_000, 11_025, 24_000, 44_100])
@pytest.mark.parametrize("mode", ["CONSTANT", "VARIABLE"])
def test_the_samples_of_an_mp3_file_are_counted_by_its_frames(rate: int, mode: str) -> None:
    tone = np.sin(np.arange(3 * rate) / 9)
    content = b"ID3\4\0\0\0\0\1\2" + bytes(130) + mp3(tone, rate, bitrate_mode=mode, compression_level=0.5)
    counted = mp3_samples(io.BytesIO(content)) or 0
    assert 0 <= counted - len(tone) <= 6 * 1152
    assert mp3_samples(io.BytesIO(bytes(1000) + b"\xff" * 99)) is None


def test_sound_beyond_what_a_compressed_header_says_is_not_dropped(tmp_path: Path) -> None:
    """An MP3 file of a varying rate without its table of contents, two MP3 files in one, and a chained Ogg file."""
    loud, silent = np.random.default_rng(0).normal(size=64_000) * 0.2, np.zeros(64_000)
    varying = mp3(np.concatenate([loud, silent]), bitrate_mode="VARIABLE", compression_level=0.5)
    second = varying.index(varying[:2], 40)
    chained = io.BytesIO()
    soundfile.write(chained, loud, 16_000, format="OGG")
    assert ogg_streams(chained) == 1
    beside = b"OggS\0\2" + bytes(20) + b"\1\5fishe"  # the first page of a stream beside it, as of Skeleton
    assert ogg_streams(io.BytesIO(beside + chained.getvalue())) == 1
    for name, content in (
        ("varying.mp3", varying[second:]),
        ("two.mp3", 2 * mp3(loud)),
        ("two.ogg", 2 * chained.getvalue()),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=r"Save it( | again )?.*as WAV or FLAC"):
            read_recording(Clip(tmp_path / name))
    (tmp_path / "whole.mp3").write_bytes(varying)
    assert len(read_recording(Clip(tmp_path / "whole.mp3")).samples) == 128_000


def test_a_wave_file_whose_recorder_was_stopped_says_so(tmp_path: Path) -> None:
    form = struct.pack("<HHIIHH", 1, 1, 8_000, 16_000, 2, 16)
    head = b"RIFF\0\0\0\0WAVEfmt " + struct.pack("<I", 16) + form + b"data\0\0\0\0"
    (tmp_path / "a.wav").write_bytes(head + bytes(range(256)) * 8)
    with pytest.raises(DataError, match=r"no samples by its header, although it has 2,092 bytes: its recorder was"):
        read_recording(Clip(tmp_path / "a.wav"))


def test_the_shortest_recording_has_a_sample_at_every_rate() -> None:
    assert len(Recording("one", np.array([0.1], np.float32), 44_100).at(8_000).samples) == 1
