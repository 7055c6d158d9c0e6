import json
import math
import shutil
import signal
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from foveate.errors import DataError, UsageError
from foveate.storage.checkpoint import is_finished
from foveate.train import Constant, Loss, Plateau, Trainable, TrainConfig, fit, load_weights
from foveate.train.noise import noise_seed
from foveate.train.sharing import require_shareable
from foveate.train.world import World

CONFIG = TrainConfig(
    steps=6, schedule=Constant(), learning_rate=0.05, validate_every=2, save_every=2, log_every=1, clip_norm=None
)


class Notes:
    """Collects what the loop says; `at` calls a function after an update."""

    def __init__(self, at: dict[int, Any] | None = None) -> None:
        self.at = at or {}
        self.sentences: list[str] = []
        self.rows: list[Mapping[str, Any]] = []

    def begin(self, step: int, steps: int, seconds: float | None) -> None: ...

    def advance(self, step: int, loss: float) -> None:
        if step in self.at:
            self.at[step]()

    def row(self, row: Mapping[str, Any]) -> None:
        self.rows.append(row)

    def note(self, sentence: str) -> None:
        self.sentences.append(sentence)

    tell = note

    def end(self) -> None: ...


def weights(task: Any) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in task.model.state_dict().items()}


def rows(folder: Path, kind: str) -> list[dict]:
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [row for row in rows if row["kind"] == kind]


def test_the_loop_equals_one_written_by_hand(line: Any, tmp_path: Path) -> None:
    task, hand = line(), line()
    groups: list[dict[str, Any]] = [
        {"params": [hand.model.weight]},
        {"params": [hand.model.bias], "weight_decay": 0.0},
    ]
    decay, betas, eps = CONFIG.weight_decay, CONFIG.betas, CONFIG.eps
    optimiser = torch.optim.AdamW(groups, lr=0.05, betas=betas, eps=eps, weight_decay=decay, fused=True)
    for step in range(6):
        loss = hand.loss(hand.batch(step))
        optimiser.zero_grad()
        (loss.total / loss.count).backward()
        nn.utils.clip_grad_norm_(hand.model.parameters(), 0.5)
        optimiser.step()
    fit(task, replace(CONFIG, clip_norm=0.5, average_of="last", validate_every=6), tmp_path)
    for name, tensor in weights(task).items():
        torch.testing.assert_close(tensor, hand.model.state_dict()[name], rtol=1e-5, atol=1e-6)


