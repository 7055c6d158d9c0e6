"""An entry of the list of tasks: what commands have to know before they import torch.

These are plain classes: to import `dataclasses` takes as long as the rest of `foveate --help`.
"""

import argparse
import importlib
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

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
        """`input` and `run` are the help of the inputs and of the model's folder, `placeholder` is how the help writes
        an input, `epilog` has examples and says what is printed, `options` adds what only this command takes.
        """
        self.name, self.summary, self.epilog, self.options = name, summary, epilog, options
        self.input, self.run, self.placeholder = input, run, placeholder


class Entry:
    """A task: its name, what it is about, the files that it reads, and its command.

    The rest is in the package `home`: its `side.py` has `SIDE`, an instance of a subclass of `foveate.tasks.side.Side`,
    and is imported when a command first asks for it.
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
    ) -> None:
        self.name, self.home, self.summary, self.verb = name, home, summary, verb
        self.files = files
        """Settings of `data` that name files, and options of the same names, each with its help. The first is the one
        without which there is nothing to train on; `foveate evaluate` takes it too."""
        self.tests = tests or {}
        """Files that `foveate compare` may measure on, by the setting of `data` that they stand for, each with its
        help."""
        self.lengths = lengths or {}
        """Lengths of an example that `foveate plan` may be given, each with its help."""
        self.reads_columns = reads_columns
        """Whether a file may be a table, of which `--columns` are read."""

    @property
    def first(self) -> str:
        return next(iter(self.files))

    @cached_property
    def side(self) -> "Side":
        """What commands ask of the task. Raises TypeError where a part of it is missing."""
        side: Side | None = getattr(importlib.import_module(f"{self.home}.side"), "SIDE", None)
        if side is None:
            raise TypeError(f"{self.home}.side needs SIDE, an instance of a subclass of foveate.tasks.side.Side.")
        return side
