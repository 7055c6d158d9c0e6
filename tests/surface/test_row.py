"""Vectors, pictures and recordings on the command line: trained, resumed, used, measured, drawn; bad ones named."""

import gzip
import json
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import load_file

import foveate
from foveate.data.picture import read_picture
from foveate.data.store import TokenStore
from foveate.data.synthetic import SHAPES, shapes
from foveate.inspect import read_trace
from foveate.inspect.figure.pixel import encode
from foveate.tasks.classify.use import RowClassifier, TextClassifier

KINDS = ("disc", "frame", "bars")
TONES = ("rises", "falls", "stays")
QUICK = ("--no-tune", "--threads", "1", "--quiet")
FEW = (*QUICK, "--set", "train.steps=6", "--set", "train.save_every=3", "--set", "train.validate_every=3")
SMALL = ("--set", "model.encoder.block.model_dim=16", "--set", "model.encoder.block.feedforward_dim=32")


def pictures(folder: Path, count: int = 40, side: int = 12) -> Path:
    """Grey pictures of shapes, in a folder for each."""
    grey = tuple((level, level, level) for level in range(256))
    drawn = 0
    for example in shapes(100 * count, seed=1, side=side, noise=0.05):
        name = SHAPES[example.label]
        if name in KINDS and drawn < count:
            (folder / name).mkdir(parents=True, exist_ok=True)
            pixels = (np.array(example.ids) - 1).astype(np.uint8).reshape(side, side)
            (folder / name / f"{drawn:03}.png").write_bytes(encode(pixels, grey))
            drawn += 1
    return folder


def vectors(path: Path, count: int = 60) -> Path:
    """Short sequences that rise or fall."""
    generator = np.random.default_rng(0)
    lengths, falls = generator.integers(2, 6, count), generator.integers(0, 2, count)
    slopes = [np.linspace(0, 1, length)[:: -1 if fall else 1] for length, fall in zip(lengths, falls, strict=True)]
    inputs = np.column_stack([np.concatenate(slopes), generator.normal(5, 100, lengths.sum())])
    np.savez(path, inputs=inputs, lengths=lengths, labels=np.array(["rises", "falls"])[falls])
    return path


def sounds(folder: Path, count: int = 42, rate: int = 8_000) -> Path:
    """Short tones that rise, fall or stay, in a folder for each."""
    generator = np.random.default_rng(0)
    for number in range(count):
        name = TONES[number % 3]
        time = np.linspace(0, 1, int(rate * generator.uniform(0.1, 0.25)))
        hertz = {"rises": 300 + 900 * time, "falls": 1200 - 900 * time, "stays": 500 + 0 * time}[name]
        samples = 0.3 * np.sin(2 * np.pi * np.cumsum(hertz) / rate) + generator.normal(0, 0.01, len(time))
        (folder / name).mkdir(parents=True, exist_ok=True)
        soundfile.write(folder / name / f"{number:02}.wav", samples, rate)
    return folder


def listed(folder: Path) -> Path:
    """A table of recordings in folders."""
    table = folder.parent / "tones.tsv"
    lines = (f"{one.relative_to(folder.parent)}\t{one.parent.name}\n" for one in sorted(folder.rglob("*.wav")))
    table.write_text("".join(lines))
    return table


@pytest.fixture
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "vectors":
        return vectors(tmp_path / "data.npz")
    if request.param == "table":
        return listed(sounds(tmp_path / "tones"))
    if request.param in ("idx", "array", "list"):
        return {"idx": idx, "array": arrays, "list": listed_pictures}[request.param](pictures(tmp_path / "pictures"))
    return {"pictures": pictures, "sounds": sounds}[request.param](tmp_path / request.param)


def listed_pictures(folder: Path) -> Path:
    """A table of pictures in folders."""
    table = folder.parent / "pictures.tsv"
    lines = (f"{one.relative_to(folder.parent)}\t{one.parent.name}\n" for one in sorted(folder.rglob("*.png")))
    table.write_text("".join(lines))
    return table


def pixels_and_labels(folder: Path) -> tuple[np.ndarray, list[str]]:
    files = sorted(folder.rglob("*.png"))
    return np.stack([read_picture(one).pixels[..., 0] for one in files]), [one.parent.name for one in files]


