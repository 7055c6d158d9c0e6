"""Trains tasks on the device of `other_device` and on the CPU, and prints how far they are apart as JSON.

python tests/device_program.py FOLDER
"""

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from foveate.config import build, to_dict
from foveate.nn.transfer import device_of
from foveate.storage.checkpoint import MODEL, Checkpoints, model_tensors
from foveate.storage.portion import TensorFiles
from foveate.storage.run import create_run
from foveate.tasks import TASKS
from foveate.train import Outcome, Trainable, TrainConfig, fit, loop
from foveate.train.schedule import Constant
from other_device import other_device
from task_example import SETTINGS, VARIANTS, write_files

TRAIN: dict[str, Any] = {
    "validate_every": 2,
    "save_every": 2,
    "learning_rate": 3e-3,
    "schedule": Constant(),
    "eps": 0.01,
}


def without_noise(config: Any) -> Any:
    """A configuration with all rates of dropout 0, because devices draw different noise."""
    parts = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    changes = {name: 0.0 for name, part in parts.items() if "dropout" in name and isinstance(part, float)}
    inner = {name: without_noise(part) for name, part in parts.items() if dataclasses.is_dataclass(part)}
    return dataclasses.replace(config, **changes, **inner)


class Runs:
    """Runs of a task on the same data."""

    def __init__(self, name: str, settings: dict[str, Any], folder: Path) -> None:
        self.side, self.folder = TASKS[name].side, folder
        self.config = build(self.side.config, settings)
        task = self.side.prepare(self.config, folder / "prepared", lambda sentence: None)
        create_run(folder / "prepared", name, to_dict(task.config), task.digests)

    def train(
        self, name: str, *parts: tuple[torch.device | None, int], noisy: bool
    ) -> tuple[Outcome, dict[str, Tensor]]:
        """Trains in parts, each on a device and up to a step; the last outcome and weights."""
        place, task = self.folder / name, self.task(noisy)
        place.mkdir()
        for device, steps in parts:
            with mock.patch.object(loop, "chosen_device", mock.Mock(return_value=device)):
                outcome = fit(task, TrainConfig(steps=steps, **TRAIN), place, resume=True, accepted=["train.steps"])
            files = TensorFiles(Checkpoints(place / "checkpoints").path(steps) / MODEL).whole()
            assert device_of(task.model).type == "cpu"
            task = self.task(noisy)
        return outcome, files

    def task(self, noisy: bool = False) -> Any:
        config = self.config if noisy else without_noise(self.config)
        task: Trainable = self.side.task.open(config, self.folder / "prepared")
        return task


def compared(runs: Runs, gpu: torch.device) -> dict[str, Any]:
    """Figures of two steps on both devices, and the distances of the weights."""
    (there, moved), (here, stayed) = (runs.train(str(at), (at, 2), noisy=False) for at in (gpu, None))
    beginning = model_tensors(runs.task().model)
    figures = [dict(outcome.best) for outcome in (here, there)]
    return {"figures": figures, "distance": _distance(moved, stayed), "learnt": _distance(stayed, beginning)}


def continued(runs: Runs, gpu: torch.device) -> dict[str, float]:
    """The distances between runs that are continued, on the same device with noise and on another one without."""
    whole = runs.train("whole", (gpu, 4), noisy=True)[1]
    parts = runs.train("parts", (gpu, 2), (gpu, 4), noisy=True)[1]
    away = runs.train("away", (None, 2), (gpu, 4), (None, 6), noisy=False)[1]
    home = runs.train("home", (None, 6), noisy=False)[1]
    silent = runs.train("silent", (gpu, 4), noisy=False)[1]
    return {"resumed": _distance(whole, parts), "noise": _distance(whole, silent), "moved": _distance(away, home)}


def _distance(some: dict[str, Tensor], others: dict[str, Tensor]) -> float:
    """The largest difference of two weights."""
    return max(float((some[name].double() - others[name].double()).abs().max()) for name in some)


if __name__ == "__main__":
    root, results = Path(sys.argv[1]), dict[str, Any]()
    root.mkdir(exist_ok=True)
    os.chdir(root)
    write_files(root)
    with other_device() as gpu:
        for label, (task, settings) in {**{name: (name, own) for name, own in SETTINGS.items()}, **VARIANTS}.items():
            runs = Runs(task, settings, root / label)
            results[label] = compared(runs, gpu)
            if label == "language_model":
                results["continued"] = continued(runs, gpu)
    print(json.dumps(results))
