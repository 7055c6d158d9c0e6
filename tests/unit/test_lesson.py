"""A translator trained on a list of pairs: what the command line makes of files."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foveate import train_translator
from foveate.errors import DataError, UsageError
from foveate.storage.run import read_run
from foveate.tasks.translate.use import Translator

PAIRS = [(word, word[::-1]) for word in ("ab", "abc", "bca", "cab", "ca", "a b", "bb")] * 6
TINY: dict[str, Any] = {
    "train.steps": 3,
    "model.hidden_dim": 8,
    "model.maxout_dim": 8,
    "model.embedding_dim": 8,
    "train.clip_norm": None,
}


def test_a_list_of_pairs_is_trained_on(tmp_path: Path) -> None:
    notes: list[str] = []
    translator = train_translator(PAIRS, tmp_path / "run", settings=TINY, note=notes.append)
    assert len(translator.translate(["ab", "ca"])) == 2
    assert "42 pairs" in notes[0]
    assert "train: All 38 pairs are used." in notes
    saved = read_run(tmp_path / "run")
    assert (saved.config["train"]["steps"], saved.config["train"]["clip_norm"]) == (3, None)
    assert Translator.load(tmp_path / "run").translate(["ab"])[0].text == translator.translate(["ab"])[0].text


def test_settings_in_tables_keep_none_and_take_paths_and_numbers_of_numpy(tmp_path: Path) -> None:
    settings = {**TINY, "train": {"clip_norm": None, "steps": np.int64(2)}, "decode": {"length_penalty": None}}
    del settings["train.clip_norm"], settings["train.steps"]
    train_translator(PAIRS, tmp_path / "run", settings=settings | {"train.learning_rate": np.float64(1e-3)})
    config = read_run(tmp_path / "run").config
    assert (config["train"]["clip_norm"], config["decode"]["length_penalty"]) == (None, None)
    assert (config["train"]["steps"], config["train"]["learning_rate"]) == (2, 1e-3)
    train_translator(PAIRS, tmp_path / "next", settings={"initialise_from": tmp_path / "run", "train.steps": 1})
    with pytest.raises(UsageError, match="is a complex"):
        train_translator(PAIRS, tmp_path / "other", settings={"train.steps": 1j})


def test_its_run_folder_is_moved_and_gone_on_with_like_any_other(tmp_path: Path) -> None:
    train_translator(iter(PAIRS), tmp_path / "run", settings=TINY, valid_pairs=[("ab", "ba"), ("bc", "cb")])
    shutil.move(tmp_path / "run", tmp_path / "moved")
    settings = {"initialise_from": str(tmp_path / "moved"), "train.steps": 1}
    translator = train_translator(PAIRS, tmp_path / "next", settings=settings)
    assert read_run(tmp_path / "next").config["model"]["hidden_dim"] == 8
    assert translator.translate(["ab"])


def test_another_kind_of_model_is_set_as_on_the_command_line(tmp_path: Path) -> None:
    sizes = {"model.block.model_dim": 16, "model.block.num_heads": 2, "model.block.feedforward_dim": 16}
    for number, kind in enumerate(({"model.kind": "transformer"}, {"model": "transformer"})):
        settings = {**kind, **sizes, "model.encoder_layers": 1, "model.decoder_layers": 1, "train.steps": 2}
        train_translator(PAIRS, tmp_path / str(number), settings=settings)
        model = read_run(tmp_path / str(number)).config["model"]
        assert (model["kind"], model["block"]["model_dim"]) == ("transformer", 16)


def test_a_wrong_pair_of_lines_is_named(tmp_path: Path) -> None:
    for pairs, message in (
        ([*PAIRS, ("a\nb", "c")], r"Pair 42 \(counted from 0\) has a line break"),
        ([("a", "b"), "ab"], r"Pair 1 \(counted from 0\) is 'ab'"),
        ([("a", "b", "c")], "Give a source text and a target text"),
        (PAIRS[:5], "5 pairs: too few to hold some out"),
        ([], "There are no pairs"),
    ):
        with pytest.raises(DataError, match=message):
            train_translator(pairs, tmp_path / "run", settings=TINY)
    with pytest.raises(UsageError, match="Did you mean"):
        train_translator(PAIRS, tmp_path / "run", settings={"train.step": 3})
    with pytest.raises(UsageError, match="is not empty"):
        train_translator(PAIRS, tmp_path, settings=TINY)