def arrays(folder: Path) -> Path:
    """The pictures of folders as arrays."""
    pixels, labels = pixels_and_labels(folder)
    np.savez(folder.parent / "pictures.npz", x=pixels, y=labels)
    return folder.parent / "pictures.npz"


def idx(folder: Path) -> Path:
    """The pictures of folders in the format of MNIST."""
    pixels, names = pixels_and_labels(folder)
    labels = np.array([KINDS.index(name) for name in names], np.uint8)
    for name, array in (("images-idx3", pixels), ("labels-idx1", labels)):
        header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
        (folder.parent / f"train-{name}-ubyte.gz").write_bytes(gzip.compress(header + array.tobytes()))
    return folder.parent / "train-images-idx3-ubyte.gz"


KNOWN = ["pictures", "vectors", "sounds", "table"]
ALL = pytest.mark.parametrize("data", KNOWN, indirect=True)
SOURCES = pytest.mark.parametrize("data", ["list", "array", "idx"], indirect=True)


@ALL
def test_a_run_is_trained_used_measured_planned_and_reported(data: Path, tmp_path: Path, foveate: Any) -> None:
    run = tmp_path / "run"
    trained = foveate("train", "classify", "--data", str(data), "--out", str(run), *FEW)
    assert trained.code == 0, trained.err
    assert (run / "report.html").exists()
    config = json.loads((run / "config.json").read_text())["config"]
    kind = config["reader"]["kind"]
    assert kind == ("image" if (data / "disc").exists() else "vector" if data.suffix == ".npz" else "audio")

    one = next(iter(sorted([*data.parent.rglob("*.png"), *data.parent.rglob("*.wav")])), data)
    labels = 2 if kind == "vector" else 3
    used = foveate("classify", str(run), str(one), "--probabilities", "--look")
    assert used.code == 0, used.err
    assert used.out.splitlines()[0].count("\t") == labels - 1
    assert "most:" in used.out
    measured = foveate("evaluate", str(run), "--data", str(data), "--save", str(tmp_path / "labels.txt"))
    assert measured.out.startswith("accuracy = ")
    count = {"image": 40, "vector": 60, "audio": 42}[kind]
    assert len((tmp_path / "labels.txt").read_text().splitlines()) == count
    planned = foveate("plan", "classify", "--data", str(data), *QUICK[:3])
    assert planned.code == 0, planned.err
    assert {"image": "Patches(size=2", "vector": "Vectors(width=2)", "audio": "Vectors(width=40)"}[kind] in planned.out
    assert f" and {labels} labels)" in planned.out
    bad = tmp_path / f"bad{one.suffix}"
    bad.write_bytes(b"nothing")
    several = foveate("classify", str(run), str(bad), str(one), str(tmp_path / "none.wav"), str(one))
    assert (several.code, several.err.count("foveate classify: "), " inputs could not be" in several.err) == (
        3,
        3,
        True,
    )
    labels = foveate("classify", str(run), str(one)).out
    assert several.out == f"\n{labels}\n{labels}"
    if kind == "audio":
        assert foveate("classify", str(run), "-", stdin=one.read_bytes()).out == labels
    else:
        refused = foveate("classify", str(run), str(one), "--rate", "8000")
        assert (refused.code, "--rate goes with" in refused.err) == (2, True)
    (run / "report.html").unlink()
    assert foveate("report", str(run)).code == 0
    assert (run / "report.html").exists()
    drawn = foveate("look", str(run), str(one), "--out", str(tmp_path / "look.svg"))
    assert drawn.code == 0, drawn.err


@ALL
def test_a_resumed_run_ends_with_the_same_bits(data: Path, tmp_path: Path, foveate: Any) -> None:
    speeds = ("--set", "reader.augmentation.speeds=[0.9, 1.0, 1.1]") if data.name == "sounds" else ()
    start = ("train", "classify", "--data", str(data), *FEW, *speeds, "--set", "train.schedule=constant", "--out")
    assert foveate(*start, str(tmp_path / "whole")).code == 0
    assert foveate(*start, str(tmp_path / "part"), "--set", "train.steps=3").code == 0
    assert foveate("resume", str(tmp_path / "part"), "--set", "train.steps=6", *QUICK[:3]).code == 0
    whole, part = (
        load_file(tmp_path / name / "checkpoints" / "step-00000006" / "model.safetensors") for name in ("whole", "part")
    )
    assert whole.keys() == part.keys()
    assert all(torch.equal(whole[name], part[name]) for name in whole)
    assert (tmp_path / "part/data/train/variants").exists() == bool(speeds)


