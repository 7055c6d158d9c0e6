"""Errors for users. Each message names the problem, its place and a remedy.

The command line prints the message without a traceback and exits with the error's code; `--debug` adds the traceback.
"""

from typing import ClassVar


class FoveateError(Exception):
    """The base class of all errors for users."""

    exit_code: ClassVar[int] = 1
    shared = False
    """Whether all processes of a run raise it together, so that the first one alone prints it."""


class UsageError(FoveateError, ValueError):
    """The command or the configuration asks for something that does not exist (exit code 2)."""

    exit_code = 2


class DataError(FoveateError, ValueError):
    """A file, a text or a checkpoint is missing, damaged or of the wrong kind (exit code 3)."""

    exit_code = 3


class SetupError(FoveateError, RuntimeError):
    """The machine lacks something: a package, a compiler, disk space (exit code 4)."""

    exit_code = 4


class PeerError(FoveateError, RuntimeError):
    """Another process of the same run ended or stalled; the run can continue from its last checkpoint (exit code 5)."""

    exit_code = 5
