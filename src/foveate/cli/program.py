"""The program: its commands by name, how a command line is parsed and its command run, and how errors are printed.

A command is a module of `foveate.cli` with `arguments(parser)` and `run(arguments)`.
"""

import argparse
import errno
import importlib
import io
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn

from foveate import __version__
from foveate.cli.overwriting import require_apart
from foveate.errors import FoveateError, SetupError
from foveate.suggestion import did_you_mean
from foveate.tasks import TASKS
from foveate.tasks.entry import Entry
from foveate.voice import hush, tell


def verbs() -> dict[str, list[Entry]]:
    """Commands that use a trained model, each with its tasks: `foveate.cli.verb` is the module of all of them."""
    tasks: dict[str, list[Entry]] = {}
    for task in TASKS.values():
        tasks.setdefault(task.verb.name, []).append(task)
    return tasks


def commands() -> dict[str, str]:
    """Each command and what it does, in the order of the help."""
    return {
        "train": "train a model on your data",
        "resume": "continue a training run exactly where it stopped",
        **{name: tasks[0].verb.summary for name, tasks in verbs().items()},
        "compare": "train variants on the same data with the same budget, with error bars",
        "evaluate": "score a trained model, or its output in a file",
        "report": "write a run's report: curves, samples and attention",
        "export": "write a trained model for another engine",
        "look": "draw the attention of a model",
        "serve": "answer other programs: runs behind an address, with the weights of every answer",
        "plan": "show parameters, memory, arithmetic and attention paths before training",
        "completion": "print a script that completes commands and options in your shell",
        "doctor": "show versions and settings for this machine, and run a self-test",
    }


def module_of(command: str) -> Any:
    """The module of a command."""
    return importlib.import_module(f"foveate.cli.{'verb' if command in verbs() else command}")


def run(argv: Sequence[str]) -> int:
    """Run a command; returns its exit code. Raises KeyboardInterrupt while the command line is parsed."""
    if sys.stdout is None:  # closed by the shell's >&-
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (open until the process ends)
    if sys.stderr is None:  # by 2>&-
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    _speak_utf8()
    _outlast_errors()
    try:
        arguments = _parse(argv)
    except OSError as error:  # in writing help or the version
        return _unwritten("foveate", error)
    hush(getattr(arguments, "quiet", False))
    try:
        require_apart(arguments)
        with _permission(getattr(arguments, "modules", ())):
            return int(module_of(arguments.command).run(arguments) or 0)
    except FoveateError as error:
        if arguments.debug:
            import traceback

            traceback.print_exc()
        elif not (error.shared and os.environ.get("RANK", "0") != "0"):
            tell(f"foveate {arguments.command}: {error}")
        return error.exit_code
    except ModuleNotFoundError as error:
        if arguments.debug or (error.name or "foveate").startswith("foveate"):
            raise
        package = str(error.name).partition(".")[0]
        tell(f"foveate {arguments.command}: The package {package} is not installed. Run: pip install {package}")
        return SetupError.exit_code
    except OSError as error:
        if arguments.debug and not isinstance(error, BrokenPipeError):
            raise
        return _unwritten(f"foveate {arguments.command}", error)
    except (MemoryError, RuntimeError) as error:
        if arguments.debug or not _is_full(error):
            raise
        print(f"foveate {arguments.command}: {OUT_OF_MEMORY}", file=sys.stderr)
        return SetupError.exit_code
    except KeyboardInterrupt:
        print(f"foveate {arguments.command}: stopped.", file=sys.stderr)
        return INTERRUPTED


def _permission(modules: Sequence[str]) -> AbstractContextManager[None]:
    """A context in which configurations may name the user's modules that `--import` names."""
    if not modules:
        return nullcontext()
    from foveate.config import permit  # takes as long as the rest of `foveate --help`

    return permit(*modules)


NAMES = ("FILE", "FOLDER", "OUT", "RUN", "TOML", "TASK TOML")
"""Placeholders of names, which are not empty."""
INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells give it."""
LOADING = ("resume", "evaluate", "report", "export", "look", "serve")
"""Commands that load a run, besides those of the tasks."""
FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a disk or a quota that is full. Those of standard output name no file."""
OUT_OF_MEMORY = (
    "there is not enough memory. Give shorter texts, fewer at once (--beam, data.max_tokens) or a smaller model; "
    "`foveate plan` says how much training needs."
)


def _unwritten(program: str, error: OSError) -> int:
    """The exit code after standard output could not be written: its reader has left, or the disk is full. Raises other
    errors again.
    """
    if isinstance(error, BrokenPipeError):
        _leave_pipe()
        return 0
    if error.errno not in FULL or error.filename is not None:
        raise error
    tell(f"{program}: the output cannot be written: {error.strerror}. Free some space, or choose another place.")
    _leave_pipe()
    return SetupError.exit_code


