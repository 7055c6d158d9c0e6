"""The answers of a command to texts, printed one after the other."""

import argparse
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from foveate.tasks.option import chunks
from foveate.voice import say, shown


class Answering(ABC):
    """The answers of a trained model, with the options of a command line."""

    @abstractmethod
    def lines(self, texts: Sequence[str], first: int) -> Iterator[str]:
        """The lines of output for some texts, before which there were `first` others. Drawings are printed."""

    def remark(self) -> str:
        """A sentence on all answers together; empty if there is nothing to say."""
        return ""


def note_files(texts: Sequence[str]) -> None:
    """Say which texts are names of files, whose lines somebody may have meant."""
    for name in filter(os.path.isfile, texts):
        say(f"{name} is read as a text, and a file has this name: `< {name}` takes its lines.")


def print_answers(answering: Answering, arguments: argparse.Namespace) -> None:
    """Answer the texts of the command line, or the lines of standard input."""
    if isinstance(arguments.inputs, list):
        note_files(arguments.inputs)
    done = 0
    for chunk in chunks(arguments.inputs):
        for line in answering.lines(chunk, done):
            print(shown(line), flush=True)
        done += len(chunk)
    if remark := answering.remark():
        say(remark)