@SOURCES
def test_pictures_of_every_source_are_learnt_measured_and_labelled(data: Path, tmp_path: Path, foveate: Any) -> None:
    run = tmp_path / "run"
    trained = foveate("train", "classify", "--data", str(data), "--out", str(run), *FEW, *SMALL)
    assert trained.code == 0, trained.err
    assert json.loads((run / "config.json").read_text())["config"]["reader"]["kind"] == "image"
    assert foveate("evaluate", str(run), "--data", str(data)).out.startswith("accuracy = ")
    one = data if data.suffix != ".tsv" else min((tmp_path / "pictures").rglob("*.png"))
    used = foveate("classify", str(run), str(one))
    assert len(used.out.splitlines()) == (40 if one == data else 1)


CHANGED = (
    *("--set", "reader.augmentation.flip=true", "--set", "reader.augmentation.changes=2"),
    *("--set", "reader.augmentation.mixup=0.4", "--set", "reader.augmentation.padding=1"),
)


def test_the_parts_of_one_array_file_are_trained_on_and_validated(tmp_path: Path, foveate: Any) -> None:
    pixels, labels = pixels_and_labels(pictures(tmp_path / "pictures"))
    names = np.array(labels)
    np.savez(tmp_path / "data.npz", x_train=pixels[::2], y_train=names[::2], x_test=pixels[1::2], y_test=names[1::2])
    parts = ("--data", f"{tmp_path / 'data.npz'}:train", "--valid-data", f"{tmp_path / 'data.npz'}:test")
    said = foveate("train", "classify", *parts, *FEW, *SMALL, "--out", tmp_path / "run")
    assert said.code == 0, said.err
    assert len(TokenStore.open(tmp_path / "run/data/train/labels")) == len(names[::2])
    assert len(TokenStore.open(tmp_path / "run/data/valid/labels")) == len(names[1::2])


def test_recordings_that_are_all_too_long_are_named_also_at_three_speeds(tmp_path: Path, foveate: Any) -> None:
    more = ("--set", "reader.augmentation.speeds=[0.9, 1.0, 1.1]", "--set", "data.max_length=1")
    said = foveate("train", "classify", "--data", sounds(tmp_path / "sounds"), *FEW, *more, "--out", tmp_path / "run")
    assert (said.code, "No example is left for the train data." in said.err) == (3, True), said.err
    assert "damaged" not in said.err


def test_training_with_changed_and_mixed_pictures_resumes_to_the_same_bits(tmp_path: Path, foveate: Any) -> None:
    data = pictures(tmp_path / "pictures")
    start = ("train", "classify", "--data", str(data), *FEW, *SMALL, *CHANGED, "--set", "train.schedule=constant")
    assert foveate(*start, "--out", str(tmp_path / "whole")).code == 0
    assert foveate(*start, "--out", str(tmp_path / "part"), "--set", "train.steps=3").code == 0
    assert foveate("resume", str(tmp_path / "part"), "--set", "train.steps=6", *QUICK[:3]).code == 0
    assert foveate(*start[: -len(CHANGED) - 2], *start[-2:], "--out", str(tmp_path / "plain")).code == 0
    whole, part, plain = (
        load_file(tmp_path / name / "checkpoints" / "step-00000006" / "model.safetensors")
        for name in ("whole", "part", "plain")
    )
    assert all(torch.equal(whole[name], part[name]) for name in whole)
    assert not all(torch.equal(whole[name], plain[name]) for name in whole)


