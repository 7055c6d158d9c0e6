"""Steps that are timed before a training leave nothing behind."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from foveate.storage.checkpoint import model_tensors
from foveate.train import Constant, TrainConfig, fit, step_seconds, total_seconds

CONFIG = TrainConfig(steps=6, validate_every=3, save_every=3, log_every=1, schedule=Constant(), learning_rate=0.1)


class Noisy(nn.Module):
    """Dropout draws numbers, and the norm's running means are buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.drop, self.line = nn.BatchNorm1d(2), nn.Dropout(0.5), nn.Linear(2, 1)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.line(self.drop(self.norm(rows)))
        return out


def noisy(line: Any) -> Any:
    task = line()
    torch.manual_seed(0)
    task.model = Noisy().eval()
    return task


def test_timed_steps_leave_weights_buffers_mode_and_generators_as_they_were(line: Any) -> None:
    task = noisy(line)
    before = {name: value.clone() for name, value in task.model.state_dict().items()}
    state = torch.get_rng_state()
    seconds = step_seconds(task, CONFIG)
    assert seconds is not None
    assert seconds > 0
    assert task.asked, "nothing was timed"
    after = task.model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert torch.equal(torch.get_rng_state(), state)
    assert not task.model.training
    assert all(parameter.grad is None for parameter in task.model.parameters())


@pytest.mark.parametrize("settings", [{}, {"accumulate": 3}, {"precision": "bfloat16"}], ids=str)
def test_training_after_timed_steps_ends_with_the_same_bits(settings: Any, line: Any, tmp_path: Path) -> None:
    plain, timed, config = noisy(line), noisy(line), replace(CONFIG, **settings)
    fit(plain, config, tmp_path / "plain")
    assert step_seconds(timed, config)
    fit(timed, config, tmp_path / "timed")
    ours, theirs = model_tensors(plain.model), model_tensors(timed.model)
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


def test_a_loss_that_is_not_finite_is_left_for_training_to_say(line: Any) -> None:
    task = line()
    task.poison = {0: float("nan")}
    before = task.model.weight.clone()
    assert step_seconds(task, CONFIG) is None
    assert torch.equal(task.model.weight, before)


def test_validations_count_where_the_task_counts_them(line: Any) -> None:
    task = line()
    assert total_seconds(task, CONFIG, 2.0) == 12.0
    assert total_seconds(task, CONFIG, 2.0, done=4) == 4.0
    task.validation_batches = 10
    assert total_seconds(task, CONFIG, 2.0) == 2.0 * (6 + 0.35 * 10 * 2)
