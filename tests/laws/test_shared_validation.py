"""A validation has the same bits whoever computes its batches, and in whichever order."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from foveate.config import build
from foveate.nn.measurement import SharedValidation
from foveate.tasks import TASKS
from foveate.tasks.molecule import task as molecule_task
from task_example import SETTINGS, write_files


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    write_files(folder)
    return folder


def backwards(counts: list[int]) -> Callable[[Callable[[int], Any], int], list[Any]]:
    """Does the last piece first, and sends each answer as the processes of a run do; notes how many there were."""

    def each(work: Callable[[int], Any], count: int) -> list[Any]:
        counts.append(count)
        answers = {number: json.loads(json.dumps(work(number))) for number in reversed(range(count))}
        return [answers[number] for number in range(count)]

    return each


@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "node"])
def test_the_order_of_batches_and_their_way_to_the_sum_change_no_bit(
    name: str, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    monkeypatch.setattr(molecule_task, "TOGETHER", 2)
    side, counts = TASKS[name].side, list[int]()
    task = side.prepare(build(side.config, SETTINGS[name]), tmp_path / "run", lambda sentence: None)
    assert isinstance(task, SharedValidation)
    task.model.eval()
    with torch.no_grad():
        assert task.measured(backwards(counts)) == task.validate()
    assert counts[0] > 1