def test_pictures_of_several_sizes_are_scaled_and_that_is_reported_once(tmp_path: Path, foveate: Any) -> None:
    data = pictures(tmp_path / "pictures", 30, side=20)
    pictures(data / "more", 9, side=31)
    for one in sorted((data / "more").rglob("*.png")):
        one.rename(data / one.parent.name / f"larger-{one.name}")
    shutil.rmtree(data / "more")
    run = tmp_path / "run"
    spoken = (one for one in FEW if one != "--quiet")
    trained = foveate("train", "classify", "--data", str(data), "--out", str(run), *spoken, *SMALL)
    assert trained.code == 0, trained.err
    assert json.loads((run / "config.json").read_text())["config"]["reader"]["size"] == [16, 16]
    reports = [line for line in (trained.out + trained.err).splitlines() if "pictures are used." in line]
    assert [line.count("Warning: another size than 16 × 16 pixels: scaled:") for line in reports] == [1, 1]


def test_a_trace_of_a_picture_has_its_patches_and_the_picture(tmp_path: Path, foveate: Any) -> None:
    data, run = pictures(tmp_path / "pictures"), tmp_path / "run"
    assert foveate("train", "classify", "--data", str(data), "--out", str(run), *FEW, *SMALL).code == 0
    one = next(iter(sorted(data.rglob("*.png"))))
    assert foveate("look", str(run), str(one), "--trace", str(tmp_path / "kept")).code == 0
    trace = read_trace(tmp_path / "kept")
    track = trace.tracks["source"]
    assert (track.kind, track.grid, len(track)) == ("patches", (6, 6), 36)
    assert track.picture is not None
    assert track.picture.size == (12, 12)
    assert {site.kind for site in trace.sites} == {"self", "cross"}


def test_a_picture_is_drawn_as_a_grid_of_its_patches(tmp_path: Path, foveate: Any) -> None:
    data, run = pictures(tmp_path / "pictures"), tmp_path / "run"
    assert foveate("train", "classify", "--data", str(data), "--out", str(run), *FEW, *SMALL).code == 0
    one = next(iter(sorted(data.rglob("*.png"))))
    for command in (("look", run, one), ("classify", run, one, "--look")):
        drawn = foveate(*map(str, command))
        assert drawn.code == 0, drawn.err
        lines = drawn.out.splitlines()
        assert not any(line != line.rstrip() for line in lines)
        place = lines.index("  0 1 2 3 4 5")
        assert lines[place - 1] in KINDS
        assert [line[:2].rstrip() for line in lines[place + 1 : place + 7]] == list("012345")
        assert lines[place + 7].startswith("0 not looked at  ░▒▓█")
    assert foveate("look", str(run), str(one), "--trace", str(tmp_path / "kept")).code == 0
    assert foveate("look", str(tmp_path / "kept"), "--site", "0", "--out", str(tmp_path / "map.txt")).code == 0
    assert (tmp_path / "map.txt").read_text().startswith("mean of 36 queries\n  0 1 2 3 4 5\n")


def test_a_trace_of_a_recording_can_be_seen_and_heard(tmp_path: Path, foveate: Any) -> None:
    data, run = sounds(tmp_path / "tones"), tmp_path / "run"
    assert foveate("train", "classify", "--data", str(data), "--out", str(run), *FEW).code == 0
    one = next(iter(sorted(data.rglob("*.wav"))))
    assert foveate("look", str(run), f"{one}:0.02-0.08", "--trace", str(tmp_path / "kept")).code == 0
    track = read_trace(tmp_path / "kept").tracks["source"]
    assert (track.kind, track.hop, track.labels) == ("frames", 0.01, ("0.00 s", "0.01 s", "0.02 s", "0.03 s"))
    assert track.picture is not None
    assert track.picture.size == (4, 40)
    assert track.sound is not None
    assert track.sound.seconds == pytest.approx(0.04)
    assert track.sound.media == "audio/flac"


