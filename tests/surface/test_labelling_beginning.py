"""The way of a user from a text without labels to labels: fill gaps first, then tag and classify."""

import json
from pathlib import Path
from typing import Any

import pytest

SMALL = ("--no-tune", "--threads", "1")
STEPS = ("--set", "train.steps=4", "--set", "train.validate_every=2", "--set", "train.save_every=2")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory, foveate: Any) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    (folder / "text.txt").write_text("red fish swim\nblue birds sing\n" * 20)
    (folder / "bert.toml").write_text(
        'task = "masked_language_model"\n'
        "data = { block_length = 16, max_tokens = 64 }\n"
        'tokeniser = "word"\n'
        "[model]\nnum_layers = 1\nmax_length = 32\n"
        "block = { model_dim = 8, num_heads = 2, feedforward_dim = 12 }\n"
    )
    said = foveate(
        "train",
        "masked_language_model",
        folder / "bert.toml",
        "--text",
        folder / "text.txt",
        "--out",
        folder / "run",
        *SMALL,
        *STEPS,
    )
    assert said.code == 0, said.err
    return folder / "run"


@pytest.mark.parametrize(
    ("task", "lines", "text"),
    [
        ("tag", "red/A fish/N swim/V\nblue/A birds/N sing/V\n", "red birds"),
        ("classify", "red fish swim\tfish\nblue birds sing\tbirds\n", "red birds"),
    ],
)
def test_a_run_begins_with_another_and_needs_it_no_more(
    task: str, lines: str, text: str, bert: Path, tmp_path: Path, foveate: Any
) -> None:
    (tmp_path / "data").write_text(lines * 10)
    settings = (*SMALL, *STEPS, "--set", f"initialise_from={bert}")
    said = foveate("train", task, "--data", tmp_path / "data", "--out", tmp_path / "run", *settings)
    assert said.code == 0, said.err
    saved = json.loads((tmp_path / "run/config.json").read_text())["config"]
    assert saved["model"]["encoder"]["kind"] == "bert"
    assert saved["model"]["encoder"]["block"]["model_dim"] == 8
    assert f"begun with the encoder of {bert}" in (tmp_path / "run/report.html").read_text()
    moved = bert.rename(bert.with_name("moved"))
    try:
        assert foveate("resume", tmp_path / "run", *SMALL).code == 0
        assert foveate(task, tmp_path / "run", text, "--no-tune").out.strip()
    finally:
        moved.rename(bert)


def test_a_comparison_has_the_sizes_of_what_it_begins_with(bert: Path, tmp_path: Path, foveate: Any) -> None:
    (tmp_path / "data").write_text("red/A fish/N swim/V\nblue/A birds/N sing/V\n" * 10)
    words = ("--set", f"initialise_from={bert}", "--vary", "model.dropout=0.1,0.2", "--seeds", "1")
    settings = (*SMALL, *STEPS, "--budget", "steps=2", "--out", tmp_path / "out")
    said = foveate("compare", "tag", "--data", tmp_path / "data", *words, *settings)
    assert said.code == 0, said.err
    for config in (tmp_path / "out/cells").glob("*/seed-0/config.json"):
        encoder = json.loads(config.read_text())["config"]["model"]["encoder"]
        assert (encoder["kind"], encoder["block"]["model_dim"]) == ("bert", 8)


def test_pairs_are_read_from_gaps_to_labels(tmp_path: Path, foveate: Any) -> None:
    (tmp_path / "text.tsv").write_text("red fish\tfish swim\nblue birds\tbirds sing\nred birds\n" * 10)
    (tmp_path / "pairs.tsv").write_text("yes\tred fish\tfish swim\nno\tred fish\tbirds sing\n" * 10)
    model = ("model.num_layers=1", "model.block.model_dim=8", "model.block.num_heads=2", "model.max_length=16")
    settings = ("segments=[0, 1]", "tokeniser=word", "data.block_length=8", "data.max_tokens=64", *model)
    begin = ("train", "masked_language_model", "--text", tmp_path / "text.tsv")
    asked = (word for setting in settings for word in ("--set", setting))
    said = foveate(*begin, "--out", tmp_path / "bert", *SMALL, *STEPS, *asked)
    assert said.code == 0, said.err
    assert foveate("fill", tmp_path / "bert", "red ___\tfish swim", "--no-tune").out.count("\t") == 1
    settings = (f"initialise_from={tmp_path / 'bert'}", "data.columns=[1, 0]", "second_column=2")
    said = foveate(
        *("train", "classify", "--data", tmp_path / "pairs.tsv", "--out", tmp_path / "run", *SMALL, *STEPS),
        *(word for setting in settings for word in ("--set", setting)),
    )
    assert said.code == 0, said.err
    assert foveate("classify", tmp_path / "run", "red fish\tbirds sing", "--no-tune").out.strip() in ("yes", "no")
    said = foveate("evaluate", tmp_path / "run", "--data", tmp_path / "pairs.tsv", "--no-tune")
    assert said.code == 0
    assert "accuracy" in said.out
    said = foveate("classify", tmp_path / "run", "red fish", "--no-tune")
    assert (said.code, said.out) == (3, "")
    assert "Text 1 has 1 part with tabs between them, but this model reads two." in said.err
    said = foveate("classify", tmp_path / "run", "--no-tune", stdin=b"red fish\tbirds sing\n" * 600 + b"red fish\n")
    assert said.out.count("\n") == 512
    assert "Text 601 has 1 part" in said.err
    said = foveate("fill", tmp_path / "bert", "--no-tune", stdin=b"red ___\tfish swim\nred\t___\tfish\n")
    assert (said.code, said.out.count("\n")) == (3, 1)
    assert "Text 2: The text has 3 parts" in said.err
    said = foveate("fill", tmp_path / "bert", "red\t___\tfish", "--no-tune")
    assert "foveate fill: The text has 3 parts" in said.err
    (tmp_path / "text.tsv").write_text("a\tb\n" * 10 + "a\tb\tc\n")
    said = foveate(*begin, "--out", tmp_path / "other", "--set", "segments=[0, 1]", *SMALL)
    assert said.code == 3
    assert "text.tsv:11: the line has 3 columns" in said.err


def test_a_folder_that_cannot_be_the_beginning_of_a_run_is_named(tmp_path: Path, foveate: Any) -> None:
    (tmp_path / "data").write_text("a/V b/C\n" * 20)
    said = foveate(
        *("train", "tag", "--data", tmp_path / "data", "--out", tmp_path / "run", *SMALL),
        *("--set", f"initialise_from={tmp_path}"),
    )
    assert said.code == 3
    assert f"{tmp_path} is not a run folder" in said.err
    assert not (tmp_path / "run" / "config.json").exists()
