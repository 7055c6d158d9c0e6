"""Rows of an interrupted preparation are kept, and made again if anything that they depend on has changed."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import soundfile

from foveate.data import preparation
from foveate.data.audio import AudioReader, AudioRows
from foveate.data.audio_file import Clip, read_recording
from foveate.data.augmentation import AugmentationConfig
from foveate.data.feature import VectorRows
from foveate.data.image import ImageReader
from foveate.data.label import Labels
from foveate.data.labelled_store import prepare_rows
from foveate.data.preparation import Preparation, resumable
from foveate.data.reader import Example
from foveate.data.row import Row
from foveate.storage.draft import remove_stale

COUNT = 12
READER = AudioReader(rate=8_000, bands=20, augmentation=AugmentationConfig(speeds=(0.9, 1.0)))


class StopError(Exception):
    """An end in the middle."""


@pytest.fixture
def things(tmp_path: Path) -> list[Clip]:
    for number in range(COUNT):
        samples = np.random.default_rng(number).normal(0, 0.1, 1600 + 80 * number)
        soundfile.write(tmp_path / f"{number}.wav", samples, 8_000)
    return [Clip(tmp_path / f"{number}.wav") for number in range(COUNT)]


@pytest.fixture
def rows(things: list[Clip]) -> AudioRows:
    return READER.learn(Example(number, thing, "a") for number, thing in enumerate(things))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of two rows or so."""
    monkeypatch.setattr(preparation, "LARGEST", 2500)


def interrupted(folder: Path, rows: AudioRows, things: list[Clip], after: int) -> None:
    with contextlib.suppress(StopError), resumable(folder, rows) as keeper:
        for thing in things[:after]:
            keeper.row(thing)
            keeper.variants(thing)
        raise StopError


def reused(folder: Path, rows: AudioRows, things: list[Clip]) -> int:
    """The number of rows that need not be made; all equal those that are made."""
    with resumable(folder, rows) as keeper:
        for thing in things:
            row, exact = keeper.row(thing), rows.row(thing)
            assert np.array_equal(row.values, exact.values)
            assert row.values.dtype == exact.values.dtype
            assert row.remarks == exact.remarks
            (other,), (exact,) = keeper.variants(thing), rows.variants(thing)
            assert np.array_equal(other.values, exact.values)
    return keeper.reused


def test_an_interrupted_preparation_goes_on_where_it_stopped(
    rows: AudioRows, things: list[Clip], tmp_path: Path
) -> None:
    interrupted(tmp_path / "train", rows, things, 7)
    assert len(list((tmp_path / ".rows-train").glob("*.npz"))) > 2
    assert reused(tmp_path / "train", rows, things) == 14
    assert not (tmp_path / ".rows-train").exists()
    assert reused(tmp_path / "train", rows, things) == 0


def test_rows_are_found_again_in_another_order(rows: AudioRows, things: list[Clip], tmp_path: Path) -> None:
    interrupted(tmp_path / "train", rows, things, 7)
    interrupted(tmp_path / "train", rows, things[::-1], 9)
    assert reused(tmp_path / "train", rows, things[3:]) == 18


def test_a_changed_file_or_setting_makes_its_rows_again(rows: AudioRows, things: list[Clip], tmp_path: Path) -> None:
    interrupted(tmp_path / "train", rows, things, COUNT)
    samples, _ = soundfile.read(things[2].path)
    soundfile.write(things[2].path, samples / 2, 8_000)
    os.utime(things[4].path, ns=(1, 1))
    assert reused(tmp_path / "train", rows, things) == 2 * COUNT - 4
    interrupted(tmp_path / "train", rows, things, COUNT)
    assert reused(tmp_path / "train", replace(rows, mean=tuple(1 + one for one in rows.mean)), things) == 0
    interrupted(tmp_path / "train", rows, things, COUNT)
    halves = [Clip(thing.path, 0.0, 0.1) for thing in things]
    assert reused(tmp_path / "train", rows, halves) == 0


def test_a_damaged_part_is_made_again(rows: AudioRows, things: list[Clip], tmp_path: Path) -> None:
    interrupted(tmp_path / "train", rows, things, COUNT)
    first, second, *rest = sorted((tmp_path / ".rows-train").glob("*.npz"))
    first.write_bytes(first.read_bytes()[:-100])
    data = bytearray(second.read_bytes())
    data[200:210] = bytes(10)
    second.write_bytes(bytes(data))
    count = reused(tmp_path / "train", rows, things)
    assert 0 < count < 2 * COUNT
    assert len(rest) > 2


@dataclass(frozen=True, kw_only=True)
class PlacedRows(VectorRows):
    """Vectors with places."""

    def row(self, thing: Path) -> Row:
        return Row(np.ones((4, 1), np.float32), places=np.indices((2, 2)).reshape(2, -1).T, remarks=("strange",))


def test_rows_keep_their_places_and_remarks(things: list[Clip], tmp_path: Path) -> None:
    rows = PlacedRows(mean=(0.0,), deviation=(1.0,))
    for expected in (0, COUNT):
        with contextlib.suppress(StopError), resumable(tmp_path / "train", rows) as keeper:
            for thing in things:
                row = keeper.row(thing.path)
                assert row.places is not None
                assert row.places.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
                assert row.remarks == ("strange",)
                assert keeper.variants(thing.path) == []
            assert keeper.reused == expected
            raise StopError


