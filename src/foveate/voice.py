"""What commands say on standard error, where it does not mix with output, and how much of it."""

import os
import sys
from typing import Any

_quiet = False


def hush(quiet: bool) -> None:
    """Whether the command that runs was called with --quiet: then only results and errors are said."""
    global _quiet
    _quiet = quiet


def say(text: str) -> None:
    """Tell the user something that explains or advises."""
    if not _quiet:
        tell(text)


def tell(text: str) -> None:
    """Tell the user a result, or why there is none."""
    print(plain(text), file=sys.stderr, flush=True)


def shown(text: str) -> str:
    """What a model wrote, or a label of its folder: as it is in a file or a pipe, `plain` on a terminal."""
    return plain(text) if sys.stdout.isatty() else text


def colour_wanted() -> bool:
    """Colours on a terminal, unless NO_COLOR is set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def screen() -> dict[str, Any]:
    """How `foveate.inspect.terminal` draws on standard output."""
    import shutil

    return {"colour": colour_wanted(), "width": shutil.get_terminal_size((100, 40)).columns}


def plain(text: str) -> str:
    """The text with what a terminal would obey, or what would reorder the line, as escapes: a name may hold either.

    >>> plain("file \\x1b[2Jname\\u202e")
    'file \\\\x1b[2Jname\\\\u202e'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if _is_harmless(character) else _escape(character) for character in text)


def _is_harmless(character: str) -> bool:
    import unicodedata

    # Joiners make Persian words and emoji; every other format character hides or reorders.
    return character in "\n\t\u200c\u200d" or unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
