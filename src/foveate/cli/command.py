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
        "evaluate": "score a trained model, or its output in a file",
        "report": "write a run's report: curves, samples and attention",
        "export": "write a trained model for another engine",
        "look": "draw the attention of a model",
        "plan": "show parameters, memory, arithmetic and attention paths before training",
        "completion": "print a script that completes commands and options in your shell",
        "doctor": "show versions and settings for this machine, and run a self-test",
    }


def module_of(command: str) -> Any:
    """The module of a command."""
    return importlib.import_module(f"foveate.cli.{'verb' if command in verbs() else command}")
