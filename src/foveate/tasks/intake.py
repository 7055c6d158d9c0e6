"""Reads files, folders and standard input that arguments name. A bad one does not end the others."""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, TypeVar

from foveate.data.audio import AudioRows
from foveate.data.audio_pipe import Pipe
from foveate.data.reader import RowMaker
from foveate.data.text import read_lines
from foveate.errors import DataError, UsageError
from foveate.suggestion import counted
from foveate.tasks.option import require_used
from foveate.voice import tell

PIPE = "-"
"""The argument that stands for the sound of standard input."""
Answer = TypeVar("Answer")
Read = Callable[[str], Iterator[Any]]
"""The things of a name. Raises DataError for a name that cannot be read."""


@dataclass(frozen=True)
class Later:
    """A thing that is read when it is its turn."""

    read: Callable[[], Any]


@dataclass(frozen=True)
class _Failure:
    """The error in the place of a thing or of its answer."""

    error: DataError


class Intake:
    """The things of some names, in their order."""

    def __init__(self, command: str, names: Iterable[str], read: Read) -> None:
        self.command = command
        self._things = _of_names(names, read)
        first = list(islice(self._things, 2))
        self._things = chain(first, self._things)
        self.several = len(first) > 1
        """Whether there is more than one thing."""

    def answers(
        self, f: Callable[[Sequence[Any]], Sequence[Answer]], *, together: int = 1
    ) -> Iterator[tuple[Any, Answer | None]]:
        """Each thing with its answer by `f`, which is called with at most `together` things; None for a thing that
        cannot be read, whose error is printed.

        Raises DataError after the last thing if one could not be read; for a thing alone, its own error.
        """
        return self.numbered(lambda some, numbers: f(some), together=together)

    def numbered(
        self, f: Callable[[Sequence[Any], Sequence[int]], Sequence[Answer]], *, together: int = 1
    ) -> Iterator[tuple[Any, Answer | None]]:
        """`answers`, by a function that also gets the places of the things among all, from 0, for random numbers. Those
        that cannot be read have a place, too.
        """
        failed, total = 0, 0
        while group := list(islice(self._things, together)):
            for thing, answer in _answered(list(enumerate(group, start=total)), f):
                if not isinstance(answer, _Failure):
                    yield thing, answer
                    continue
                if not self.several:
                    raise answer.error
                failed += 1
                tell(f"foveate {self.command}: {answer.error}")
                yield thing, None
            total += len(group)
        if failed:
            raise DataError(f"{failed:,} of {counted(total, 'input')} could not be read; the reasons are above.")


def intake(rows: RowMaker, arguments: argparse.Namespace, *, sound: bool = False, whole: bool = True) -> Intake:
    """The things that the arguments of a command name; `-` is the sound of standard input, a WAV file, or with --rate
    raw samples: a `Recording`, and unless it is read as a `whole`, a `Pipe`.

    Without arguments, standard input is `sound`, or its lines are names; for a model of recordings it is also sound if
    it is a WAV file, or there is --rate. Raises UsageError for --rate without sound from standard input.
    """
    hears = sound or isinstance(rows, AudioRows)
    if arguments.inputs and PIPE not in arguments.inputs:
        require_used(arguments, {"rate": "sound from standard input"}, (), "where files are named")
    if not hears:
        require_used(arguments, {"rate": "recordings"}, (), "for a model of other things")
    names: Iterable[str] = arguments.inputs
    if not arguments.inputs:
        names = [PIPE] if sound or (hears and (arguments.rate or _is_wave())) else _lines()

    def read(name: str) -> Iterator[Any]:
        if not hears or name != PIPE:
            return rows.things(name)
        return iter([Later(lambda: _pipe(rows, arguments.rate).recording() if whole else _pipe(rows, arguments.rate))])

    return Intake(arguments.command, names, read)


def _pipe(rows: RowMaker, rate: int | None) -> Pipe:
    if not isinstance(rows, AudioRows):
        raise UsageError("This model reads vectors, not sound: name files.")
    if sys.stdin is None:  # the shell closed it: <&-
        raise DataError("standard input is closed. Name a file, or send a WAV file.")
    return Pipe.of(sys.stdin.buffer, rate)


def _is_wave() -> bool:
    peek = getattr(getattr(sys.stdin, "buffer", None), "peek", None)
    return peek is not None and peek(4)[:4] == b"RIFF"


def _lines() -> Iterator[str]:
    return (line.strip() for line in read_lines("-") if line.strip())


def _of_names(names: Iterable[str], read: Read) -> Iterator[Any]:
    """The things of names, or failures in their place."""
    for name in names:
        try:
            yield from read(name)
        except DataError as error:
            yield _Failure(error)


def _answered(
    group: Sequence[tuple[int, Any]], f: Callable[[Sequence[Any], Sequence[int]], Sequence[Answer]]
) -> list[tuple[Any, Answer | _Failure]]:
    """Things with their answers, one by one if one of them cannot be read."""
    group = [(number, _read(thing)) for number, thing in group]
    readable = [(number, thing) for number, thing in group if not isinstance(thing, _Failure)]
    try:
        answers = iter(f([thing for _, thing in readable], [number for number, _ in readable]) if readable else ())
    except DataError as error:
        if len(group) == 1:
            return [(group[0][1], _Failure(error))]
        return [one for numbered in group for one in _answered([numbered], f)]
    return [(thing, thing if isinstance(thing, _Failure) else next(answers)) for _, thing in group]


def _read(thing: Any) -> Any:
    """The thing itself, which may have waited for its turn, or a failure."""
    try:
        return thing.read() if isinstance(thing, Later) else thing
    except DataError as error:
        return _Failure(error)
