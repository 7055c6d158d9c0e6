"""Messages of commands on standard error, separate from their output."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import Any, TypeVar

T = TypeVar("T")

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


def watched(
    things: Iterable[T], what: str, *, stream: Any = None, clock: Callable[[], float] = monotonic
) -> Iterator[T]:
    """The same things. A line on the terminal counts them, after the first second, unless the command is quiet.

    >>> list(watched("abc", "letters"))
    ['a', 'b', 'c']
    """
    stream = stream or sys.stderr
    if _quiet or not stream.isatty() or os.environ.get("TERM") == "dumb":
        yield from things
        return
    began = clock()
    drawn = began + 0.9  # so that quick work shows nothing
    try:
        for count, thing in enumerate(things):
            now = clock()
            if now - drawn >= 0.1:
                drawn = now
                stream.write(f"\r\x1b[2K{count:,} {what}  {count / (now - began):,.0f} per second")
                stream.flush()
            yield thing
    finally:
        if drawn > began + 0.9:
            stream.write("\r\x1b[2K")
            stream.flush()


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
