"""An entry in the list of tasks: what commands need to know before they import torch.

These are plain classes because importing `dataclasses` takes as long as the rest of `foveate --help`.
"""

import argparse
import importlib
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foveate.tasks.side import Side


class Verb:
    """The command that uses a trained model of the task."""

    def __init__(
        self,
        *,
        name: str,
        summary: str,
        input: str,
        epilog: str = "",
        run: str = "the run folder",
        placeholder: str = "TEXT",
        options: Callable[[argparse.ArgumentParser], None] = lambda parser: None,
    ) -> None:
        """`input` and `run` are the help texts of the inputs and of the model's folder, `placeholder` stands for an
        input in the usage line, `epilog` has examples and describes the output, `options` adds options of this command.
        """
        self.name, self.summary, self.epilog, self.options = name, summary, epilog, options
        self.input, self.run, self.placeholder = input, run, placeholder


def labelled_files(
    data: str,
    *,
    valid: str = "labelled validation examples; by default some training examples are held out",
    test: str = "labelled test examples",
) -> dict[str, Any]:
    """The parts `files` and `tests` of the entry of a task with one file of data; the texts are help texts."""
    return {"files": {"data": data, "valid_data": valid}, "tests": {"data": test}}


def text_files() -> dict[str, Any]:
    """The same of a task that learns from one text."""
    return {
        "files": {
            "text": "training text (.gz and .xz too)",
            "valid_text": "validation text; by default the last lines of the training text are held out",
        },
        "tests": {"text": "test text for language models"},
    }


class Entry:
    """A task: its name, a summary, the files that it reads, and its command.

    Everything else is in the package `home`. Its module `side` defines `SIDE`, an instance of a subclass of
    `foveate.tasks.side.Side`, and is imported when a command first needs it.
    """

    def __init__(
        self,
        *,
        name: str,
        home: str,
        summary: str,
        files: Mapping[str, str],
        verb: Verb,
        tests: Mapping[str, str] | None = None,
        lengths: Mapping[str, str] | None = None,
        reads_columns: bool = True,
        keeps_test: bool = False,
        looks: Collection[str] = (),
        quick: Callable[[argparse.Namespace], bool] = lambda arguments: False,
    ) -> None:
        self.name, self.home, self.summary, self.verb = name, home, summary, verb
        self.files = files
        """Settings of `data` that name files, which are options of the same names too, each with its help text. The
        first one is required for training and is also an option of `foveate evaluate`."""
        self.tests = tests or {}
        """Files of test data for `foveate compare`, by the setting of `data` that they replace, each with its help
        text."""
        self.lengths = lengths or {}
        """Lengths of an example, which are options of `foveate plan`, each with its help text."""
        self.reads_columns = reads_columns
        """Whether a file may be a table whose columns `--columns` selects."""
        self.keeps_test = keeps_test
        """Whether a run has test data, which `foveate evaluate` scores where no file is named."""
        self.looks = looks
        """Options of `foveate look` that only some tasks have."""
        self.quick = quick
        """Answers the command without torch if it can, and says whether it has."""

    @property
    def first(self) -> str:
        return next(iter(self.files))

    @cached_property
    def side(self) -> "Side":
        """The task's implementation of the commands. Raises TypeError when the module does not define `SIDE`."""
        side: Side | None = getattr(importlib.import_module(f"{self.home}.side"), "SIDE", None)
        if side is None:
            raise TypeError(f"{self.home}.side needs SIDE, an instance of a subclass of foveate.tasks.side.Side.")
        return side
