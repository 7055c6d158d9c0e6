"""Options for the data files of all tasks."""

import argparse
from pathlib import Path
from typing import Any

from foveate.errors import UsageError
from foveate.storage.staging import is_remote
from foveate.tasks import TASKS


def option(name: str) -> str:
    """The option for a setting."""
    return f"--{name.replace('_', '-')}"


def pairs_hint(task: str, name: str) -> str:
    """A sentence for users who give labelled examples to a task of pairs; empty for other tasks and settings."""
    partner = {"data": "source", "valid_data": "valid_source"}.get(name)
    if partner is None or partner not in TASKS[task].files:
        return ""
    return f" {option(partner)} pairs.tsv reads tab-separated pairs."


def file_arguments(parser: argparse.ArgumentParser) -> None:
    """Options for the files of all tasks. Help shows those of the task that the command line names, if it names one."""
    for name in {name: None for task in TASKS.values() for name in task.files}:
        says = {task: TASKS[task].files[name] for task in named(parser) if name in TASKS[task].files}
        apart = len(set(says.values())) > 1
        text = (
            "; ".join(f"{task}: {help_text}" for task, help_text in says.items())
            if apart
            else next(iter(says.values()), None)
        )
        parser.add_argument(option(name), metavar="FILE", help=text or argparse.SUPPRESS)


def examples(text: str, parser: argparse.ArgumentParser) -> str:
    """An epilog without examples of other tasks, if the command line names a task."""
    others = [f" {task} " for task in TASKS if task not in named(parser)]
    return "".join(line for line in text.splitlines(True) if not any(other in line for other in others))


def named(parser: argparse.ArgumentParser) -> list[str]:
    """The task that the command line names, or all tasks."""
    return [word for word in getattr(parser, "words", ()) if word in TASKS][:1] or list(TASKS)


def files_given(arguments: argparse.Namespace, task: str) -> dict[str, Any]:
    """The data files and columns of the command line, by their setting of `data`.

    Raises UsageError for a file that the task does not read.
    """
    taken = TASKS[task].files
    files: dict[str, Any] = {}
    for name in {name for task in TASKS.values() for name in task.files}:
        path = getattr(arguments, name)
        if path is None:
            continue
        if name not in taken:
            others = ", ".join(map(option, taken))
            raise UsageError(f"{task} does not take {option(name)}; it takes {others}.{pairs_hint(task, name)}")
        if path == "-":
            raise UsageError(
                "Training reads its data several times, so it cannot come from standard input. Save it first."
            )
        files[name] = path if is_remote(path) else str(Path(path).absolute())
    if arguments.columns is not None:
        if not TASKS[task].reads_columns:
            raise UsageError(f"{task} reads lines, not columns. Leave --columns out.")
        if "target" in files:
            raise UsageError("--columns is for one tab-separated file. Leave it out, or --target.")
        files["columns"] = list(arguments.columns)
    return files
