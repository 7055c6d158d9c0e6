"""An entry of the list of tasks: what commands have to know before they import torch."""

import argparse
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foveate.tasks.side import Side


@dataclass(frozen=True, kw_only=True)
class Verb:
    """The command that uses a trained model of the task."""

    name: str
    summary: str
    input: str
    """What the inputs are, for the help."""
    epilog: str = ""
    """Examples, and what is printed."""
    run: str = "the run folder"
    placeholder: str = "TEXT"
    """How the help writes an input."""
    options: Callable[[argparse.ArgumentParser], None] = lambda parser: None
    """Adds the options that only this command takes."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A task: its name, what it is about, the files that it reads, and its command.

    The rest is in the package `home`: its `side.py` has `SIDE`, an instance of a subclass of `foveate.tasks.side.Side`,
    and is imported when a command first asks for it.
    """

    name: str
    home: str
    summary: str
    files: Mapping[str, str]
    """Settings of `data` that name files, and options of the same names, each with its help. The first is the one
    without which there is nothing to train on; `foveate evaluate` takes it too."""
    verb: Verb
    tests: Mapping[str, str] = field(default_factory=dict)
    """Files that `foveate compare` may measure on, by the setting of `data` that they stand for, each with its help."""
    lengths: Mapping[str, str] = field(default_factory=dict)
    """Lengths of an example that `foveate plan` may be given, each with its help."""
    reads_columns: bool = True
    """Whether a file may be a table, of which `--columns` are read."""

    @property
    def first(self) -> str:
        return next(iter(self.files))

    @cached_property
    def side(self) -> "Side":
        """What commands ask of the task. Raises TypeError where a part of it is missing."""
        from foveate.tasks.side import Side

        side = getattr(importlib.import_module(f"{self.home}.side"), "SIDE", None)
        if not isinstance(side, Side):
            raise TypeError(f"{self.home}.side needs SIDE, an instance of a subclass of foveate.tasks.side.Side.")
        return side
