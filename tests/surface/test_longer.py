"""A run goes on with more steps or more time, also after its end; anything else that would change it is refused."""

import json
import re
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from foveate.cli.training import outlook
from foveate.storage.checkpoint import Checkpoints, load_weights
from foveate.storage.manifest import sealed_folder
from foveate.storage.run import begin_run, read_run
from foveate.train import TrainConfig
from foveate.train.resumption import exclusive

SET = "--set"
STEPS = (SET, "train.validate_every=20", SET, "train.save_every=20")
QUICK = ("--no-tune", "--threads", "1")


@pytest.fixture
def short(recipe: tuple[str, ...], foveate: Any, tmp_path: Path) -> Path:
    """A run of 40 steps that has ended."""
    run = tmp_path / "short"
    said = foveate(*recipe, *STEPS, SET, "train.steps=40", "--out", run)
    assert said.code == 0, said.err
    return run


def test_a_run_that_is_made_longer_is_the_one_that_was_long_from_the_start(
    short: Path, recipe: tuple[str, ...], foveate: Any, tmp_path: Path
) -> None:
    whole = tmp_path / "whole"
    assert foveate(*recipe, *STEPS, SET, "train.steps=80", "--out", whole).code == 0
    said = foveate("resume", short, SET, "train.steps=80", *QUICK)
    assert said.code == 0, said.err
    assert "Changed since the checkpoint: train.steps: 40 → 80." in said.err
    assert "Done: all 80 steps are done" in said.err
    assert "learning rate changes from" not in said.err, "this schedule does not know how many steps there are"
    ours, theirs = load_weights(short)[0], load_weights(whole)[0]
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


def test_the_run_keeps_what_was_changed_and_goes_on_with_it(short: Path, foveate: Any) -> None:
    assert foveate("resume", short, SET, "train.steps=60", SET, "train.max_minutes=99", *QUICK).code == 0
    saved = read_run(short)
    assert saved.config["train"]["steps"] == 60
    assert saved.changes == ({"train.steps": "40 → 60", "train.max_minutes": "None → 99.0"},)
    shutil.rmtree(short / "checkpoints" / "step-00000060")  # as if it had been stopped before its first checkpoint
    said = foveate("resume", short, *QUICK)
    assert (said.code, "all 60 steps are done" in said.err) == (0, True), said.err


