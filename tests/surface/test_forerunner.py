"""A translator goes on from another one's weights, also from the one that comes with foveate, on data of its own."""

import json
import re
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from foveate.errors import FoveateError
from foveate.models import LuongConfig, TransformerConfig
from foveate.storage.checkpoint import load_weights
from foveate.storage.run import create_run, read_run
from foveate.tasks.translate.task import DataConfig, Forerunner, TranslateConfig, TranslateTask

SET = "--set"
DISHES = {"the soup": "la soupe", "a salad": "une salade", "two eggs": "deux œufs", "the fish": "le poisson"}
QUICK = ("--no-tune", "--threads", "1")


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """What a waiter says, which the shipped model has not met."""
    pairs = [
        (f"Table {number} would like {one} and then {other}.", f"La table {number} voudrait {deux} puis {autre}.")
        for number, (one, deux), (other, autre) in product(range(1, 5), DISHES.items(), DISHES.items())
    ]
    path = tmp_path / "orders.tsv"
    path.write_text("".join(f"{english}\t{french}\n" for english, french in pairs), encoding="utf-8")
    return path


def test_the_shipped_translator_learns_a_domain_in_some_steps(foveate: Any, orders: Path, tmp_path: Path) -> None:
    run = tmp_path / "mine"
    steps = (
        SET,
        "train.steps=12",
        SET,
        "train.validate_every=6",
        SET,
        "data.held_out=6",
        SET,
        "train.schedule.warmup=2",
    )
    words = ("train", "translate", "--source", orders, SET, "initialise_from=en-fr", "--out", run, *steps, *QUICK)
    said = foveate(*words)
    assert said.code == 0, said.err
    assert "model: as in en-fr, which this begins with" in said.err
    saved, shipped = read_run(run), Forerunner.load("en-fr")
    assert saved.config["train"]["learning_rate"] == 2e-4
    assert saved.tokenisers["source.tokeniser.json"] == shipped.source.digest()
    config = TranslateConfig(
        data=DataConfig(source=str(orders), held_out=6), initialise_from="en-fr", label_smoothing=0.1
    )
    task, _ = TranslateTask.prepare(config, tmp_path / "before")
    first = dict(task.model.state_dict())
    assert all(torch.equal(value, first[name]) for name, value in shipped.weights.items())
    with torch.no_grad():
        before = task.model.eval() and task.validate()["loss"]
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = [row["loss"] for row in rows if row["kind"] == "valid"]
    assert max(losses) < 0.7 * before, "the first steps may learn all that there is"
    assert foveate("translate", run, "Table 2 would like the soup and then a salad.", *QUICK).code == 0


