"""The way of a user with links between words: train with them, score by them, keep them."""

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

SIZES = ("--set", "model=transformer", "--set", "model.block.model_dim=16", "--set", "model.block.num_heads=2")
SIZES += ("--set", "model.encoder_layers=1", "--set", "model.decoder_layers=1", "--set", "guide.when=consuming")
SIZES += ("--set", "model.block.feedforward_dim=16", "--set", "data.max_tokens=256", "--set", "train.steps=30")
QUIET = ("--no-tune", "--threads", "1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Words of the target are those of the source in capitals, backwards."""
    folder, generator = tmp_path_factory.mktemp("linked"), random.Random(0)
    lines = [generator.choices("abcdefg", k=generator.randint(2, 5)) for _ in range(120)]
    reverse = [f"{' '.join(words)}\t{' '.join(reversed(words)).upper()}\n" for words in lines]
    links = [" ".join(f"{i}-{len(words) - 1 - i}" for i in range(len(words))) + "\n" for words in lines]
    (folder / "pairs.tsv").write_text("".join(reverse))
    (folder / "links").write_text("".join(links))
    return folder


@pytest.fixture(scope="module")
def run(folder: Path, foveate: Any) -> Path:
    files = ("--source", folder / "pairs.tsv", "--links", folder / "links", "--out", folder / "run")
    said = foveate("train", "translate", *files, *SIZES, *QUIET)
    assert said.code == 0, said.err
    return folder / "run"


def scored(foveate: Any, run: Path, *options: object) -> Any:
    files = ("--source", run.parent / "pairs.tsv", "--gold", run.parent / "links")
    return foveate("evaluate", run, *files, "--no-tune", *options)


def test_validation_says_how_well_the_links_are_followed(run: Path) -> None:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["alignment"] > 0


def test_empty_links_cannot_measure_alignment_and_are_refused_before_training(
    folder: Path, foveate: Any, tmp_path: Path
) -> None:
    (tmp_path / "links").write_text("\n" * 120)
    files = ("--source", folder / "pairs.tsv", "--links", tmp_path / "links", "--out", tmp_path / "run")
    said = foveate("train", "translate", *files, *SIZES, *QUIET, "--set", "train.metric=alignment")
    assert said.code == 2
    assert "train.metric cannot be alignment: there are no links of validation pairs. Give --links" in said.err
    assert not (tmp_path / "run/config.json").exists()


def test_a_run_is_scored_by_links(run: Path, foveate: Any) -> None:
    said = scored(foveate, run, "--when", "consuming")
    assert re.fullmatch(r"AER\|links:sure = [\d.]+\nprecision\|.* = [\d.]+\nrecall\|.* = [\d.]+\n", said.out)


def test_every_head_has_a_line_the_best_first(run: Path, foveate: Any) -> None:
    lines = scored(foveate, run, "--per-head").out.splitlines()
    assert len(lines) == 6
    errors = [float(line.split("\t")[1].removeprefix("AER ")) for line in lines]
    assert errors == sorted(errors)
    assert len(json.loads(scored(foveate, run, "--per-head", "--json").out)) == 6


def test_the_links_that_are_kept_score_the_same(run: Path, foveate: Any, tmp_path: Path) -> None:
    said = scored(foveate, run, "--head", "1", "--save", tmp_path / "kept")
    again = foveate("evaluate", "--links", tmp_path / "kept", "--gold", run.parent / "links")
    assert said.out.splitlines()[0] == again.out.splitlines()[0]


def test_a_gold_link_outside_of_its_sentence_is_refused(run: Path, foveate: Any, tmp_path: Path) -> None:
    lines = (run.parent / "links").read_text().splitlines()
    (tmp_path / "far").write_text("\n".join([*lines[:2], f"{lines[2]} 9?99", *lines[3:]]) + "\n")
    said = foveate("evaluate", run, "--source", run.parent / "pairs.tsv", "--gold", tmp_path / "far", "--no-tune")
    assert said.code == 3
    assert f"{tmp_path}/far:3: the link 9-99 names source word 9, but there are " in said.err


def test_gold_for_other_sentences_is_refused(run: Path, foveate: Any, tmp_path: Path) -> None:
    (tmp_path / "short").write_text("0-0\n")
    said = foveate("evaluate", run, "--source", run.parent / "pairs.tsv", "--gold", tmp_path / "short", "--no-tune")
    assert said.code == 3
    assert "short has 1 line, but " in said.err
    assert "pairs.tsv has 120 pairs to align." in said.err
    assert foveate("evaluate", run, "--gold", tmp_path / "short").code == 2


def test_links_that_cannot_be_leave_nothing_to_resume(folder: Path, foveate: Any, tmp_path: Path) -> None:
    (tmp_path / "links").write_text("9-9\n" * 120)
    files = ("--source", folder / "pairs.tsv", "--links", tmp_path / "links", "--out", tmp_path / "run")
    said = foveate("train", "translate", *files, *SIZES, *QUIET)
    assert said.code == 3
    assert "a link" in said.err or "the link 9-9 names source word 9" in said.err
    assert not (tmp_path / "run" / "config.json").exists()


@pytest.mark.parametrize("option", [("--report", "page.html"), ("--metrics", "bleu")])
def test_what_links_do_not_have_is_refused_and_not_passed_over(
    run: Path, foveate: Any, tmp_path: Path, option: tuple[str, str]
) -> None:
    said = scored(foveate, run, option[0], tmp_path / option[1])
    assert said.code == 2
    assert f"{option[0]} is for translations, and --gold scores the attention." in said.err
