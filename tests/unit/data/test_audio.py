"""Recordings become rows of frames: files, settings, normalisation, tracks."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from foveate.config import build, to_dict
from foveate.data import audio
from foveate.data.audio import AudioReader, AudioRows
from foveate.data.audio_file import Clip, Recording
from foveate.data.audio_table import is_folder, is_table
from foveate.data.augmentation import AugmentationConfig
from foveate.data.reader import Reader, RowMaker
from foveate.data.spectrum import log_mel
from foveate.errors import DataError

RATE = 8_000
READER = AudioReader(rate=RATE, bands=20)


def noise(seconds: float, seed: int = 0, rate: int = RATE) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.clip(generator.normal(0, 0.1, round(seconds * rate)), -0.9, 0.9).astype(np.float32)


def recording(seconds: float, seed: int = 0) -> Recording:
    return Recording(f"noise {seed}", noise(seconds, seed), RATE)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "clips").mkdir()
    for number in range(6):
        soundfile.write(tmp_path / "clips" / f"{number}.wav", noise(0.2 + number / 20, number), RATE)
    (tmp_path / "all.tsv").write_text("".join(f"clips/{n}.wav\tword {n % 2}\n" for n in range(6)))
    return tmp_path / "all.tsv"


@pytest.fixture
def rows(table: Path) -> AudioRows:
    return READER.learn(READER.read(str(table)))


def test_a_table_gives_clips_that_are_not_yet_read(table: Path) -> None:
    (table.parent / "clips/3.wav").unlink()
    examples = list(READER.read(str(table)))
    assert [(one.line, one.label) for one in examples] == [(n + 1, f"word {n % 2}") for n in range(6)]
    assert examples[2].thing == Clip(table.parent / "clips/2.wav")
    assert isinstance(READER, Reader)


def test_a_table_with_names_of_columns_gives_stretches(table: Path) -> None:
    table.write_text(
        "speaker\tpath\tstart\tend\ttext\n1\tclips/1.wav\t\t0.1\tone\n2\tclips/1.wav\t0.1\t\ttwo words\n\n"
        "2\tclips/2.wav\t0.05\t0.2\tthree\n"
    )
    examples = list(READER.read(str(table)))
    path = table.parent / "clips/1.wav"
    assert [one.thing for one in examples[:2]] == [Clip(path, 0.0, 0.1), Clip(path, 0.1)]
    assert [(one.line, one.label) for one in examples] == [(2, "one"), (3, "two words"), (5, "three")]


def test_a_folder_of_folders_names_the_labels(table: Path) -> None:
    (table.parent / "clips").rename(table.parent / "yes")
    table.unlink()
    examples = list(READER.read(str(table.parent)))
    assert {one.label for one in examples} == {"yes"}
    assert len(examples) == 6
    assert is_folder(str(table.parent))
    assert not is_folder(str(table.parent / "yes"))
    assert not is_folder(str(table.parent / "yes/1.wav"))
    for hidden in (".ipynb_checkpoints/notes.ipynb", "yes/._1.wav"):
        (table.parent / hidden).parent.mkdir(exist_ok=True)
        (table.parent / hidden).write_text("{}")
    assert is_folder(str(table.parent))
    assert list(READER.read(str(table.parent))) == examples


@pytest.mark.parametrize(
    ("first", "yes"),
    [
        ("a.wav\tone", True),
        ("path\ttext", True),
        ("x\tlabel\tpath", True),
        ("Path\tText", True),
        ("\n \npath\ttext", True),
        ("a word\tb", False),
        ("a.wav", False),
    ],
)
def test_a_table_of_recordings_is_told_by_its_first_line(first: str, yes: bool, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(f"{first}\n")
    assert is_table(str(tmp_path / "a.tsv")) == yes


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("clips/1.wav\n", "all.tsv:1: the line has 1 column: write the path of a recording, a tab and its label"),
        ("clips/1.wav\ta\tb\n", "all.tsv:1: the line has 3 columns: write the path"),
        ("clips/1.wav\t\n", "all.tsv:1: the label or text is missing: write the path"),
        ("clips/1.wav\ta\n\ta\n", "all.tsv:2: the path is missing: write the path"),
        ("path\tlabel\nclips/1.wav\n", "all.tsv:2: the label or text is missing: fill the column."),
        ("path\tlabel\nclips/1.wav\ta\tb\n", "all.tsv:2: the line has 3 columns, and the first line names 2"),
        ("path\tstart\tlabel\nclips/1.wav\tx\ta\n", "all.tsv:2: the start 'x' is not a number of seconds"),
        ("path\tstart\tend\tlabel\nclips/1.wav\t0\tinf\ta\n", "all.tsv:2: the end 'inf' is not a number of seconds"),
        ("path\tstart\tend\tlabel\nclips/1.wav\t2\t1\ta\n", "all.tsv:2: "),
        ("path\ttext\nclips/1.wav\t\n", "all.tsv:2: the label or text is missing: fill the column."),
        ("path\tlabel\ttext\n", "all.tsv:1: two columns have the same content"),
        ("\n\npath\tlabel\ttext\n", "all.tsv:3: two columns have the same content"),
        ("path\ttext\tlabel\nclips/1.wav\t\tyes\n", "all.tsv:1: two columns have the same content"),
        ("paht\tlabel\nclips/1.wav\ta\n", "all.tsv:1: the column 'paht' is not read. Did you mean 'path'?"),
        ("File\tSentence\nclips/1.wav\ta\n", "all.tsv:1: the column 'File' is not read. Did you mean 'path'?"),
        ("path\tTxet\nclips/1.wav\ta\n", "all.tsv:1: the column 'Txet' is not read. Did you mean 'text'?"),
        ("path\tbegin\ttext\nclips/1.wav\t1\ta\n", "the column 'begin' is not read. Did you mean 'start'?"),
        ("path\toffset\tduration\ttext\nclips/1.wav\t0\t1\ta\n", "'offset' is not read. Did you mean 'start'?"),
        ("path\tstart\tlength\ttext\nclips/1.wav\t0\t1\ta\n", "'length' is not read. Did you mean 'duration'?"),
        ("path\tstart\tends\ttext\nclips/1.wav\t0\t1\ta\n", "'ends' is not read. Did you mean 'end'?"),
        ("path\tstrt\tend\ttext\nclips/1.wav\t0\t1\ta\n", "'strt' is not read. Did you mean 'start'?"),
        ("path\tstart\tduration\ttext\nclips/1.wav\t0\t0\ta\n", "the duration '0' is not above 0"),
        ("path\tstart\tduration\ttext\nclips/1.wav\t0\tx\ta\n", "the duration 'x' is not a number of seconds"),
        (
            "path\tstart\tend\tduration\ttext\nclips/1.wav\t1\t2\t2\ta\n",
            "all.tsv:2: the end '2' is not the start plus the duration '2'",
        ),
        ("path\tspeaker\nclips/1.wav\ta\n", "all.tsv:1: the first line names the columns path, speaker. A table needs"),
    ],
)
def test_a_wrong_line_is_named(content: str, message: str, table: Path) -> None:
    table.write_text(content)
    with pytest.raises(DataError) as refusal:
        list(READER.read(str(table)))
    assert message in str(refusal.value)


def test_names_of_columns_may_have_capitals_and_unknown_columns_beside_them(table: Path) -> None:
    table.write_text("Path\tSpeaker\tStart\tText\tTranscription\nclips/1.wav\tx\t0.5\ta\tb\n")
    (one,) = READER.read(str(table))
    assert (one.thing.start, one.label, one.thing.place) == (0.5, "a", f"{table}:2")


@pytest.mark.parametrize(
    ("head", "cells", "stretch"),
    [
        ("start\tduration", "0.5\t0.25", (0.5, 0.75)),
        ("start\tduration", "\t0.25", (0.0, 0.25)),
        ("start\tduration", "0.5\t", (0.5, None)),
        ("start\tend\tduration", "0.5\t0.75\t0.25", (0.5, 0.75)),
        ("duration", "0.6", (0.0, None)),
        ("state\tfrom\tto", "Ohio\tme\tyou", (0.0, None)),
        ("state\tduration\tlength", "Ohio\t2\t3", (0.0, None)),
        ("start\tduration\tlength\tstate", "0.5\t0.25\t3\tOhio", (0.5, 0.75)),
    ],
)
def test_a_duration_beside_a_start_ends_a_stretch_and_other_columns_are_allowed(
    head: str, cells: str, stretch: tuple[float, float | None], table: Path
) -> None:
    table.write_text(f"path\t{head}\ttext\nclips/1.wav\t{cells}\ta\n")
    (one,) = READER.read(str(table))
    assert (one.thing.start, one.thing.end) == stretch


def test_a_misspelt_first_line_still_makes_a_table_of_recordings(table: Path) -> None:
    table.write_text("paht\tlabel\nclips/1.wav\ta\n")
    assert is_table(str(table))


def test_a_wrong_file_in_a_folder_is_named(table: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"all\.tsv is not in a folder that names its label\. .* name it in the"):
        list(READER.read(str(tmp_path)))
    table.rename(tmp_path / "clips/all.tsv")
    with pytest.raises(DataError, match=r"all\.tsv is not a recording that can be read"):
        list(READER.read(str(tmp_path)))
    with pytest.raises(DataError, match=r"1\.wav is a recording without a label"):
        list(READER.read(str(tmp_path / "clips/1.wav")))


def test_rate_and_bands_suit_the_data(table: Path, tmp_path: Path) -> None:
    sample = list(READER.read(str(table)))
    assert (AudioReader().suited(sample).rate, AudioReader().suited(sample).bands) == (8_000, 40)
    for number in range(6):
        soundfile.write(tmp_path / "clips" / f"{number}.wav", noise(0.2, number), 44_100 if number else 8_000)
    assert (READER.suited(sample).rate, READER.suited(sample).bands) == (16_000, 80)
    for number in range(6):
        soundfile.write(tmp_path / "clips" / f"{number}.wav", noise(0.2, number), 1_000)
    assert (AudioReader().suited(sample).rate, AudioReader().suited(sample).bands) == (1_000, 25)


def test_frames_of_the_training_data_have_mean_0_and_deviation_1(table: Path, rows: AudioRows) -> None:
    frames = np.concatenate([rows.row(one.thing).values for one in READER.read(str(table))]).astype(np.float64)
    assert np.abs(frames.mean(0)).max() < 1e-3
    assert np.abs(frames.std(0) - 1).max() < 1e-3
    assert rows.input.width == 20
    assert isinstance(rows, RowMaker)


def test_the_statistics_are_those_of_recordings_that_are_evenly_spread(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audio, "SAMPLE", 2)
    examples = list(READER.read(str(table)))
    assert READER.learn(examples) == READER.learn(examples[::2])
    assert READER.learn(examples) != READER.learn(examples[:3])


def test_a_row_is_the_normalised_and_stacked_log_mel_energies(rows: AudioRows) -> None:
    sound = recording(0.5)
    energies = log_mel(torch.from_numpy(sound.samples), RATE, bands=20).numpy()
    exact = (energies - np.array(rows.mean)) / np.array(rows.deviation)
    assert np.allclose(rows.row(sound).values, exact, atol=4e-3)
    stacked = replace(rows, settings=replace(READER, stack=4, stride=3))
    assert stacked.input.width == 80
    assert np.allclose(stacked.row(sound).values[2], exact[6:10].ravel(), atol=4e-3)
    assert (rows.hop, stacked.hop) == (0.01, 0.03)
    assert (rows.first, stacked.first) == (0.0125, 0.0275)
    assert rows.seconds(sound) == 0.5


@pytest.mark.parametrize(
    ("settings", "width"),
    [
        ({"features": "mfcc"}, 13),
        ({"features": "mfcc", "cepstra": 20, "deltas": 2}, 60),
        ({"deltas": 1}, 40),
        ({"deltas": 1, "stack": 3, "stride": 2}, 120),
        ({"normalisation": "recording"}, 20),
        ({"normalisation": "running"}, 20),
    ],
)
def test_every_setting_gives_finite_rows_of_its_width(
    settings: dict[str, object], width: int, table: Path, tmp_path: Path
) -> None:
    reader = build(AudioReader, {"rate": RATE, "bands": 20, **settings})
    rows = reader.learn(reader.read(str(table)))
    row = rows.row(recording(0.3)).values
    assert row.shape[1] == rows.input.width == width
    assert np.isfinite(row).all()
    rows.save(tmp_path)
    assert reader.open(tmp_path) == rows
    assert np.array_equal(reader.open(tmp_path).row(recording(0.3)).values, row)
    assert build(AudioReader, to_dict(reader)) == reader


def test_the_mean_of_a_recording_is_0_by_its_own_normalisation(rows: AudioRows) -> None:
    own = replace(rows, settings=replace(READER, normalisation="recording"))
    quiet = Recording("quiet", noise(0.5) / 50, RATE)
    assert np.abs(own.row(quiet).values.astype(np.float64).mean(0)).max() < 2e-3
    assert np.abs(own.row(quiet).values.astype(np.float64).std(0) - 1).max() < 2e-3
    assert np.abs(rows.row(quiet).values.astype(np.float64).mean(0)).min() > 1


def test_a_running_normalisation_does_not_see_later_frames_and_forgets_its_beginning(rows: AudioRows) -> None:
    run = replace(rows, settings=replace(READER, normalisation="running"))
    quiet = Recording("quiet", noise(10) / 50, RATE)
    row = run.row(quiet).values
    early = run.row(Recording("early", quiet.samples[:RATE], RATE)).values
    assert np.allclose(row[: len(early)], early, atol=1e-3)
    assert np.abs(row[0].mean()) > 3 * np.abs(row[-100:].mean())


def test_a_recording_shorter_than_a_window_has_no_frames_and_a_remark(rows: AudioRows) -> None:
    row = rows.row(recording(0.02))
    assert (row.values.shape, row.remarks) == ((0, 20), ("shorter than a window of 25 ms",))
    assert rows.track(recording(0.02))["labels"] == ()


def test_a_row_carries_the_remarks_of_its_recording(rows: AudioRows, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "two.wav", np.zeros((16_000, 2)), 16_000)
    assert rows.row(tmp_path / "two.wav").remarks == (
        "2 channels, whose mean is read",
        "silence",
        "16,000 samples a second, resampled to 8,000",
    )


@pytest.mark.parametrize(("stack", "stride"), [(1, 1), (3, 3), (4, 2)])
def test_the_track_has_a_sound_and_a_picture_of_its_duration(stack: int, stride: int, rows: AudioRows) -> None:
    stacked = replace(rows, settings=replace(READER, stack=stack, stride=stride))
    samples = np.zeros(RATE, np.float32)
    samples[4000:4080] = noise(0.01, 3)  # from 0.5 s to 0.51 s
    track = stacked.track(Recording("click", samples, RATE))
    count = len(stacked.row(Recording("click", samples, RATE)))
    assert (track["kind"], track["hop"], len(track["labels"])) == ("frames", stacked.hop, count)
    assert track["labels"][1] == f"{stacked.hop:.2f} s"
    assert abs(track["sound"].seconds - count * stacked.hop) < 1e-9
    assert track["picture"].shape == (20, count * stride)
    heard = np.flatnonzero(track["sound"].samples).mean() / RATE
    loud = (np.flatnonzero(track["picture"].sum(0) > 0).mean() + 0.5) / 100
    assert abs(heard - loud) < 0.01


def test_things_are_files_stretches_and_folders(table: Path, rows: AudioRows) -> None:
    path = table.parent / "clips/1.wav"
    assert list(rows.things(str(path))) == [Clip(path)]
    assert list(rows.things(f"{path}:0.05-0.1")) == [Clip(path, 0.05, 0.1)]
    assert list(rows.things(f"{path}:0.05-")) == [Clip(path, 0.05)]
    (table.parent / ".trash").mkdir()
    for hidden in ("clips/._1.wav", ".trash/1.wav"):
        (table.parent / hidden).write_bytes(b"\0\5\x16\7")
    assert len(list(rows.things(str(table.parent)))) == 6
    with pytest.raises(DataError, match=r"This model reads recordings: name files \(\.aif"):
        list(rows.things("nothing.wav"))
    (table.parent / "none").mkdir()
    with pytest.raises(DataError, match="has no recordings"):
        list(rows.things(str(table.parent / "none")))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rate": 100}, "rate must be from 1,000"),
        ({"deltas": 3}, "deltas must be 0, 1 or 2"),
        ({"features": "mfcc", "cepstra": 90}, "cepstra must be at most bands, 80"),
        ({"stack": 2, "stride": 3}, "stride must be at most stack"),
        ({"bands": 300}, "300 bands are more than the spectrum"),
        ({"bands": 0}, "bands must be at least 1"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(Exception, match=message):
        build(AudioReader, settings)


def test_data_without_a_frame_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="The training data have no recordings"):
        READER.learn([])
    soundfile.write(tmp_path / "a.wav", noise(0.01), RATE)
    (tmp_path / "all.tsv").write_text("a.wav\ta\n")
    with pytest.raises(DataError, match="No recording of the training data has 25 ms"):
        READER.learn(READER.read(str(tmp_path / "all.tsv")))


def test_augmentation_is_a_setting_that_a_file_keeps(table: Path, tmp_path: Path) -> None:
    reader = replace(READER, augmentation=AugmentationConfig(speeds=(0.9, 1.0, 1.1)))
    rows = reader.learn(reader.read(str(table)))
    rows.save(tmp_path)
    assert reader.open(tmp_path) == rows
    assert [len(row) for row in rows.variants(recording(0.5))] == [54, 43]
    assert READER.learn(reader.read(str(table))).variants(recording(0.5)) == []
