"""Recordings and vectors labelled frame by frame on the command line; damaged or unsuitable files are named."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import load_file

from foveate.data.label_track import read_track
from foveate.errors import UsageError
from foveate.inspect import read_trace, times
from foveate.inspect.view import hears
from foveate.tasks.tag.frame_use import FrameLabeller

RATE = 8_000
QUICK = ("--no-tune", "--threads", "1", "--quiet")
FEW = (
    *(*QUICK, "--set", "train.steps=4", "--set", "train.save_every=2", "--set", "train.validate_every=2"),
    *("--set", "train.schedule=constant"),
)
SMALL = ("--set", "model.encoder.block.model_dim=16", "--set", "model.encoder.block.feedforward_dim=16")
ATTENDS = ("--set", "model.encoder=transformer", *SMALL)


def recordings(folder: Path, count: int = 12) -> Path:
    """Recordings of two tones with a pause between them, with label tracks."""
    generator = np.random.default_rng(0)
    folder.mkdir()
    rows = []
    for number in range(count):
        time = np.arange(round(0.2 * RATE)) / RATE
        low, high = (np.sin(2 * np.pi * pitch * time) for pitch in (400, 1600))
        sound = np.concatenate([low, np.zeros(round(0.1 * RATE)), high])
        soundfile.write(folder / f"{number}.wav", 0.3 * sound + generator.normal(0, 0.01, len(sound)), RATE)
        (folder / f"{number}.txt").write_text("0.0\t0.2\tlow\n0.3\t0.5\thigh\n")
        rows.append(f"{number}.wav\t{number}.txt\n")
    (folder / "data.tsv").write_text("".join(rows))
    return folder / "data.tsv"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recordings(tmp_path_factory.mktemp("frames") / "recordings")


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory, foveate: Any) -> Path:
    run = tmp_path_factory.mktemp("run") / "run"
    trained = foveate("train", "tag", "--data", data, "--out", run, *FEW, *ATTENDS)
    assert trained.code == 0, trained.err
    return run


def test_a_run_is_trained_measured_planned_and_reported(data: Path, run: Path, tmp_path: Path, foveate: Any) -> None:
    config = json.loads((run / "config.json").read_text())["config"]
    assert (config["reader"]["kind"], config["reader"]["rate"]) == ("audio", RATE)
    assert config["decode"] == {"transition": 2.0, "prior": 0.3}
    measured = foveate("evaluate", run, "--data", data, "--per-class", "--save", tmp_path / "labels.txt")
    names = [line.partition(" = ")[0].partition("|")[0] for line in measured.out.splitlines()]
    assert names[:6] == ["accuracy", "F1", "PER", "smoothed accuracy", "smoothed F1", "smoothed PER"]
    assert {"F1 of -", "F1 of low", "F1 of high"} == set(names[6:])
    assert len((tmp_path / "labels.txt").read_text().splitlines()) == 12
    planned = foveate("plan", "tag", "--data", data, *QUICK[:3])
    assert planned.code == 0, planned.err
    assert "Vectors(width=40) and 10 labels" in planned.out
    assert "decode: labels smoothed by a Viterbi pass" in planned.out
    (run / "report.html").unlink()
    assert foveate("report", run).code == 0
    assert (run / "report.html").exists()


def test_a_recording_gets_a_label_track_in_each_format(data: Path, run: Path, tmp_path: Path, foveate: Any) -> None:
    recording = data.parent / "0.wav"
    (labelled,) = (labeller := FrameLabeller.load(run)).label(labeller.rows.things(str(recording)))
    assert len(labelled.labels) == 48  # 1 + (0.5 s − 25 ms) / 10 ms, rounded down
    right = labelled.segments
    assert (right[0].start, right[-1].end) == (0.0, 0.5)
    for way, ending in (("audacity", ".txt"), ("textgrid", ".TextGrid"), ("ctm", ".ctm")):
        printed = foveate("tag", run, recording, "--format", way)
        assert printed.code == 0, printed.err
        (tmp_path / f"0{ending}").write_text(printed.out)
        track = read_track(tmp_path / f"0{ending}", recording="0.wav")
        assert track.names == tuple(one.label for one in right)
        assert [one.start for one in track.segments] == pytest.approx([one.start for one in right], abs=1e-3)
        assert [one.end for one in track.segments] == pytest.approx([one.end for one in right], abs=2e-3)
    assert json.loads(foveate("tag", run, recording, "--format", "json").out)["seconds"] == 0.5
    columns = foveate("tag", run, recording, "--columns").out.splitlines()
    assert columns[0].split("\t")[0] == "0.0125"
    assert tuple(line.split("\t")[1] for line in columns) == labelled.labels


def test_the_times_of_a_stretch_are_those_of_its_file(data: Path, run: Path, tmp_path: Path, foveate: Any) -> None:
    recording = data.parent / "0.wav"
    samples, rate = soundfile.read(recording, dtype="int16")
    soundfile.write(tmp_path / "cut.wav", samples[rate // 10 : 2 * rate // 5], rate)
    for way, columns in (("audacity", 2), ("columns", 1)):
        options = ("--columns",) if way == "columns" else ("--format", way)
        part, cut = (
            [line.split("\t") for line in foveate("tag", run, name, *options).out.splitlines()]
            for name in (f"{recording}:0.1-0.4", tmp_path / "cut.wav")
        )
        assert [row[columns:] for row in part] == [row[columns:] for row in cut]
        for one, other in zip(part, cut, strict=True):
            assert [float(cell) for cell in one[:columns]] == pytest.approx(
                [0.1 + float(cell) for cell in other[:columns]]
            )
    said = foveate("tag", run, f"{recording}:0.1-0.4", "--format", "ctm").out
    assert {line.split()[0] for line in said.splitlines()} == {str(recording)}


def test_a_bad_recording_does_not_end_the_others_and_a_pipe_is_one_of_them(
    data: Path, run: Path, tmp_path: Path, foveate: Any
) -> None:
    one, bad = data.parent / "0.wav", tmp_path / "bad.wav"
    bad.write_bytes(b"no sound")
    said = foveate("tag", run, one, bad, "-", stdin=one.read_bytes())
    assert (said.code, said.err.count("bad.wav is not a recording"), "1 of 3 inputs could not" in said.err) == (
        3,
        1,
        True,
    )
    tracks = said.out.split("# ")[1:]
    assert [track.splitlines()[0] for track in tracks] == [str(one), "standard input"]
    assert tracks[0].splitlines()[1:] == tracks[1].splitlines()[1:]
    samples, _ = soundfile.read(one, dtype="int16")
    raw = foveate("tag", run, "--rate", RATE, stdin=samples.astype("<i2").tobytes())
    assert raw.out.splitlines() == tracks[0].splitlines()[1:]
    assert foveate("tag", run, stdin=f"{one}\n\n{one}\n".encode()).out.count(f"# {one}") == 2


def test_several_recordings_are_told_apart(data: Path, run: Path, tmp_path: Path, foveate: Any) -> None:
    one, two = data.parent / "0.wav", data.parent / "1.wav"
    assert [line for line in foveate("tag", run, one, two).out.splitlines() if line[0] == "#"] == [
        f"# {one}",
        f"# {two}",
    ]
    other = tmp_path / one.name  # a base name tells nothing
    other.write_bytes(two.read_bytes())
    written = foveate("tag", run, one, other, "--format", "ctm")
    assert {line.split()[0] for line in written.out.splitlines()} == {str(one), str(other)}
    said = foveate("tag", run, one, two, "--format", "textgrid")
    assert (said.code, "--format textgrid writes one recording." in said.err) == (2, True)
    said = foveate("tag", run, one, "--format", "ctm", "--columns")
    assert (said.code, "--columns prints frames, and --format a track of segments." in said.err) == (2, True)


def test_a_resumed_run_ends_with_the_same_bits(data: Path, tmp_path: Path, foveate: Any) -> None:
    augmented = ("--set", "reader.kind=audio", "--set", "reader.rate=8000", "--set", "reader.augmentation.time_width=5")
    start = ("train", "tag", "--data", data, *FEW, *augmented, "--out")
    assert foveate(*start, tmp_path / "whole").code == 0
    assert foveate(*start, tmp_path / "part", "--set", "train.steps=2").code == 0
    assert foveate("resume", tmp_path / "part", "--set", "train.steps=4", *QUICK[:3]).code == 0
    whole, part = (
        load_file(tmp_path / name / "checkpoints" / "step-00000004" / "model.safetensors") for name in ("whole", "part")
    )
    assert all(torch.equal(whole[name], part[name]) for name in whole | part)


def test_a_trace_has_the_labels_and_the_sound_of_its_frames(
    data: Path, run: Path, tmp_path: Path, foveate: Any
) -> None:
    looked = foveate("look", run, data.parent / "0.wav", "--trace", tmp_path / "kept")
    assert looked.code == 0, looked.err
    track = read_trace(tmp_path / "kept").tracks["source"]
    assert (track.kind, len(track), track.hop) == ("frames", 48, 0.01)
    assert {label.rpartition(" ")[2] for label in track.labels} <= {"-", "low", "high"}
    assert track.picture is not None
    assert track.sound is not None
    assert track.words is not None
    assert all(len({track.labels[place].rpartition(" ")[2] for place in range(*word)}) == 1 for word in track.words)


def test_a_look_maps_the_probabilities_of_labels_beside_the_true_ones(
    data: Path, run: Path, tmp_path: Path, foveate: Any
) -> None:
    recording, true = data.parent / "0.wav", tmp_path / "0.txt"
    true.write_text("0.0\t0.2\tlow\n0.3\t0.5\tnew\n")
    looked = foveate("look", run, recording, "--target", true, "--trace", tmp_path / "kept")
    assert looked.code == 0, looked.err
    trace = read_trace(tmp_path / "kept")
    labels, segments, gold = (trace[name].weights(0)[0] for name in ("labels", "segments", "true labels"))
    labeller = FrameLabeller.load(run)
    (labelled,) = labeller.label(list(labeller.rows.things(str(recording))))
    assert trace.tracks["labels"].labels == (*labeller.vocabulary.labels.names, "new")
    assert trace.tracks["segments"].labels == labelled.phones
    assert torch.allclose(labels.sum(0), torch.ones(48))
    rows = [trace.tracks["labels"].labels.index(label) for label in labelled.labels]
    likely = torch.tensor(labelled.probabilities)
    assert torch.allclose(labels[rows, torch.arange(48)], likely)
    assert torch.allclose(segments.sum(0), likely)
    assert bool((segments > 0).sum(0).eq(1).all())
    named = trace.tracks["labels"].labels
    assert [named[row] for row in gold.argmax(0).tolist()] == ["low"] * 19 + ["-"] * 10 + ["new"] * 19
    assert torch.equal(gold.sum(0), torch.ones(48))
    assert trace.sites[trace.opening[0]].name == "labels"
    assert (hears(trace), hears(trace, "segments")) == (False, True)
    with pytest.raises(UsageError, match="its keys are frames, its queries labels"):
        times(trace)
    assert [one.label for one in times(trace, site="segments").tier("words")] == list(labelled.phones)


def test_a_look_says_that_segments_are_too_many_for_a_map(
    data: Path, run: Path, tmp_path: Path, foveate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foveate.tasks.tag.label_map.DENSE", 47)
    looked = foveate("look", run, data.parent / "0.wav", "--trace", tmp_path / "kept")
    assert (looked.code, "too many segments and vectors for a map of both" in looked.err) == (0, True)
    assert "segments" not in read_trace(tmp_path / "kept").tracks


def test_segments_are_drawn_along_the_time_of_a_recording(data: Path, run: Path, tmp_path: Path, foveate: Any) -> None:
    recording, true = data.parent / "0.wav", data.parent / "0.txt"
    grid = tmp_path / "0.TextGrid"
    assert foveate("look", run, recording, "--target", true, "--out", grid).code == 0
    (labelled,) = (labeller := FrameLabeller.load(run)).label(list(labeller.rows.things(str(recording))))
    for tier, segments in (("labels", labelled.segments), ("true labels", read_track(true).segments)):
        drawn = [(one.label, one.start, one.end) for one in read_track(grid, tier=tier).segments]
        assert drawn == [(one.label, pytest.approx(one.start), pytest.approx(one.end)) for one in segments]
    assert foveate("look", run, recording, "--out", tmp_path / "0.ctm").code == 0
    assert (tmp_path / "0.ctm").read_text() == foveate("tag", run, recording, "--format", "ctm").out
    part = tmp_path / "part.TextGrid"
    said = foveate("look", run, f"{recording}:0.1-0.3", "--target", true, "--out", part)
    assert said.code == 0, said.err
    whole = [one for one in read_track(true).segments if one.start < 0.299]
    drawn = [(one.label, one.start, one.end) for one in read_track(part, tier="true labels").segments]
    assert drawn == [(one.label, pytest.approx(one.start), pytest.approx(min(one.end, 0.3))) for one in whole]
    assert len(whole) < len(read_track(true).segments)
    (tmp_path / "late.txt").write_text("0.0\t0.7\tlow\n")
    said = foveate("look", run, recording, "--target", tmp_path / "late.txt")
    assert (said.code, "late.txt:1: 'low' ends at 0.700 s, and" in said.err) == (3, True)


def test_variants_are_compared_on_the_same_stretches(data: Path, tmp_path: Path, foveate: Any) -> None:
    lines = (line.split("\t") for line in data.read_text().splitlines())
    stretches = (f"{data.parent}/{path}\t0.1\t0.45\t{data.parent}/{track}\n" for path, track in lines)
    table = tmp_path / "stretches.tsv"
    table.write_text("".join(["path\tstart\tend\tlabel\n", *stretches]))
    words = ("--vary", "model.encoder.num_layers=1,2", "--seeds", "1", "--budget", "steps=2", *ATTENDS)
    said = foveate("compare", "tag", "--data", table, *words, *QUICK, "--out", tmp_path / "out")
    assert said.code == 0, said.err
    held = [
        line for part in ("train", "valid") for line in (tmp_path / f"out/data/{part}.tsv").read_text().splitlines()
    ]
    assert sorted({*held}) == sorted(set(table.read_text().splitlines()))
    assert len(held) == 12 + 2


def test_a_tagger_of_frames_is_exported(run: Path, tmp_path: Path, foveate: Any) -> None:
    assert foveate("export", run, tmp_path / "out", "--to", "onnx").code == 0
    described = json.loads((tmp_path / "out" / "export.json").read_text())["files"]["model.onnx"]
    assert set(described["inputs"]) == {"features", "lengths"}
    assert {"labels.json", "rows.json", "transitions.json"} <= {path.name for path in (tmp_path / "out").iterdir()}


def test_damaged_counts_are_refused(data: Path, run: Path, foveate: Any) -> None:
    path = run / "transitions.json"
    content = path.read_text()
    try:
        path.write_text(
            content.replace('"first": [\n    1', '"first": [\n    2', 1).replace('"digest": "', '"digest": "0')
        )
        said = foveate("tag", run, data.parent / "0.wav")
    finally:
        path.write_text(content)
    assert (said.code, "transitions.json is damaged or has counts of other labels." in said.err) == (3, True)


@pytest.mark.parametrize(
    ("track", "message"),
    [
        ("0.0\t0.3\tlow\n0.2\t0.5\thigh\n", "0.txt:2: 'high' from 0.200 to 0.500 s overlaps with 'low' of line 1"),
        ("0.0\t0.7\tlow\n", "0.txt:1: 'low' ends at 0.700 s, and {folder}/0.wav lasts 0.500 s. Check that the track"),
        ("0.0\n", "0.txt:1: '0.0' is not a segment. Write start, tab, end, tab, label."),
    ],
)
def test_a_wrong_track_is_refused_with_its_line(track: str, message: str, tmp_path: Path, foveate: Any) -> None:
    data = recordings(tmp_path / "recordings")
    (data.parent / "0.txt").write_text(track)
    said = foveate("train", "tag", "--data", data, "--out", tmp_path / "run", *FEW)
    assert (said.code, message.format(folder=data.parent) in said.err) == (3, True), said.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--columns", "0,1"), "reader does not read texts, which data.columns is for. Leave one of them out."),
        (("--set", "reader=pixels"), 'reader.kind cannot be "pixels". Choose one of: "audio", "vector".'),
        (("--set", "track.tier=phones"), "has no tiers, only a .TextGrid has. Leave the tier 'phones' out."),
        (("--set", "track.nothing="), "nothing must be a label without space around it"),
        (
            ("--set", "reader.augmentation.speeds=[0.9, 1.0]"),
            "reader.augmentation.speeds moves frames away from their labels",
        ),
        (("--set", "decode.prior=-1"), "prior must be at least 0, got -1"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    arguments: tuple[str, ...], message: str, data: Path, tmp_path: Path, foveate: Any
) -> None:
    said = foveate("train", "tag", "--data", data, "--out", tmp_path / "run", *FEW, *arguments)
    assert (said.code in (2, 3), message in said.err) == (True, True), said.err


def test_recordings_without_a_reader_and_words_with_smoothing_are_refused(
    data: Path, tmp_path: Path, foveate: Any
) -> None:
    (tmp_path / "run.toml").write_text(f'[data]\ndata = "{data}"\n')
    said = foveate("train", "tag", tmp_path / "run.toml", "--out", tmp_path / "run", *QUICK)
    assert (said.code, 'without a reader words are read. Set reader = "audio".' in said.err) == (2, True)
    (tmp_path / "tagged.txt").write_text("a/D b/N\n" * 20)
    said = foveate(
        "train", "tag", "--data", tmp_path / "tagged.txt", "--out", tmp_path / "run", *FEW, "--set", "decode.prior=1"
    )
    assert (said.code, "decode smooths the labels of vectors, and without a reader sentences" in said.err) == (2, True)


def test_vectors_with_a_list_of_labels_have_no_time(tmp_path: Path, foveate: Any) -> None:
    generator = np.random.default_rng(0)
    for number in range(12):
        vectors = generator.normal(size=(5 + number % 4, 3))
        np.save(tmp_path / f"{number}.npy", vectors)
        (tmp_path / f"{number}.txt").write_text("".join("up\n" if one[0] > 0 else "down\n" for one in vectors))
    (tmp_path / "data.tsv").write_text("".join(f"{number}.npy\t{number}.txt\n" for number in range(12)))
    run = tmp_path / "run"
    assert foveate("train", "tag", "--data", tmp_path / "data.tsv", "--out", run, *FEW).code == 0
    printed = foveate("tag", run, tmp_path / "0.npy").out.splitlines()
    assert (printed[0].split("\t")[0], printed[-1].split("\t")[1]) == ("0", "5")
    drawn = foveate("look", run, tmp_path / "0.npy", "--target", tmp_path / "0.txt")
    assert (drawn.code, "up" in drawn.out, "down" in drawn.out) == (0, True, True), drawn.err
    said = foveate("look", run, tmp_path / "0.npy", "--target", tmp_path / "1.txt")
    assert (said.code, "0.npy has 5 vectors, and" in said.err) == (3, True), said.err
    said = foveate("tag", run, tmp_path / "0.npy", "--format", "ctm")
    assert (said.code, "0.npy has vectors without a time. Set track.hop" in said.err) == (2, True)
    said = foveate("evaluate", run, "--data", tmp_path / "data.tsv", "--columns", "0,1")
    assert (said.code, "--columns chooses columns of a table of words" in said.err) == (2, True)
