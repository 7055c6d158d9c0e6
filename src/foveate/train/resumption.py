"""Conditions for continuing a run: one process at a time, and the configuration of its start."""

import contextlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from foveate import native
from foveate.errors import UsageError
from foveate.storage.lock import lock
from foveate.storage.symbolic_link import open_own
from foveate.suggestion import counted
from foveate.train.history import Validation
from foveate.train.recipe import TrainConfig

HARMLESS = ("train.max_minutes", "train.log_every", "train.keep", "train.stall_seconds", "data.processes")
"""Settings that do not change the weights of a given step."""
EARLIER = {"reduction": "fast", "stall_seconds": 60.0, "sharding": "replicate", "device": None}
"""The values that held before these were settings of `train`."""
EARLIER_OF_TASKS = {
    "new_vocabulary": False,
    "unlikelihood": {"weight": 0.0, "ngram": 3},
    "preference": {"weight": 1.0, "beta": 0.1},
}
"""The same for the settings of tasks."""
EXTENDING = ("train.steps", "train.patience", "train.sharding", "train.device", *HARMLESS)
"""Settings that may change when a run continues: they determine its end, or where its weights are."""


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Locks the run folder for this process; the system releases the lock when the process ends."""
    with open_own(folder / ".lock", "wb") as file:
        if not lock(file.fileno()):
            raise UsageError(
                f"Another process is training in {folder}. Wait for it or stop it, or name another folder."
            )
        yield


def require_same(
    state: Mapping[str, Any],
    configuration: Mapping[str, Any],
    folder: Path,
    *,
    accept_changes: bool = False,
    accepted: Collection[str] = (),
    world: int = 1,
    device: str = "cpu",
) -> list[str]:
    """Sentences about harmless or accepted differences between a checkpoint and the present run.

    Raises UsageError for any other difference.
    """
    begun = {
        **{name: value for name, value in EARLIER_OF_TASKS.items() if name in configuration},
        **state["configuration"],
        "train": {**EARLIER, **state["configuration"].get("train", {})},
    }
    changes = differences(begun, configuration)
    serious = {path: change for path, change in changes.items() if path not in {*HARMLESS, *accepted}}
    if serious and not accept_changes:
        listed = "\n".join(f"  {path}: {change}" for path, change in serious.items())
        raise UsageError(
            f"The configuration of {folder} differs from that of its checkpoint:\n{listed}\n"
            "Restore it, accept the changes explicitly, or start a new run in another folder."
        )
    notes = [f"Changed since the checkpoint: {path}: {change}." for path, change in changes.items()]
    if state["torch"] != torch.__version__:
        notes.append(
            f"The checkpoint was made with torch {state['torch']}, this is {torch.__version__}: last bits may differ."
        )
    if state["threads"] != torch.get_num_threads():
        notes.append(
            f"The checkpoint was made with {state['threads']} threads, this run has {torch.get_num_threads()}: "
            f"last bits may differ. --threads {state['threads']} keeps them."
        )
    if world != state.get("world", 1) and configuration["train"]["reduction"] == "fast":
        notes.append(
            f"The checkpoint was made by {counted(state.get('world', 1), 'process')}, this run has {world}: with "
            'train.reduction = "fast" last bits may differ.'
        )
    if device != (before := state.get("device") or device):
        notes.append(
            f"The checkpoint was made on the device {before}, this run trains on {device}: last bits differ, and "
            "dropout draws other noise."
        )
    if state.get("native", native.in_use()) != native.in_use():
        notes.append(OTHER_NOISE if native.in_use() else OTHER_NOISE_WITHOUT.format(state=native.state()))
    return notes


def other_rate(config: TrainConfig, step: int, history: Sequence[Validation], planned: object) -> str:
    """A sentence on a learning rate that changes because the run has another number of steps than `planned`; empty if
    it does not.
    """
    schedule, base, steps = config.schedule, config.learning_rate, config.steps
    if not isinstance(planned, int) or planned == steps or not step:
        return ""
    before = base * schedule.factor(step, planned, history)
    now = base * schedule.factor(step + 1, steps, history)
    as_planned = base * schedule.factor(step + 1, max(planned, step + 1), history)
    if now == as_planned:
        return ""
    kind = type(schedule).__name__.lower()
    return (
        f"The {kind} schedule now spans all {steps:,} steps: the learning rate changes from {before:.1e} to {now:.1e}."
    )


OTHER_NOISE = (
    "The checkpoint was made without compiled kernels, but this run uses them: dropout draws other noise, and the "
    "weights will differ from an uninterrupted run. FOVEATE_NATIVE=0 continues as the run began."
)
OTHER_NOISE_WITHOUT = (
    "The checkpoint was made with compiled kernels, but this run has none: {state}. Dropout draws other noise, and the "
    "weights will differ from an uninterrupted run. Install the compiler again to continue as the run began."
)


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """The settings that differ, by dotted path. One that earlier versions did not have is None, and no difference.

    >>> differences({"train": {"steps": 10, "seed": 0}}, {"train": {"steps": 20, "seed": 0}, "reader": None})
    {'train.steps': '10 → 20'}
    """
    old, new = dict(flat(before)), dict(flat(now))
    absent = "not set"
    return {
        path: f"{old.get(path, absent)} → {new.get(path, absent)}"
        for path in [*old, *(path for path, value in new.items() if path not in old and value is not None)]
        if old.get(path, absent) != new.get(path, absent)
    }


def storable(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration as a checkpoint gives it back.

    >>> storable({"data": {"lengths": (3, 5)}})
    {'data': {'lengths': [3, 5]}}

    Raises UsageError for a value that JSON cannot hold, before there is work that could not be saved.
    """
    for path, value in flat(configuration):
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"{path} is {value!r}, which a checkpoint cannot store: {error}. Give None, a text, a finite number, "
                "or a list or mapping of these."
            ) from None
    try:
        plain: dict[str, Any] = json.loads(json.dumps(configuration))
    except TypeError as error:
        raise UsageError(f"A checkpoint cannot store the configuration: {error}. Name its settings by texts.") from None
    return plain


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The settings of a configuration by dotted path."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from flat(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, list(value) if isinstance(value, tuple) else value
