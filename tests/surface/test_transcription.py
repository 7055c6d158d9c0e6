"""Recordings on the command line: trained, resumed, used, measured, planned; bad ones named."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from foveate.errors import DataError
from foveate.tasks.transcribe.use import Transcriber

WORDS = ("one", "two", "three")
QUICK = ("--no-tune", "--threads", "1", "--quiet")
SMALL = (
    *("--set", "model.encoder.num_layers=1", "--set", "model.encoder.block.model_dim=32"),
    *("--set", "model.encoder.block.feedforward_dim=64", "--set", "model.subsampling.hidden_dim=32"),
    *("--set", "data.max_tokens=1200"),
)
FEW = (*QUICK, *SMALL, "--set", "train.steps=6", "--set", "train.save_every=3", "--set", "train.validate_every=3")


def spelled(folder: Path, count: int, seed: int = 0) -> Path:
    """Vectors in which every letter of a text is a number that rises for a while, and a table of them."""
    generator, letters = np.random.default_rng(seed), sorted({*"".join(WORDS), " "})
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for number in range(count):
        text = " ".join(generator.choice(WORDS, size=generator.integers(1, 4)))
        lengths = generator.integers(5, 9, len(text))
        vectors = np.zeros((lengths.sum(), len(letters)), np.float32)
        for letter, start, length in zip(text, np.cumsum(lengths) - lengths, lengths, strict=True):
            vectors[start + 1 : start + length - 1, letters.index(letter)] = 1
        np.save(folder / f"{number:03}.npy", vectors + generator.normal(0, 0.1, vectors.shape).astype(np.float32))
        lines.append(f"{number:03}.npy\t{text}\n")
    (folder / "clips.tsv").write_text("".join(lines))
    return folder / "clips.tsv"


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return spelled(tmp_path_factory.mktemp("spelled"), 60)


@pytest.fixture(scope="module")
def run(clips: Path, tmp_path_factory: pytest.TempPathFactory, foveate: Any) -> Path:
    """A run that has learnt a little. Read only."""
    folder = tmp_path_factory.mktemp("transcribed") / "run"
    steps = ("--set", "train.steps=120", "--set", "train.save_every=60", "--set", "train.validate_every=60")
    said = foveate("train", "transcribe", "--data", clips, "--out", folder, *FEW, *steps)
    assert said.code == 0, said.err
    return folder


def test_a_run_is_trained_and_says_what_it_chose_and_held_out(clips: Path, tmp_path: Path, foveate: Any) -> None:
    steps = ("--set", "train.steps=2")
    said = foveate("train", "transcribe", "--data", clips, "--out", tmp_path / "run", "--no-tune", *SMALL, *steps)
    assert said.code == 0, said.err
    assert "60 vectors of about" in said.err
    assert "tokeniser: 3 different words, each of them often, so one token each" in said.err
    assert "Texts are read as written, capitals and punctuation included." in said.err
    assert "valid: All 6 vectors are used. They are drawn by line from " in said.err
    assert "word_error" in said.err
    assert (tmp_path / "run" / "report.html").exists()
    assert json.loads((tmp_path / "run" / "rows.json").read_text())["kind"] == "vector"


def test_each_file_has_a_line(clips: Path, run: Path, foveate: Any) -> None:
    files = [clips.parent / f"{number:03}.npy" for number in range(3)]
    together = foveate("transcribe", run, *files)
    assert together.code == 0, together.err
    assert len(together.out.splitlines()) == 3
    assert set(together.out.split()) <= set(WORDS)
    assert [foveate("transcribe", run, file).out for file in files] == together.out.splitlines(keepends=True)


def test_words_have_times_that_rise(clips: Path, run: Path, foveate: Any) -> None:
    said = foveate("transcribe", run, clips.parent / "000.npy", clips.parent / "001.npy", "--words-with-times")
    lines, ends, blank = said.out.splitlines(), 0.0, 0
    for line in lines:
        if not line:
            ends, blank = 0.0, blank + 1
            continue
        word, start, end = line.split("\t")
        assert word in WORDS
        assert ends <= float(start) < float(end)
        ends = float(end)
    assert blank == 2
    assert len(lines) > 2


@pytest.mark.parametrize("form", ["textgrid", "json"])
def test_a_format_of_one_recording_refuses_two(clips: Path, run: Path, foveate: Any, form: str) -> None:
    files = [clips.parent / f"{number:03}.npy" for number in range(2)]
    refused = foveate("transcribe", run, *files, "--format", form)
    assert (refused.code, refused.out) == (2, "")
    assert f"--format {form} writes one recording." in refused.err
    assert foveate("transcribe", run, files[0], "--format", form).code == 0


def test_a_run_is_scored_and_its_transcripts_are_saved(clips: Path, run: Path, tmp_path: Path, foveate: Any) -> None:
    said = foveate("evaluate", run, "--data", clips, "--save", tmp_path / "texts.txt", "--report", tmp_path / "a.html")
    assert said.code == 0, said.err
    assert [line.split(" = ")[0] for line in said.out.splitlines()] == [
        f"{name}|unit:{unit}|jiwer:4.0.0" for name, unit in (("WER", "word"), ("CER", "character"))
    ]
    assert "60 vectors in " in said.err
    assert " words: " in said.err
    assert len((tmp_path / "texts.txt").read_text().splitlines()) == 60
    assert "test WER" in (tmp_path / "a.html").read_text()
    table = json.loads(foveate("evaluate", run, "--data", clips, "--json", "--metrics", "sentence_error").out)
    assert set(table) == {"SER"}


def test_a_resumed_run_ends_with_the_same_bits(clips: Path, tmp_path: Path, foveate: Any) -> None:
    start = ("train", "transcribe", "--data", clips, *FEW, "--set", "train.schedule=constant", "--out")
    assert foveate(*start, tmp_path / "whole").code == 0
    assert foveate(*start, tmp_path / "part", "--set", "train.steps=3").code == 0
    assert foveate("resume", tmp_path / "part", "--set", "train.steps=6", *QUICK).code == 0
    whole, part = (
        load_file(tmp_path / name / "checkpoints" / "step-00000006" / "model.safetensors") for name in ("whole", "part")
    )
    assert whole.keys() == part.keys()
    assert all(torch.equal(whole[name], part[name]) for name in whole)


def test_python_transcribes_what_the_command_line_has_trained(clips: Path, run: Path) -> None:
    transcriber = Transcriber.load(run)
    things = list(transcriber.things([str(clips.parent / f"{number:03}.npy") for number in range(6)]))
    together = transcriber.transcribe(things)
    for number, thing in enumerate(things):
        (alone,) = transcriber.transcribe([thing])
        assert alone.text == together[number].text
        assert alone.words == together[number].words
        assert alone.log_probability == pytest.approx(together[number].log_probability, abs=1e-4)
        assert [word.label for word in alone.words] == alone.text.split()


def test_a_plan_is_made_for_recordings(clips: Path, foveate: Any) -> None:
    said = foveate("plan", "transcribe", "--data", clips, "--no-tune", *SMALL)
    assert said.code == 0, said.err
    assert "Recogniser: " in said.out
    assert "(Vectors(width=" in said.out
    assert "window(left=16, right=16)" in said.out


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("000.npy\t...\n" * 20, "clips.tsv:1: the text '...' of "),
        ("000.npy\tone\n", "clips.tsv has 1 example: too few to hold some out for validation."),
        ("000.npy\tone\n" * 19 + "none.npy\ttwo\n", "none.npy"),
        ("", "clips.tsv has no "),
    ],
)
def test_bad_data_are_named(table: str, message: str, tmp_path: Path, foveate: Any) -> None:
    spelled(tmp_path, 1)
    (tmp_path / "clips.tsv").write_text(table)
    said = foveate("train", "transcribe", "--data", tmp_path / "clips.tsv", "--out", tmp_path / "run", *FEW)
    assert said.code in (2, 3)
    assert message in said.err
    assert not (tmp_path / "run" / "config.json").exists()


def test_a_recording_of_another_width_is_refused(run: Path, tmp_path: Path, foveate: Any) -> None:
    np.save(tmp_path / "wide.npy", np.ones((30, 99), np.float32))
    said = foveate("transcribe", run, tmp_path / "wide.npy")
    assert (said.code, "has vectors of 99 numbers" in said.err) == (3, True), said.err
    with pytest.raises(DataError, match="there is no such file"):
        Transcriber.load(run).things([str(tmp_path / "none.npy")]).__next__()
