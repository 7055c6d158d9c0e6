"""The tasks that can be trained, and what each takes from the command line.

A task is a module of this package, named as its command: `RunConfig` (the task's configuration, and how to train),
`suggest(config)`, sizes from the data that a configuration names, `prepare(config, folder)`,
`open_task(config, folder)`, `size(task)` in words, and
`finish(task, config, folder)`, which leaves a report and says what to try; `report(folder, path)`, which writes it
again; `probe(config, arguments)`, what `foveate plan` measures. A task has one of `evaluate(arguments)`, the scores of
`foveate evaluate RUN --data FILE`, `evaluate_pairs(arguments)`, those of `--source FILE`, and
`evaluate_text(arguments)`, which prints those of `--text FILE`. What a task has is what its `__all__` names. This file
knows no torch: `--help` has to be quick.
"""

import argparse
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foveate.storage.run import Run


@dataclass(frozen=True)
class TaskOptions:
    """What a task is about, and the files it reads: settings of `data`, and options of the same names."""

    summary: str
    files: Mapping[str, str]
    """Name and help of each; the first is the one without which there is nothing to train on."""

    @property
    def first(self) -> str:
        return next(iter(self.files))


VALID_DATA = {"valid_data": "labelled validation examples; without, some examples are held out"}

TEXT = {
    "text": "text to learn from (.gz and .xz too)",
    "valid_text": "validation text; without, the last lines are held out",
}

TASKS = {
    "translate": TaskOptions(
        "sequences to sequences",
        {
            "source": "source lines, or tab-separated pairs (.gz and .xz too)",
            "target": "target lines, partners of the source lines",
            "valid_source": "validation pairs; without, some lines are held out",
            "valid_target": "target side of the validation pairs",
            "links": "word links like 0-0 1-2, line by line of source, that attention is taught to follow",
            "valid_links": "links of the validation pairs",
        },
    ),
    "language_model": TaskOptions("text that goes on", TEXT),
    "masked_language_model": TaskOptions("text with gaps", TEXT),
    "tag": TaskOptions(
        "a label for every word",
        {"data": "lines of word/tag, or a word, a tab and its tag a line (.gz and .xz too)", **VALID_DATA},
    ),
    "classify": TaskOptions("a label for every text", {"data": "text, tab, label (.gz and .xz too)", **VALID_DATA}),
}


def option(name: str) -> str:
    """A setting as it is written on the command line."""
    return f"--{name.replace('_', '-')}"


def pairs_hint(task: str, name: str) -> str:
    """For a task of pairs and the setting of `data` that names labelled examples: which option reads a table."""
    wanted = {"data": "source", "valid_data": "valid_source"}.get(name)
    if wanted is None or wanted not in TASKS[task].files:
        return ""
    return f" {option(wanted)} pairs.tsv reads tab-separated pairs."


def file_arguments(parser: argparse.ArgumentParser) -> None:
    """Options for the files of all tasks. Help shows those of the task that the command line names, if it names one."""
    for name in {name: None for task in TASKS.values() for name in task.files}:
        says = {task: TASKS[task].files[name] for task in named(parser) if name in TASKS[task].files}
        apart = len(set(says.values())) > 1
        text = "; ".join(f"{task}: {said}" for task, said in says.items()) if apart else next(iter(says.values()), None)
        parser.add_argument(option(name), metavar="FILE", help=text or argparse.SUPPRESS)


def examples(text: str, parser: argparse.ArgumentParser) -> str:
    """An epilog without the examples of other tasks than the one that the command line names, if it names one."""
    others = [f" {task} " for task in TASKS if task not in named(parser)]
    return "".join(line for line in text.splitlines(True) if not any(other in line for other in others))


def named(parser: argparse.ArgumentParser) -> list[str]:
    """The task that the command line of a parser names, or all."""
    return [word for word in getattr(parser, "words", ()) if word in TASKS][:1] or list(TASKS)


def known_task(run: "Run") -> str:
    """The task of a run. Raises DataError when this version does not know it."""
    from foveate.errors import DataError

    if run.task not in TASKS:
        raise DataError(
            f"{run.folder} is a run of the task {run.task!r}, which this version of foveate does not know. "
            f"It knows {', '.join(TASKS)}."
        )
    return run.task


def module_of(task: str) -> Any:
    """The module of a task."""
    return importlib.import_module(f"foveate.cli.task.{task}")
