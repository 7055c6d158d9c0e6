"""The commands by name. Each is a module of `foveate.cli` with `arguments(parser)` and `run(arguments)`."""

import importlib
from typing import Any

from foveate.tasks import TASKS
from foveate.tasks.entry import Entry


def verbs() -> dict[str, Entry]:
    """Commands that use a trained model, each with its task: `foveate.cli.verb` is the module of all of them."""
    return {task.verb.name: task for task in TASKS.values()}


def commands() -> dict[str, str]:
    """Each command and what it does, in the order of the help."""
    return {
        "train": "train a model on your data",
        "resume": "continue a training run exactly where it stopped",
        **{name: task.verb.summary for name, task in verbs().items()},
        "compare": "train variants on the same data with the same budget, with error bars",
        "evaluate": "score a trained model, or a file of its output",
        "report": "write a run's report: curves, samples, what was looked at",
        "export": "write a trained model for another engine",
        "look": "draw what a model attended to",
        "plan": "parameters, memory, arithmetic and attention paths, before training",
        "completion": "print what makes your shell complete commands and options",
        "doctor": "versions, what this machine is good at, and a self-test",
    }


def module_of(command: str) -> Any:
    """The module of a command."""
    return importlib.import_module(f"foveate.cli.{'verb' if command in verbs() else command}")