def test_a_run_begins_with_another_one_and_does_not_need_it_any_more(
    foveate: Any, trained: Path, corpus: Path, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    other, run = tmp_path / "other", tmp_path / "run"
    shutil.copytree(trained, other)
    few = (SET, "train.steps=2", SET, "train.validate_every=1", SET, "train.save_every=1")
    words = ("train", "translate", "--source", corpus / "pairs.tsv", SET, f"initialise_from={other}", *few, *QUICK)
    said = foveate(*words, "--out", run)
    assert said.code == 0, said.err
    shutil.rmtree(other)
    said = foveate("resume", run, SET, "train.steps=3", *QUICK)
    assert (said.code, "all 3 steps are done" in said.err) == (0, True), said.err
    initial, ours = load_weights(run / "initial")[0], load_weights(trained)[0]
    assert all(torch.equal(value, ours[name]) for name, value in initial.items())
    assert read_run(run).config["model"]["hidden_dim"] == 16


def test_what_has_no_weights_may_be_set_otherwise(foveate: Any, trained: Path, corpus: Path, tmp_path: Path) -> None:
    few = (SET, "train.steps=1", SET, "model.dropout=0.4", SET, "train.learning_rate=1e-5")
    words = ("train", "translate", "--source", corpus / "pairs.tsv", SET, f"initialise_from={trained}", *few, *QUICK)
    assert foveate(*words, "--out", tmp_path / "run").code == 0
    assert read_run(tmp_path / "run").config["model"]["dropout"] == 0.4
    said = foveate(*words, SET, "model.hidden_dim=24", "--out", tmp_path / "wider")
    assert said.code in (2, 3), said.err
    assert "initial" in said.err
    assert "shape" in said.err or "24" in said.err


def test_more_layers_begin_by_passing_on(foveate: Any, orders: Path, tmp_path: Path) -> None:
    shipped = Forerunner.load("en-fr")
    assert isinstance(shipped.config.model, TransformerConfig)
    layers, run = shipped.config.model.encoder_layers, tmp_path / "run"
    few = (SET, "train.steps=1", SET, "data.held_out=6", SET, "train.schedule.warmup=0")
    words = ("train", "translate", "--source", orders, SET, "initialise_from=en-fr", *few, *QUICK)
    said = foveate(*words, SET, f"model.encoder_layers={layers + 2}", "--out", run)
    assert said.code == 0, said.err
    assert f"model: as in en-fr, which this begins with; as set, model.encoder_layers = {layers + 2}" in said.err
    initial = load_weights(run / "initial")[0]
    assert {name.split(".")[1] for name in initial.keys() - shipped.weights.keys()} == {str(layers), str(layers + 1)}
    assert not initial[f"encoder.{layers}.feedforward.contract.weight"].any()
    said = foveate(*words, SET, f"model.encoder_layers={layers - 1}", "--out", tmp_path / "fewer")
    assert said.code in (2, 3), said.err
    assert f"encoder.{layers - 1}" in said.err


def test_another_language_begins_with_the_weights_of_the_first(foveate: Any, orders: Path, tmp_path: Path) -> None:
    """Persian is written with other letters, English words keep their vectors."""
    dishes = dict(zip(DISHES.values(), ("سوپ", "سالاد", "دو تخم مرغ", "ماهی"), strict=True))
    persian, run = tmp_path / "persian.tsv", tmp_path / "fa"
    text = orders.read_text(encoding="utf-8")
    for french, word in dishes.items():
        text = text.replace(french, word)
    text = text.replace("La table", "میز").replace("voudrait", "می‌خواهد").replace("puis", "و سپس")
    persian.write_text("".join(f"en-fa\t{line}\n" for line in text.splitlines()), encoding="utf-8")
    settings = ("initialise_from=en-fr", "new_vocabulary=true", "data.direction_column=0", "train.steps=30")
    more = ("train.validate_every=3", "data.held_out=6", "train.schedule.warmup=5")
    words = [word for setting in (*settings, *more, "source_tokeniser.vocab_size=450") for word in (SET, setting)]
    said = foveate("train", "translate", "--source", persian, *words, "--out", run, *QUICK)
    assert said.code == 0, said.err
    assert "model: as in en-fr, which this begins with" in said.err
    assert "source: as set, source_tokeniser.vocab_size = 450" in said.err
    assert "target: " not in said.err, "both sides share the vocabulary"
    kept = re.search(r"target vocabulary: Of (\d+) tokens, (\d+) keep their vectors, .* (\d+) are new", said.err)
    assert kept, said.err
    size, same, new = map(int, kept.groups())
    assert size > same > 256 > new > 10  # at least the bytes are the same, and Persian letters are new
    initial, shipped, task = load_weights(run / "initial")[0], Forerunner.load("en-fr"), Forerunner.load(run)
    assert len(initial["target_embedding.weight"]) == size == task.target.vocab_size
    rows, earlier = initial["target_embedding.weight"], shipped.weights["target_embedding.weight"]
    there, here = (each.pieces(range(each.vocab_size)) for each in (shipped.source, task.source))
    assert torch.equal(rows[here.index("▁would")], earlier[there.index("▁would")])
    others = [name for name in initial if name != "target_embedding.weight"]
    assert all(torch.equal(initial[name], shipped.weights[name]) for name in others)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = [row["loss"] for row in rows if row["kind"] == "valid"]
    assert losses[-1] < 0.5 * losses[0]
    said = foveate("translate", run, "Table 2 would like the soup and then a salad.", "--to", "fa", *QUICK)
    assert said.code == 0, said.err
    assert "میز" in said.out


def test_a_new_vocabulary_needs_weights_to_begin_with(
    foveate: Any, trained: Path, corpus: Path, tmp_path: Path
) -> None:
    words = ("train", "translate", "--source", corpus / "pairs.tsv", "--out", tmp_path / "run", *QUICK)
    said = foveate(*words, SET, "new_vocabulary=true")
    assert (said.code, "set initialise_from as well" in said.err) == (2, True), said.err
    assert not (tmp_path / "run").exists()


def test_a_new_vocabulary_has_vectors_of_the_same_width(
    foveate: Any, trained: Path, corpus: Path, tmp_path: Path
) -> None:
    words = ("train", "translate", "--source", corpus / "pairs.tsv", "--out", tmp_path / "run", *QUICK)
    wider = (SET, f"initialise_from={trained}", SET, "new_vocabulary=true", SET, "model.embedding_dim=24")
    said = foveate(*words, *wider)
    assert (said.code, "its width cannot change" in said.err) == (2, True), said.err


def test_models_that_a_run_cannot_begin_with_are_refused_in_words(foveate: Any, corpus: Path, tmp_path: Path) -> None:
    create_run(tmp_path / "tagger", "tag", {})
    (tmp_path / "marian").mkdir()
    (tmp_path / "marian" / "config.json").write_text('{"model_type": "marian"}')
    for name, code, sentence in (
        (tmp_path / "tagger", 2, "is a run of the task tag, but this command is for runs of translate"),
        (tmp_path / "marian", 2, "is a folder of Hugging Face, whose vocabulary a run cannot take over"),
        (tmp_path / "nowhere", 3, "there is no such folder"),
        ("en-de", 3, "neither a folder here nor a model that comes with foveate"),
    ):
        words = ("--source", corpus / "pairs.tsv", SET, f"initialise_from={name}", "--out", tmp_path / "run", *QUICK)
        said = foveate("train", "translate", *words)
        assert (said.code, sentence in said.err) == (code, True), said.err


def test_a_model_of_another_kind_does_not_fit(trained: Path, corpus: Path, tmp_path: Path) -> None:
    data = DataConfig(source=str(corpus / "pairs.tsv"))
    config = TranslateConfig(data=data, initialise_from=str(trained))
    with pytest.raises(FoveateError, match="initial"):
        TranslateTask.prepare(replace(config, model=LuongConfig(hidden_dim=8)), tmp_path / "run")