def test_accumulated_batches_make_the_update_of_one_big_batch(line: Any, tmp_path: Path) -> None:
    class Big(line):
        def batch(self, step: int) -> torch.Tensor:
            return torch.cat([super(Big, self).batch(3 * step + part)[: 8 - 3 * part] for part in range(3)])

    class Small(line):
        def batch(self, step: int) -> torch.Tensor:
            return super().batch(step)[: 8 - 3 * (step % 3)]

    big, small = Big(), Small()
    fit(big, replace(CONFIG, clip_norm=1.0), tmp_path / "big")
    fit(small, replace(CONFIG, clip_norm=1.0, accumulate=3), tmp_path / "small")
    for name, tensor in weights(small).items():
        torch.testing.assert_close(tensor, big.model.state_dict()[name], rtol=1e-5, atol=1e-6)
    for one, other in zip(rows(tmp_path / "big", "train"), rows(tmp_path / "small", "train"), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)
        assert one["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=1e-5)
        assert one["tokens"] == other["tokens"]


def test_batches_are_asked_for_once_each_and_in_order(line: Any, tmp_path: Path) -> None:
    task = line(values=[1.0, 1.0, 1.0])
    fit(task, replace(CONFIG, accumulate=2), tmp_path)
    assert task.asked == list(range(12))


def test_clipping_bounds_the_gradient_that_reaches_the_optimiser(line: Any, tmp_path: Path) -> None:
    task, norms = line(), []

    def spy(optimiser: torch.optim.Optimizer, arguments: Any, keywords: Any) -> None:
        norms.append(torch.cat([p.grad.flatten() for p in task.model.parameters()]).norm().item())

    handle = register_optimizer_step_pre_hook(spy)
    fit(task, replace(CONFIG, clip_norm=0.25), tmp_path)
    handle.remove()
    assert norms == pytest.approx([0.25] * 6, rel=1e-4)
    assert all(row["gradient_norm"] > 0.25 for row in rows(tmp_path, "train"))


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_before_the_update_and_names_the_batch(
    line: Any, tmp_path: Path, poison: float
) -> None:
    task, before = line(), {}
    task.poison[4] = poison
    notes = Notes(at={4: lambda: before.update(weights(task))})
    with pytest.raises(DataError, match=r"step 5 the loss is nan.*rows of batch 4.*learning_rate"):
        fit(task, CONFIG, tmp_path, progress=notes)
    assert all(torch.equal(tensor, before[name]) for name, tensor in weights(task).items())


def test_a_gradient_that_is_not_finite_stops_before_the_update(line: Any, tmp_path: Path) -> None:
    class Steep(line):
        def loss(self, batch: torch.Tensor) -> Loss:
            zero = (self.model(batch) * 0).sum()
            return Loss(zero.sqrt() if self.asked[-1] == 2 else zero, len(batch))

    task = Steep()
    with pytest.raises(DataError, match=r"step 3 the gradient's norm is nan"):
        fit(task, CONFIG, tmp_path)
    assert all(tensor.isfinite().all() for tensor in weights(task).values())


def test_only_the_guilty_one_of_accumulated_batches_is_named(line: Any, tmp_path: Path) -> None:
    class Named(line):
        def describe(self, batch: torch.Tensor) -> str:
            return "the guilty" if batch.isnan().any() else "an innocent"

    task = Named()
    task.poison[1] = math.nan
    with pytest.raises(DataError, match=r"The batch: the guilty\. "):
        fit(task, replace(CONFIG, accumulate=3), tmp_path)


def test_patience_stops_the_run_and_the_best_weights_are_kept(line: Any, tmp_path: Path) -> None:
    task, best = line(values=[3.0, 1.0, 2.0, 2.0, 0.0]), {}
    notes = Notes(at={4: lambda: best.update(weights(task))})
    outcome = fit(task, replace(CONFIG, steps=100, patience=2), tmp_path, progress=notes)
    assert (outcome.step, outcome.best_step, outcome.best["loss"]) == (8, 4, 1.0)
    assert outcome.stopped_because == "no better loss in 2 validations"
    assert all(torch.equal(tensor, best[name]) for name, tensor in weights(task).items())
    saved, words = load_weights(tmp_path)
    assert all(torch.equal(tensor, best[name]) for name, tensor in saved.items())
    assert words == "checkpoint of step 4"
    assert json.loads((tmp_path / "best.json").read_text())["checkpoint"] == "checkpoints/step-00000004"


def test_the_validation_at_the_end_of_a_shorter_run_does_not_count_for_patience(line: Any, tmp_path: Path) -> None:
    """At step 5, where a longer run has none."""
    ends = []
    for name, parts in (("long", (100,)), ("parted", (5, 100))):
        task = line(values=[1.0, 2.0, 3.0, 4.0] if name == "long" else [1.0, 2.0, 9.0, 3.0, 4.0])
        for steps in parts:
            config = replace(CONFIG, steps=steps, patience=2)
            outcome = fit(task, config, tmp_path / name, resume=steps > parts[0], accept_changes=True)
        ends.append((outcome.step, outcome.best_step, outcome.stopped_because))
    assert ends == [(6, 2, "no better loss in 2 validations")] * 2


def test_a_higher_metric_can_be_the_better_one(line: Any, tmp_path: Path) -> None:
    task = line(values=[3.0, 1.0, 2.0])
    outcome = fit(task, replace(CONFIG, metric="score", better="higher"), tmp_path)
    assert outcome.best_step == 4
    assert outcome.best["score"] == -1.0


@pytest.mark.parametrize(
    ("metric", "better", "expected"),
    [
        ("loss", None, "lower"),
        ("character_error", None, "lower"),
        ("accuracy", None, "higher"),
        ("macro_f1", None, "higher"),
        ("roc_auc", None, "higher"),
        ("accuracy", "lower", "lower"),
    ],
)
def test_a_metric_tells_whether_it_should_rise(metric: str, better: Any, expected: str) -> None:
    assert TrainConfig(metric=metric, better=better).direction == expected


def test_an_unknown_metric_is_refused_with_the_known_ones(line: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'blue'.*loss, score"):
        fit(line(values=[1.0]), replace(CONFIG, metric="blue"), tmp_path)


def test_a_time_budget_ends_with_a_validation_and_final_weights(line: Any, tmp_path: Path) -> None:
    outcome = fit(line(), replace(CONFIG, steps=10**9, validate_every=10**6, max_minutes=0.002), tmp_path)
    assert outcome.stopped_because == "its time is used up, train.max_minutes = 0.002"
    assert outcome.best_step == outcome.step
    assert [row["step"] for row in rows(tmp_path, "valid")] == [outcome.step]
    assert (tmp_path / "model.safetensors").exists()


@pytest.mark.parametrize(("of", "steps"), [("last", (4, 6)), ("best", (2, 6))])
def test_the_average_is_used_when_it_validates_better(
    line: Any, tmp_path: Path, of: Any, steps: tuple[int, int]
) -> None:
    task, snapshots = line(values=[2.0, 3.0, 1.0, 0.5]), {}
    notes = Notes(at={step: lambda step=step: snapshots.update({step: weights(task)}) for step in (2, 4, 6)})
    outcome = fit(task, replace(CONFIG, average=2, average_of=of), tmp_path, progress=notes)
    assert outcome.weights == f"average of the checkpoints of steps {steps[0]}, {steps[1]}"
    for name, tensor in weights(task).items():
        torch.testing.assert_close(tensor, (snapshots[steps[0]][name] + snapshots[steps[1]][name]) / 2)


def test_the_best_checkpoint_is_used_when_the_average_is_worse(line: Any, tmp_path: Path) -> None:
    notes = Notes()
    outcome = fit(line(values=[2.0, 1.0, 3.0, 5.0]), replace(CONFIG, average=2), tmp_path, progress=notes)
    assert outcome.weights == "checkpoint of step 4"
    assert "not better than the best one" in notes.sentences[-1]


def test_the_best_checkpoint_outlives_many_newer_ones(line: Any, tmp_path: Path) -> None:
    fit(line(values=[2.0, 1.0, *[3.0] * 8]), replace(CONFIG, steps=20, keep=2), tmp_path)
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == ["step-00000004", "step-00000018", "step-00000020"]


def test_a_plateau_lowers_the_rate_in_the_log(line: Any, tmp_path: Path) -> None:
    config = replace(CONFIG, schedule=Plateau(patience=1, decay=0.5), steps=8)
    fit(line(values=[1.0, 2.0, 3.0, 4.0]), config, tmp_path)
    assert [row["learning_rate"] for row in rows(tmp_path, "train")] == [0.05] * 4 + [0.025] * 2 + [0.0125] * 2


def test_rows_are_means_per_token_since_the_row_before(line: Any, tmp_path: Path) -> None:
    fit(line(), replace(CONFIG, log_every=1, steps=4), tmp_path / "each")
    fit(line(), replace(CONFIG, log_every=2, steps=4), tmp_path / "pairs")
    each, pairs = rows(tmp_path / "each", "train"), rows(tmp_path / "pairs", "train")
    for number, pair in enumerate(pairs):
        for name in ("loss", "distance", "gradient_norm"):
            assert pair[name] == pytest.approx((each[2 * number][name] + each[2 * number + 1][name]) / 2)
    assert [row["tokens"] for row in pairs] == [16, 32]
    assert [row["epoch"] for row in pairs] == [0.5, 1.0]


def test_bfloat16_computes_in_half_precision_and_keeps_float32_weights(line: Any, tmp_path: Path) -> None:
    states = set()

    class Spying(line):
        def loss(self, batch: torch.Tensor) -> Loss:
            states.add(self.model(batch).dtype)
            return super().loss(batch)

    task = Spying()
    fit(task, replace(CONFIG, precision="bfloat16"), tmp_path)
    assert states == {torch.bfloat16}
    assert task.model.weight.dtype == torch.float32


def test_a_used_folder_is_refused_with_the_command_that_resumes(line: Any, tmp_path: Path) -> None:
    fit(line(), CONFIG, tmp_path)
    with pytest.raises(UsageError, match=rf"saved at step 6.*foveate resume {tmp_path}"):
        fit(line(), CONFIG, tmp_path)


@pytest.mark.parametrize(("sharding", "count"), [("replicate", 0), ("moments", 1), ("full", 1)])
def test_one_process_says_that_it_divides_nothing(line: Any, tmp_path: Path, sharding: Any, count: int) -> None:
    notes = Notes()
    fit(line(), replace(CONFIG, steps=1, sharding=sharding), tmp_path, progress=notes)
    assert sum(f'train.sharding = "{sharding}" divides a model' in sentence for sentence in notes.sentences) == count


def test_a_model_that_cannot_be_divided_is_refused_before_the_first_step(line: Any, tmp_path: Path) -> None:
    class Two(World):
        size = 2

    task = line()
    task.indivisible = "views use it under other rules"
    config = replace(CONFIG, accumulate=2)
    with pytest.raises(UsageError, match=r'cannot be divided \(train.sharding = "full"\): views use it'):
        require_shareable(task, replace(config, sharding="full"), tmp_path, {}, Two())
    require_shareable(task, config, tmp_path, {}, Two())


@pytest.mark.parametrize(
    ("weight", "words"),
    [(torch.ones(3, 2).t(), "weight is not contiguous in memory"), (torch.ones(0, 2), "weight has no entries")],
)
def test_parameters_that_fsdp_refuses_are_named(line: Any, tmp_path: Path, weight: torch.Tensor, words: str) -> None:
    class Two(World):
        size = 2

    task = line()
    task.model = nn.ParameterDict({"weight": nn.Parameter(weight)})
    config = replace(CONFIG, accumulate=2)
    with pytest.raises(UsageError, match=rf'cannot be divided \(train.sharding = "full"\): {words}'):
        require_shareable(task, replace(config, sharding="full"), tmp_path, {}, Two())
    require_shareable(task, config, tmp_path, {}, Two())


@pytest.mark.parametrize(
    ("settings", "configuration", "path"),
    [
        ({"clip_norm": math.inf}, {}, "train.clip_norm is inf"),
        ({"stall_seconds": math.inf}, {}, "train.stall_seconds is inf"),
        ({}, {"data": {"shifts": (0.5, math.nan)}}, r"data.shifts is \[0.5, nan\]"),
        ({}, {"data": {"file": Path("lines")}}, r"data.file is \w*Path\('lines'\)"),
        ({}, {"data": {("a", 1): 2}}, "A checkpoint cannot store the configuration: keys must be"),
    ],
)
def test_settings_that_no_checkpoint_can_hold_are_refused_before_the_first_step(
    line: Any, tmp_path: Path, settings: dict[str, Any], configuration: dict[str, Any], path: str
) -> None:
    task = line()
    with pytest.raises(UsageError, match=path):
        fit(task, replace(CONFIG, **settings), tmp_path / "run", configuration=configuration)
    assert not task.asked
    assert not (tmp_path / "run").exists()


def test_a_run_with_nested_tuples_in_its_configuration_goes_on(line: Any, tmp_path: Path) -> None:
    configuration = {"data": {"spans": ((1, 2), (3, 4))}}
    fit(line(), CONFIG, tmp_path, configuration=configuration)
    assert fit(line(), CONFIG, tmp_path, configuration=configuration, resume=True).step == CONFIG.steps


def test_two_runs_in_one_folder_at_once_are_refused(line: Any, tmp_path: Path) -> None:
    def second() -> None:
        with pytest.raises(UsageError, match="Another process is training"):
            fit(line(), CONFIG, tmp_path, resume=True)

    assert fit(line(), CONFIG, tmp_path, progress=Notes(at={3: second})).step == 6


def test_tied_weights_are_saved_once_and_stay_tied(line: Any, tmp_path: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(2, 2, bias=False)
            self.second = nn.Linear(2, 2, bias=False)
            self.second.weight = self.first.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(x)).sum(1, keepdim=True)

    task = line()
    task.model = Tied()
    fit(task, CONFIG, tmp_path)
    assert set(load_weights(tmp_path)[0]) == {"first.weight"}
    assert task.model.first.weight is task.model.second.weight


def test_the_task_offers_the_protocol(line: Any) -> None:
    assert isinstance(line(), Trainable)


def test_noise_differs_between_batches_and_between_seeds() -> None:
    seeds = {noise_seed(seed, index) for seed in range(50) for index in range(-100, 100)}
    assert len(seeds) == 50 * 200


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"accumulate": 0}, {"learning_rate": 0.0}, {"clip_norm": -1.0}])
def test_impossible_settings_are_refused_by_name(wrong: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        TrainConfig(**wrong)


def test_a_validation_that_is_not_a_number_is_never_best_and_does_not_stop_the_run(line: Any, tmp_path: Path) -> None:
    outcome = fit(line(values=[math.nan, 1.0, math.inf]), CONFIG, tmp_path)
    assert (outcome.step, outcome.best_step) == (6, 4)
    assert [row["loss"] for row in rows(tmp_path, "valid")] == [None, 1.0, None]


def test_a_run_whose_validations_are_never_finite_keeps_its_last_weights(line: Any, tmp_path: Path) -> None:
    outcome = fit(line(values=[math.nan] * 3), CONFIG, tmp_path)
    assert (outcome.best_step, outcome.weights) == (None, "weights after step 6")
    assert load_weights(tmp_path)[1] == "weights after step 6"


def test_everything_that_was_saved_is_readable_without_running_code(line: Any, tmp_path: Path) -> None:
    fit(line(), CONFIG, tmp_path)
    suffixes = {path.suffix for path in tmp_path.rglob("*") if path.is_file()}
    assert suffixes == {".safetensors", ".json", ".jsonl", ""}
    assert {path.name for path in tmp_path.rglob("*") if path.is_file() and not path.suffix} == {"MANIFEST", ".lock"}


# -- a run that goes on after its end ----------------------------------------------------------------------------------


def served(folder: Path) -> tuple[float, str]:
    tensors, words = load_weights(folder)
    return float(tensors["bias"][0]), words


def stop() -> None:
    signal.raise_signal(signal.SIGINT)


def test_a_run_that_goes_on_and_is_stopped_serves_its_later_best(line: Any, tmp_path: Path) -> None:
    fit(line(values=[3.0, 2.0, 2.5]), CONFIG, tmp_path)
    assert served(tmp_path)[1] == "checkpoint of step 4"
    longer, task = replace(CONFIG, steps=20), line(values=[1.0, 1.5])
    best: list[float] = []
    notes = Notes(at={8: lambda: best.append(task.model.bias[0].item()), 11: stop})
    assert fit(task, longer, tmp_path, resume=True, progress=notes, accept_changes=True).interrupted
    assert served(tmp_path) == (best[0], "checkpoint of step 8 (the run is not finished)")
    assert not is_finished(tmp_path)
    fit(line(values=[1.5, 1.5, 1.5, 1.5, 1.5]), longer, tmp_path, resume=True)
    assert (served(tmp_path), is_finished(tmp_path)) == ((best[0], "checkpoint of step 8"), True)


def test_a_run_that_goes_on_without_becoming_better_serves_its_final_weights(line: Any, tmp_path: Path) -> None:
    fit(line(values=[3.0, 2.0, 2.5]), CONFIG, tmp_path)
    before = served(tmp_path)
    longer = replace(CONFIG, steps=20)
    notes = Notes(at={7: stop})
    fit(line(values=[]), longer, tmp_path, resume=True, progress=notes, accept_changes=True)
    assert served(tmp_path) == before
    fit(line(values=[9.0]), longer, tmp_path, resume=True, progress=Notes(at={9: stop}))
    assert served(tmp_path) == before


def test_an_average_gives_way_only_to_a_later_checkpoint_that_is_better(line: Any, tmp_path: Path) -> None:
    averaging = replace(CONFIG, average=2)
    fit(line(values=[3.0, 2.0, 2.5, 1.0]), averaging, tmp_path)
    before, longer = served(tmp_path), replace(averaging, steps=20)
    assert before[1].startswith("average of")
    notes = Notes(at={9: stop})
    fit(line(values=[1.5]), longer, tmp_path, resume=True, progress=notes, accept_changes=True)
    assert served(tmp_path) == before
    fit(line(values=[0.5]), longer, tmp_path, resume=True, progress=Notes(at={11: stop}))
    assert served(tmp_path)[1] == "checkpoint of step 10 (the run is not finished)"


def test_final_weights_serve_where_the_later_best_is_damaged(line: Any, tmp_path: Path) -> None:
    fit(line(values=[3.0, 2.0, 2.5]), CONFIG, tmp_path)
    before, longer = served(tmp_path), replace(CONFIG, steps=20)
    notes = Notes(at={9: stop})
    fit(line(values=[1.0]), longer, tmp_path, resume=True, progress=notes, accept_changes=True)
    (tmp_path / "checkpoints" / "step-00000008" / "model.safetensors").write_bytes(b"")
    assert served(tmp_path) == before


def test_without_a_finite_validation_the_newest_of_a_run_that_goes_on_serves(line: Any, tmp_path: Path) -> None:
    fit(line(values=[math.nan] * 3), CONFIG, tmp_path)
    longer, notes = replace(CONFIG, steps=20), Notes(at={9: stop})
    fit(line(values=[math.nan]), longer, tmp_path, resume=True, progress=notes, accept_changes=True)
    assert served(tmp_path)[1] == "checkpoint of step 9 (the run is not finished)"


def test_a_run_killed_at_any_call_after_its_end_serves_the_best_that_was_saved(
    line: Any, tmp_path: Path, run_until_call: Any
) -> None:
    """Old final weights until a later best is saved; then that one; then it again as final weights."""
    whole, longer = tmp_path / "whole", replace(CONFIG, steps=10, keep=1)
    fit(line(values=[3.0, 2.0, 2.5]), replace(CONFIG, keep=1), whole)
    old = served(whole)[0]
    number, died, values = 0, True, []
    fit(line(values=[1.0, 1.5]), longer, shutil.copytree(whole, tmp_path / "all"), resume=True, accept_changes=True)
    new = served(tmp_path / "all")[0]
    while died:
        number += 1
        folder = shutil.copytree(whole, tmp_path / str(number))
        died = run_until_call(
            lambda folder=folder: fit(line(values=[1.0, 1.5]), longer, folder, resume=True, accept_changes=True),
            number,
        )
        value = served(folder)[0]
        values.append(value)
        assert value == (new if json.loads((folder / "best.json").read_text())["step"] == 8 else old)
    changes = sum(one != other for one, other in pairwise(values))
    assert (changes, values[0], values[-1]) == (1, old, new), "once it has become better it stays so"
    assert number > 20


def test_a_resume_names_the_best_where_the_process_died_before_it_could(line: Any, tmp_path: Path) -> None:
    fit(line(values=[3.0, 2.0, 2.5]), CONFIG, tmp_path)
    longer = replace(CONFIG, steps=20)
    fit(line(values=[1.0]), longer, tmp_path, resume=True, progress=Notes(at={8: stop}), accept_changes=True)
    fit(line(values=[1.0]), longer, tmp_path, resume=True, progress=Notes(at={9: stop}))
    named = (tmp_path / "best.json").read_bytes()
    (tmp_path / "best.json").write_text('{"step": 4, "value": 2.0}')

    def crash() -> None:
        raise RuntimeError("before anything else is saved")

    with pytest.raises(RuntimeError, match="before anything"):
        fit(line(values=[]), longer, tmp_path, resume=True, progress=Notes(at={10: crash}))
    assert (tmp_path / "best.json").read_bytes() == named