def test_a_cosine_spans_all_steps_and_the_new_rate_is_printed(
    recipe: tuple[str, ...], foveate: Any, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    cosine = (SET, "train.schedule=cosine", SET, "train.steps=20")
    assert foveate(*recipe, *STEPS, *cosine, "--out", run).code == 0
    said = foveate("resume", run, SET, "train.steps=40", *QUICK)
    assert "The cosine schedule now spans all 40 steps: the learning rate changes from 0.0e+00 to 4.6e-04." in said.err
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    rates = {row["step"]: row["learning_rate"] for row in rows if row["kind"] == "train"}
    assert rates[20] == 0 < rates[21] > rates[40] == 0


def test_a_run_whose_minutes_are_used_up_goes_on_with_more(
    recipe: tuple[str, ...], foveate: Any, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    said = foveate(*recipe, *STEPS, SET, "train.steps=40", SET, "train.max_minutes=1e-9", "--out", run)
    assert (said.code, "its time is used up" in said.err) == (0, True), said.err
    again = foveate("resume", run, *QUICK)
    shown = re.search(r"To train for longer:  foveate resume \S+ (--set train.max_minutes=\S+)", again.err)
    assert shown, again.err
    said = foveate("resume", run, SET, "train.max_minutes=none", *QUICK)
    assert (said.code, "Done: all 40 steps are done" in said.err) == (0, True), said.err


def spend(run: Path, seconds: float) -> None:
    """Lets the newest checkpoint say that the run has taken so long."""
    checkpoint = sorted((run / "checkpoints").glob("step-*"))[-1]
    state = json.loads((checkpoint / "state.json").read_text())
    files = {path.name: path.read_bytes() for path in checkpoint.iterdir() if path.name != "MANIFEST"}
    files["state.json"] = json.dumps({**state, "seconds": seconds}).encode()
    with sealed_folder(checkpoint) as folder:
        for name, content in files.items():
            (folder / name).write_bytes(content)


def test_minutes_count_over_the_whole_run(short: Path, foveate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foveate.cli.training.step_seconds", lambda task, config: 1.0)
    monkeypatch.setattr(
        "foveate.cli.training.total_seconds", lambda task, config, seconds, done: float(config.steps - done)
    )
    spend(short, 60.0)
    before = (short / "config.json").read_bytes()
    for minutes in ("0.5", "1"):
        refused = foveate("resume", short, SET, f"train.max_minutes={minutes}", *QUICK)
        expected = f"train.max_minutes = {minutes} counts the minutes of the whole run, resumed parts included. {short}"
        assert refused.code == 2
        assert f"{expected} has used 1.0 minutes already. Name more, or end it where it is" in refused.err
        assert "--set train.steps=40." in refused.err
    assert (short / "config.json").read_bytes() == before
    task, config = SimpleNamespace(), TrainConfig(steps=640, max_minutes=2.0)
    assert list(outlook(task, config, 40, used=60.0)) == [
        "Estimated time: about 10 minutes for 600 steps of 1.0 s. train.max_minutes = 2 for the whole run, with 1.0 "
        "minutes used already, ends it before, at about step 100."
    ]
    (spent,) = outlook(task, TrainConfig(steps=640, max_minutes=1.0), 40, used=60.0)
    assert spent.endswith("1.0 minutes are used already, so there is no time left to train in.")


def test_the_minutes_used_are_those_of_the_newest_sound_checkpoint(
    short: Path, foveate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spend(short, 600.0)
    said = foveate("resume", short, SET, "train.steps=60", SET, "train.max_minutes=10.0001", *QUICK)
    assert (said.code, "train.max_minutes = 10.0001 for the whole run, with 10.0 minutes used" in said.err) == (0, True)


def test_a_run_that_goes_on_and_is_stopped_is_used_with_its_later_best(
    short: Path, foveate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Checkpoints.save

    def stopped(self: Checkpoints, step: int, **tensors: Any) -> None:
        made(self, step, **tensors)
        if step == 60:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Checkpoints, "save", stopped)
    said = foveate("resume", short, SET, "train.steps=200", *QUICK)
    assert said.code == 130, said.err
    assert f"report.html tells of the training before; `foveate report {short}` writes it anew." in said.err
    best = json.loads((short / "best.json").read_text())["step"]
    assert best == 60
    assert load_weights(short)[1] == "checkpoint of step 60 (the run is not finished)"
    assert foveate("report", short).code == 0
    assert "those of an unfinished run" in (short / "report.html").read_text()


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (
            "train.learning_rate=1",
            "A run keeps what it was begun with, so train.learning_rate (0.001 → 1.0) cannot change",
        ),
        (
            "model.hidden_dim=32",
            "so model.hidden_dim (16 → 32) cannot change. Changeable are train.steps, train.patience",
        ),
        ("seed=3", "--set initialise_from="),
        ("train.steps=10", "has made 40 steps already, so train.steps = 10 is too few"),
        ("train.step=100", "train.step is not a setting. Did you mean 'steps'?"),
        ("train.steps=none", "train.steps"),
    ],
)
def test_what_would_make_it_another_run_is_refused(short: Path, foveate: Any, setting: str, said: str) -> None:
    before = (short / "config.json").read_bytes()
    refused = foveate("resume", short, SET, setting, *QUICK)
    assert (refused.code, said in refused.err) == (2, True), refused.err
    assert (short / "config.json").read_bytes() == before


def test_only_a_translator_is_told_to_begin_with_its_own_weights(tmp_path: Path, foveate: Any) -> None:
    runs = Path(__file__).parents[1] / "golden/version_0_1/runs"
    for name in ("translate_luong", "language_model_gpt"):
        shutil.copytree(runs / name, tmp_path / name)
        refused = foveate("resume", tmp_path / name, SET, "seed=3", *QUICK)
        assert refused.code == 2
        assert "For anything else begin another run" in refused.err
        assert ("initialise_from" in refused.err) == (name == "translate_luong")


def test_a_change_that_nobody_asked_for_is_still_refused(short: Path, foveate: Any) -> None:
    path = short / "config.json"
    path.write_text(path.read_text().replace('"steps": 40', '"steps": 80'))
    said = foveate("resume", short, *QUICK)
    assert (said.code, "train.steps: 40 → 80" in said.err) == (2, True), said.err


def test_patience_that_has_ended_a_run_can_be_lifted(recipe: tuple[str, ...], foveate: Any, tmp_path: Path) -> None:
    run = tmp_path / "run"
    stuck = (SET, "train.learning_rate=1e-30", SET, "train.patience=1", SET, "train.steps=80")
    said = foveate(*recipe, *STEPS, *stuck, "--out", run)
    assert (said.code, "no better loss in 1 validation" in said.err) == (0, True), said.err
    again = foveate("resume", run, *QUICK)
    assert "--set train.patience=none" in again.err
    said = foveate("resume", run, SET, "train.patience=none", *QUICK)
    assert (said.code, "all 80 steps are done" in said.err) == (0, True), said.err


@pytest.mark.parametrize("schedule", ["constant", "plateau"])
def test_a_run_that_ended_between_two_validations_is_made_longer_to_the_bit(
    schedule: str, recipe: tuple[str, ...], foveate: Any, tmp_path: Path
) -> None:
    rate = (SET, f"train.schedule={schedule}", SET, "train.learning_rate=0.1")
    patience = (SET, "train.schedule.patience=1") if schedule == "plateau" else ()
    for run, steps in (("short", 43), ("whole", 80)):
        said = foveate(*recipe, *STEPS, *rate, *patience, SET, f"train.steps={steps}", "--out", tmp_path / run)
        assert said.code == 0, said.err
    said = foveate("resume", tmp_path / "short", SET, "train.steps=80", *QUICK)
    assert said.code == 0, said.err
    (ours, words), (theirs, expected) = (load_weights(tmp_path / run) for run in ("short", "whole"))
    assert words == expected
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())
    rates = [
        {row["step"]: row["learning_rate"] for row in rows(tmp_path / run) if row["kind"] == "train"}
        for run in ("short", "whole")
    ]
    assert rates[0] == rates[1]


def test_a_run_that_stopped_before_its_first_step_goes_on(
    recipe: tuple[str, ...], foveate: Any, tmp_path: Path
) -> None:
    settings = (SET, "train.schedule=inverse_square_root", SET, "train.steps=20")
    said = foveate(*recipe, *STEPS, *settings, SET, "train.max_minutes=1e-9", "--out", tmp_path / "run")
    assert (said.code, "its time is used up" in said.err) == (0, True), said.err
    said = foveate("resume", tmp_path / "run", SET, "train.max_minutes=none", SET, "train.steps=40", *QUICK)
    assert (said.code, "all 40 steps are done" in said.err) == (0, True), said.err


def test_a_folder_that_another_process_prepares_is_left_alone(
    recipe: tuple[str, ...], foveate: Any, tmp_path: Path
) -> None:
    begin_run(tmp_path)
    with exclusive(tmp_path):
        said = foveate(*recipe, "--out", tmp_path)
    assert (said.code, "Another process" in said.err) == (2, True), said.err
    assert all(path.name.startswith(".") for path in tmp_path.iterdir())


def test_a_validation_pair_that_no_batch_holds_is_named_before_the_run_begins(
    recipe: tuple[str, ...], foveate: Any, tmp_path: Path
) -> None:
    (tmp_path / "valid.tsv").write_text("abc\tcba\n" + f"{'a' * 150}\t{'a' * 150}\n")
    words = (*recipe, "--valid-source", tmp_path / "valid.tsv", "--out", tmp_path / "run", "--quiet")
    said = foveate(*words)
    assert said.code == 3
    assert "The validation data: The pair of line 2 has 15" in said.err
    assert not (tmp_path / "run/config.json").exists()
    said = foveate(*words, SET, "data.max_tokens=512", SET, "train.steps=2")
    assert said.code == 0, said.err


def test_the_checkpoint_with_the_highest_accuracy_is_the_best(
    recipe: tuple[str, ...], foveate: Any, tmp_path: Path
) -> None:
    words = (SET, "train.metric=accuracy", SET, "train.validate_every=10", SET, "train.learning_rate=0.05")
    said = foveate(*recipe, *words, SET, "train.steps=60", SET, "train.schedule.warmup=5", "--out", tmp_path / "run")
    assert said.code == 0, said.err
    values = {row["step"]: row["accuracy"] for row in rows(tmp_path / "run") if row["kind"] == "valid"}
    assert min(values.values()) < max(values.values())
    best = json.loads((tmp_path / "run/best.json").read_text())
    assert best["metrics"]["accuracy"] == values[best["step"]] == max(values.values())


def rows(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