def test_things_without_a_file_are_not_kept(rows: AudioRows, tmp_path: Path) -> None:
    with resumable(tmp_path / "train", VectorRows(mean=(0.0,), deviation=(1.0,))) as keeper:
        keeper.maker = Constant(mean=(0.0,), deviation=(1.0,))
        for _ in range(9):
            keeper.row("a text")
        keeper.keep()
        assert not (tmp_path / ".rows-train").exists()


@dataclass(frozen=True, kw_only=True)
class Constant(VectorRows):
    """One vector for each thing."""

    def row(self, thing: object) -> Row:
        return Row(np.ones((500, 1), np.float32))


def test_data_after_an_interruption_equal_those_without(
    rows: AudioRows, things: list[Clip], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = Labels(["a"])

    def examples(stop: int | None = None) -> Iterator[Example]:
        for number, thing in enumerate(things, start=1):
            if number == stop:
                raise StopError
            yield Example(number, thing, "a")

    settings = {"what": "recordings", "max_length": 99, "varied": True}
    whole, report = prepare_rows(tmp_path / "whole", examples(), rows, labels, **settings)
    with pytest.raises(StopError):
        prepare_rows(tmp_path / "part", examples(stop=9), rows, labels, **settings)
    assert not (tmp_path / "part").exists()
    counts: list[int] = []
    monkeypatch.setattr(Preparation, "close", lambda self: counts.append(self.reused))
    part, again = prepare_rows(tmp_path / "part", examples(), rows, labels, **settings)
    assert counts[-1] == 16
    assert report == again
    for one, other in ((whole.inputs, part.inputs), (whole.variants, part.variants)):
        assert one is not None
        assert other is not None
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    assert whole.variants is not None
    assert len(whole.variants) == COUNT
    assert (whole.lengths == np.maximum(whole.inputs.lengths, whole.variants.lengths)).all()


KILLED = """
import sys
from pathlib import Path
from foveate.data import preparation
from foveate.data.audio import AudioRows
from foveate.data.audio_file import Clip, read_recording
preparation.LARGEST = 2500
folder = Path(sys.argv[1])
with preparation.resumable(folder / "train", AudioRows.open(folder)) as keeper:
    for number in range(8):
        keeper.row(Clip(folder / f"{number}.wav"))
        keeper.variants(Clip(folder / f"{number}.wav"))
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_a_killed_process_loses_one_part_at_most(rows: AudioRows, things: list[Clip], tmp_path: Path) -> None:
    rows.save(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert 14 <= reused(tmp_path / "train", rows, things) <= 16


def test_frames_are_stored_with_16_bits_which_they_have_already(
    rows: AudioRows, things: list[Clip], tmp_path: Path
) -> None:
    examples = (Example(number, thing, "a") for number, thing in enumerate(things, start=1))
    data, _ = prepare_rows(tmp_path / "train", examples, rows, Labels(["a"]), what="recordings", max_length=99)
    assert data.inputs[3].dtype == np.float16
    assert np.array_equal(data.inputs[3], rows.row(things[3]).values)
    exact = rows.normalised(rows.settings.frames(read_recording(things[3]))).numpy()
    assert np.abs(data.inputs[3] - exact).max() < 2**-10 * max(1, np.abs(exact).max())


KILLED_PICTURES = """
import sys
from pathlib import Path
from foveate.data import preparation
from foveate.data.image import ImageReader
from foveate.data.image import ImageReader
from foveate.data.label import Labels
from foveate.data.labelled_store import prepare_rows
preparation.LARGEST = 2500
folder = Path(sys.argv[1])

def examples():
    for number, example in enumerate(ImageReader().read(str(folder / "pictures"))):
        if number == 8:
            print("ready", flush=True)
            sys.stdin.read()
        yield example

rows = ImageReader().open(folder)
prepare_rows(folder / "data/train", examples(), rows, Labels(["a"]), what="pictures", max_length=99)
"""


def test_pictures_after_a_killed_process_equal_those_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pictures" / "a").mkdir(parents=True)
    for number in range(COUNT):
        pixels = np.random.default_rng(number).integers(0, 256, (16 + number, 20, 3), np.uint8)
        PIL.Image.fromarray(pixels).save(tmp_path / "pictures" / "a" / f"{number:02}.png")
    reader = ImageReader()

    def examples() -> Iterator[Example]:
        return reader.read(str(tmp_path / "pictures"))

    rows, settings = reader.learn(examples()), {"what": "pictures", "max_length": 99}
    rows.save(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED_PICTURES, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / "data/train").exists()
    counts: list[int] = []
    monkeypatch.setattr(Preparation, "close", lambda self: counts.append(self.reused))
    remove_stale(tmp_path / "data")  # as tasks do
    part, report = prepare_rows(tmp_path / "data/train", examples(), rows, Labels(["a"]), **settings)
    assert 7 <= counts[-1] <= 8
    whole, exact = prepare_rows(tmp_path / "whole", examples(), rows, Labels(["a"]), **settings)
    assert report == exact
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["train"]
    stored = [path for path in (tmp_path / "whole").rglob("*") if path.is_file()]
    assert stored
    for path in stored:
        assert path.read_bytes() == (tmp_path / "data/train" / path.relative_to(tmp_path / "whole")).read_bytes()
    assert all(np.array_equal(one, other) for one, other in zip(whole.inputs, part.inputs, strict=True))