def test_remarks_on_recordings_are_counted_in_the_report(tmp_path: Path, foveate: Any) -> None:
    data, run = sounds(tmp_path / "tones", 42), tmp_path / "run"
    for number in (0, 3, 6):
        soundfile.write(data / "rises" / f"{number:02}.wav", np.zeros(4000), 16_000)
    trained = foveate("train", "classify", "--data", str(data), "--out", str(run), *QUICK[:3], *FEW[4:])
    assert trained.code == 0, trained.err
    for remark in ("silence", "16,000 samples a second, resampled to 8,000"):
        lines = [line for line in trained.err.splitlines() if f"Warning: {remark}: line" in line]
        assert 1 <= len(lines) <= 2, trained.err
    soundfile.write(tmp_path / "short.wav", np.zeros(100), 8_000)
    used = foveate("classify", str(run), str(data / "rises/03.wav"), str(tmp_path / "short.wav"))
    assert used.code == 0, used.err
    assert f"{data / 'rises/03.wav'}: silence, 16,000 samples a second, resampled to 8,000.\n" in used.err
    assert f"{tmp_path / 'short.wav'}: silence, shorter than a window of 25 ms.\n" in used.err
    assert used.out.splitlines()[1] == ""


def test_python_loads_what_the_command_line_has_trained(tmp_path: Path, foveate: Any) -> None:
    data, run = vectors(tmp_path / "data.npz"), tmp_path / "run"
    assert foveate("train", "classify", "--data", str(data), "--out", str(run), *FEW).code == 0
    classifier = RowClassifier.load(run)
    things = list(classifier.rows.things(str(data)))
    together = classifier.classify(things)
    assert classifier.classify(classifier.rows.things(str(data))) == together
    with pytest.raises(TypeError, match="`classify` takes a list of files or vectors, not str"):
        classifier.classify(str(data))
    assert {one.label for one in together} <= {"rises", "falls"}
    (alone,) = classifier.classify(things[3:4])
    assert alone.probabilities == pytest.approx(together[3].probabilities, abs=1e-6)
    trace = classifier.trace(things[0])
    assert (trace.tracks["source"].kind, len(trace.tracks["source"])) == ("frames", len(things[0].values))
    with pytest.raises(Exception, match=r"does not read texts. Load it with RowClassifier"):
        TextClassifier.load(run)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--set", "reader=image"),
            "data.npz has no pictures. Give a folder that contains a folder of pictures for each label, a table",
        ),
        (("--columns", "0,1"), "reader does not read texts, which data.columns is for. Leave one of them out."),
        (("--set", "reader=pixels"), 'reader.kind cannot be "pixels". Choose one of: "vector", "image", "audio".'),
    ],
)
def test_what_does_not_go_together_is_refused(
    arguments: tuple[str, ...], message: str, tmp_path: Path, foveate: Any
) -> None:
    data = vectors(tmp_path / "data.npz")
    said = foveate("train", "classify", "--data", str(data), "--out", str(tmp_path / "run"), *FEW, *arguments)
    assert said.code in (2, 3)
    assert message in said.err
    assert not (tmp_path / "run").exists()


def test_a_file_of_another_kind_is_refused_in_use(tmp_path: Path, foveate: Any) -> None:
    data, run = pictures(tmp_path / "pictures"), tmp_path / "run"
    assert foveate("train", "classify", "--data", str(data), "--out", str(run), *FEW, *SMALL).code == 0
    (tmp_path / "a.png").write_bytes(b"no picture")
    larger = next(iter(sorted(pictures(tmp_path / "larger", 9, side=14).rglob("*.png"))))
    for path, message in (
        (tmp_path / "a.png", "is not a picture that can be read, or is damaged"),
        (tmp_path / "none.png", "none.png"),
        ("a text", "This model reads pictures: name files (.bmp, .gif, .jpeg, .jpg, .pbm, .pgm, .png,"),
    ):
        said = foveate("classify", str(run), str(path))
        assert (said.code, message in said.err) == (3, True), said.err
    scaled = foveate("classify", str(run), str(larger))
    assert (scaled.code, scaled.err) == (0, f"{larger}: another size than 12 × 12 pixels: scaled.\n")
    rows = run / "rows.json"
    rows.write_text(rows.read_text().replace('"patch": 2', '"patch": 3'))
    said = foveate("classify", str(run), str(larger))
    assert (said.code, "rows.json is damaged" in said.err) == (3, True)


