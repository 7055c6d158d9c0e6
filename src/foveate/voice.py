"""Messages of commands on standard error, separate from their output."""

import os
import sys
from typing import Any

_quiet = False


def hush(quiet: bool) -> None:
    """Set whether the command runs with --quiet, which allows results and errors only."""
    global _quiet
    _quiet = quiet


def say(text: str) -> None:
    """Print an explanation or advice, unless the command is quiet."""
    if not _quiet:
        tell(text)


def tell(text: str) -> None:
    """Print a result, or the reason why there is none."""
    print(plain(text), file=sys.stderr, flush=True)


def shown(text: str) -> str:
    """The output or a label of a model: unchanged in a file or a pipe, `plain` on a terminal."""
    return plain(text) if sys.stdout.isatty() else text


def colour_wanted() -> bool:
    """Whether output has colours: on a terminal, unless NO_COLOR is set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def screen() -> dict[str, Any]:
    """The arguments of `foveate.inspect.terminal` for standard output."""
    import shutil

    return {"colour": colour_wanted(), "width": shutil.get_terminal_size((100, 40)).columns}


def plain(text: str) -> str:
    """The text with escapes for characters that a terminal would obey or that would reorder the line.

    >>> plain("file \\x1b[2Jname\\u202e")
    'file \\\\x1b[2Jname\\\\u202e'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if _is_harmless(character) else _escape(character) for character in text)


def _is_harmless(character: str) -> bool:
    import unicodedata

    # Joiners occur in Persian words and emoji; every other format character hides or reorders text.
    return character in "\n\t\u200c\u200d" or unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