def _is_full(error: Exception) -> bool:
    """Whether memory is exhausted, which torch reports only in the message of its error."""
    message = str(error)
    return isinstance(error, MemoryError) or "allocate memory" in message or "out of memory" in message


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments. The command refuses words that are left over, because it knows its options, and empty names."""
    parser = build_parser(argv)
    arguments, rest = parser.parse_known_args(argv)
    command = parser.commands[arguments.command]
    for action in command._actions:
        values = getattr(arguments, action.dest, None)
        if action.metavar in NAMES and "" in (values if isinstance(values, list) else [values]):
            command.error(
                f"{'/'.join(action.option_strings) or action.metavar}: the name is empty. Is a variable unset?"
            )
    before = argv[: list(argv).index(arguments.command)]
    misplaced = [word for word in before if word.partition("=")[0] in command._option_string_actions]
    if misplaced:
        command.error(f"{misplaced[0]} belongs behind the command: foveate {arguments.command} {misplaced[0]} …")
    if rest:
        unknown = next((name[2:].partition("=")[0] for name in rest if name.startswith("--")), "")
        names = [name.lstrip("-") for name in command._option_string_actions]
        guess = did_you_mean(unknown, names).replace("'", "'--", 1)
        command.error(f"unrecognized arguments: {' '.join(rest)}.{guess}")
    return arguments


EPILOG = """
models that come with foveate, in place of RUN:
  en-fr        translates English to French
  en-sounds    pronounces English words
  us-address   labels the parts of addresses of the United States

foveate COMMAND --help explains a command with an example.
"""


def build_parser(argv: Sequence[str], *, whole: bool = False) -> "_Choosing":
    """The parser of all commands, with the arguments of the called command, or of all with `whole`."""
    parser = _Choosing(
        prog="foveate",
        description="Attention models to train, run fast and look inside.",
        epilog=EPILOG,
        formatter_class=_Formatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show program's version number and exit")
    choice = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Command)
    for name, summary in commands().items():
        command = choice.add_parser(
            name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", formatter_class=_Formatter
        )
        if whole or name in argv:
            command.name, command.words = name, argv
            module_of(name).arguments(command)
        if name in (*LOADING, *verbs()):
            command.add_argument(
                "--import",
                dest="modules",
                action="append",
                default=[],
                metavar="MODULE",
                help="import a module of yours whose classes the run's configuration names, which runs its code",
            )
        command.add_argument("--debug", action="store_true", help="show the traceback of an error")
        parser.commands[name] = command
    return parser


class _Choosing(argparse.ArgumentParser):
    """Suggests the nearest choice for an invalid word."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: dict[str, argparse.ArgumentParser] = {}
        self.name = ""
        """The name of the command, if this is the parser of one."""
        self.words: Sequence[str] = ()
        """The words of the command line: help shows only the options of the task among them."""

    def _print_message(self, message: str, file: Any = None) -> None:
        """argparse says nothing of a full disk, and Python does so only at exit."""
        if file is not sys.stdout:
            super()._print_message(message, file)
            return
        file.write(message)
        file.flush()

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += did_you_mean(str(value), map(str, action.choices or ()))
            raise


class _Command(_Choosing):
    """Takes positional arguments and options in any order: argparse alone loses a TEXT or TOML after an option."""

    _mixing = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self._mixing:
            return super().parse_known_args(args, namespace)
        words = list(sys.argv[1:] if args is None else args)
        self._mixing = True
        try:
            namespace, rest = self.parse_known_intermixed_args(_marked(words), namespace)
        finally:
            self._mixing = False
        for name, value in vars(namespace).items():
            setattr(namespace, name, _unmarked(value))
        return namespace, _unmarked(rest)

    def error(self, message: str) -> NoReturn:
        super().error(message.replace(MARK, "").replace(repr(MARK)[1:-1], ""))


MARK = "\0"
"""Before a word behind `--`, so that argparse takes it for no option: no word of a command line can have it."""


def _marked(words: Sequence[str]) -> list[str]:
    """Words in which those behind `--` are marked where they would be options: argparse, which is asked twice for
    words in any order, forgets the `--` before the second time.
    """
    if "--" not in words:
        return list(words)
    place = words.index("--")
    return [*words[: place + 1], *(f"{MARK}{word}" if word.startswith("-") else word for word in words[place + 1 :])]


def _unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmarked(each) for each in value]
    return value.removeprefix(MARK) if isinstance(value, str) else value


class _Version(argparse.Action):
    """The version, whatever the width of the terminal: argparse's own action would wrap it as a text."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(f"foveate {__version__}", flush=True)
        parser.exit()


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the line breaks of examples, and uses 100 columns."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32, width=100)


def _speak_utf8() -> None:
    """Output is UTF-8 as input is, whatever the locale says; a terminal of another encoding shows question marks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            if stream.isatty():
                stream.reconfigure(errors="replace")
            else:
                stream.reconfigure(encoding="utf-8")


class _LastingErrors(io.FileIO):
    """Standard error that may be lost: messages are not the result, which the command goes on to compute."""

    stream: io.TextIOWrapper
    """The stream before, which would close the file if nothing referred to it."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.EIO, *FULL):
                raise
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(data)


def _outlast_errors() -> None:
    """Go on in silence where standard error cannot be written: its reader has left, or its disk is full."""
    stream = sys.stderr
    if type(stream) is io.TextIOWrapper and not isinstance(getattr(stream.buffer, "raw", None), _LastingErrors):
        raw = _LastingErrors(stream.fileno(), "w", closefd=False)
        raw.stream = stream
        buffer = io.BufferedWriter(raw)
        sys.stderr = io.TextIOWrapper(buffer, stream.encoding, stream.errors, line_buffering=True, write_through=True)


def _leave_pipe() -> None:
    """Discards all further output, also that of Python at exit, because the reader of the pipe has closed it, or the
    disk is full.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