@ALL
def test_a_configuration_without_a_reader_gets_a_suggestion(data: Path, tmp_path: Path, foveate: Any) -> None:
    (tmp_path / "run.toml").write_text(f'[data]\ndata = "{data}"\n')
    said = foveate("train", "classify", str(tmp_path / "run.toml"), "--out", str(tmp_path / "run"), *QUICK)
    kinds = {"pictures": ("pictures", "image"), "data.npz": ("vectors", "vector")}
    what, kind = kinds.get(data.name, ("recordings", "audio"))
    assert said.code == 2
    assert f'{data} has {what}, and without a reader a table of texts is read. Set reader = "{kind}".' in said.err


OF_MINE = """
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
import numpy as np
from foveate.data.feature import VectorRows
from foveate.data.reader import Example, Reader
from foveate.data.row import Row

@dataclass(frozen=True, kw_only=True)
class Digits(Reader):
    what = "numbers"
    scale: float = 1.0

    def read(self, path: str) -> Iterator[Example]:
        for line, text in enumerate(Path(path).read_text().splitlines(), start=1):
            yield Example(line, text, "odd" if int(text[-1]) % 2 else "even")

    def learn(self, examples: Iterable[Example]) -> "DigitRows":
        return DigitRows(mean=(4.5 * self.scale,), deviation=(3.0,))

    def open(self, folder: Path) -> "DigitRows":
        return DigitRows.open(folder)

@dataclass(frozen=True, kw_only=True)
class DigitRows(VectorRows):
    kind = "digit"

    def row(self, thing: str) -> Row:
        return Row(np.array([[(float(digit) - self.mean[0]) / 3] for digit in thing], np.float32))

    def track(self, thing: str):
        return {"labels": tuple(thing), "kind": "frames"}

    def things(self, path: str) -> Iterator[str]:
        return iter(Path(path).read_text().splitlines())

@dataclass(frozen=True, kw_only=True)
class Half:
    what = "halves"

    def read(self, path: str) -> Iterator[Example]:
        return iter([])
"""


def test_a_reader_of_a_user_is_named_in_a_configuration(
    tmp_path: Path, foveate: Any, monkeypatch: pytest.MonkeyPatch, unchecked: None
) -> None:
    (tmp_path / "reader_of_mine.py").write_text(OF_MINE)
    (tmp_path / "numbers.txt").write_text("".join(f"{number * 7}\n" for number in range(100, 180)))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text(
        'reader = { kind = "reader_of_mine:Digits", scale = 1.0 }\n[data]\ndata = "numbers.txt"\n'
        '[model.encoder]\nkind = "rnn"\nhidden_dim = 8\n[train]\nsteps = 6\nsave_every = 3\nvalidate_every = 3\n'
    )
    for given in (("run.toml",), ("--data", "numbers.txt", "--set", "reader=reader_of_mine:Digits", *FEW)):
        said = foveate("train", "classify", *given, "--out", str(tmp_path / f"{given[0]}.run"), *QUICK)
        assert said.code == 0, said.err
    said = foveate("plan", "classify", "--data", "numbers.txt", "--set", "reader=reader_of_mine:Digits", *QUICK[:3])
    assert "numbers of 3 vectors" in said.out, said.err
    said = foveate(
        "train", "classify", "--data", "numbers.txt", "--set", "reader=reader_of_mine:Half", "--out", "half", *QUICK
    )
    assert said.code == 2
    assert "reader: Half lacks about, learn, open, suited. Derive it from foveate.data.reader.Reader" in said.err
    said = foveate("classify", str(tmp_path / "run.toml.run"), "numbers.txt")
    assert said.code == 2
    assert "Your TOML files and --set may do that, but not a checkpoint" in said.err


def test_a_model_that_pools_without_attention_is_refused_before_a_label_is_printed(
    tmp_path: Path, foveate: Any
) -> None:
    data, run = vectors(tmp_path / "data.npz"), tmp_path / "run"
    mean = ("--set", "model.pooling=mean")
    assert foveate("train", "classify", "--data", str(data), "--out", str(run), *FEW, *mean).code == 0
    said = foveate("classify", str(run), str(data), "--look")
    assert (said.code, said.out) == (2, "")
    assert "This model pools without attention" in said.err


def test_the_public_classifiers_are_these() -> None:
    assert foveate.TextClassifier is TextClassifier
