"""Conditions under which several processes can train one model: equal programs, settings and data, and work for all."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from foveate import __version__, machine, native
from foveate.errors import UsageError
from foveate.storage.manifest import file_digest
from foveate.suggestion import counted
from foveate.train.accelerator import misplaced
from foveate.train.recipe import TrainConfig
from foveate.train.resumption import flat
from foveate.train.trainable import Trainable
from foveate.train.world import World

DATA = ("*.tokeniser.json", "data/*.npz", "data/**/*.json")
"""Files that describe a run's data; those of stores contain the digests of all rows."""


def require_shareable(
    task: Trainable, config: TrainConfig, folder: Path, configuration: Mapping[str, Any], world: World
) -> None:
    """Raises UsageError, in all processes alike, where they cannot train together."""
    if world.size == 1:
        return
    world.watch(config.stall_seconds)
    device = next(task.model.parameters()).device
    if problem := _problem(task, config, world.size) or (device.type == "cuda" and misplaced(device, world.device)):
        error = UsageError(problem)
        error.shared = True
        raise error
    world.require_equal(
        {
            "foveate": __version__,
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "switches": str(machine.current()),
            "compiled kernels": native.state(),
            "device": device.type,
            "batches per epoch": task.steps_per_epoch,
            "parameters": sum(parameter.numel() for parameter in task.model.parameters()),
            "the data's SHA-256": data_digest(folder),
            **{path: str(value) for path, value in flat(configuration)},
        }
    )


def shared_by(accumulate: int, size: int) -> str:
    """The reason why `size` processes cannot share an update's batches; empty if they can."""
    if size <= accumulate:
        return ""
    return (
        f"{size} processes cannot share the {counted(accumulate, 'batch')} of an update (train.accumulate = "
        f"{accumulate}): each needs one at least. Start fewer processes, or begin a run with --set "
        f"train.accumulate={size} and smaller batches."
    )


def require_batches(accumulate: int, size: int) -> None:
    """Raises UsageError where `size` processes cannot share an update's batches."""
    if problem := shared_by(accumulate, size):
        raise UsageError(problem)


def undivided(config: TrainConfig, size: int) -> str:
    """A sentence where `train.sharding` says how to divide a model that has one process; empty elsewhere."""
    if size > 1 or config.sharding == "replicate":
        return ""
    return (
        f'train.sharding = "{config.sharding}" divides a model among several processes. This run has one, which holds '
        "it whole; --processes N starts more."
    )


def data_digest(folder: Path) -> str:
    """The first 16 digits of the SHA-256 of a run's data, from the digests that they are stored with."""
    total = hashlib.sha256()
    for path in sorted({path for pattern in DATA for path in folder.glob(pattern)}):
        total.update(f"{path.relative_to(folder)} {file_digest(path)}\n".encode())
    return total.hexdigest()[:16]


def _problem(task: Trainable, config: TrainConfig, size: int) -> str:
    running = [
        name
        for name, module in task.model.named_modules()
        if isinstance(module, _BatchNorm) and module.track_running_stats
    ]
    if running:
        return (
            f"The model normalises by running means of batches ({running[0]}), which depend on the order in which one "
            "process sees all batches. Train it with one process, or choose a group norm."
        )
    if config.sharding != "replicate" and (reason := getattr(task, "indivisible", "") or _indivisible(task.model)):
        return f'The model cannot be divided (train.sharding = "{config.sharding}"): {reason}.'
    return shared_by(config.accumulate, size)


def _indivisible(model: nn.Module) -> str:
    """The reason why FSDP refuses a model's parameters; empty if it does not."""
    for name, parameter in model.named_parameters():
        if not parameter.is_contiguous():
            return f"{name} is not contiguous in memory, as after a transposition; parameter.data.contiguous() is"
        if parameter.requires_grad and not parameter.numel():
            return f"{name} has no entries"
    return ""
