"""Messages of commands on standard error, separate from their output."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from operator import length_hint
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
    """The same things, with their progress, unless the command is quiet: on a terminal a bar, after the first second;
    elsewhere a line each half minute. Things with a length, or a hint of one, have a total.

    >>> list(watched("abc", "letters"))
    ['a', 'b', 'c']
    """
    stream = stream or sys.stderr
    if _quiet:
        yield from things
        return
    live = stream.isatty() and os.environ.get("TERM") != "dumb"
    every, form = (0.1, "\r\x1b[2K{}") if live else (30.0, "{}\n")
    total, began = length_hint(things), clock()
    drawn = start = began + (1.0 if live else 30.0) - every  # so that quick work shows nothing
    try:
        for count, thing in enumerate(things):
            now = clock()
            if now - drawn >= every:
                drawn = now
                stream.write(form.format(_progress(count, total, what, now - began, bar=live)))
                stream.flush()
            yield thing
    finally:
        if live and drawn > start:
            stream.write("\r\x1b[2K")
            stream.flush()


def _progress(count: int, total: int, what: str, seconds: float, *, bar: bool) -> str:
    """The progress of work in words.

    >>> _progress(300, 1200, "recordings", 20.0, bar=True)
    '[#####...............]  300 of 1,200 recordings  15 per second  1:00 left'
    >>> _progress(300, 0, "recordings", 20.0, bar=True)
    '300 recordings  15 per second'
    """
    if not count:
        return f"0 {what}"
    pace = count / seconds
    speed = f"{pace:,.0f} per second" if pace >= 0.95 else f"{1 / pace:,.1f} seconds each"
    if count > total:
        return f"{count:,} {what}  {speed}"
    done = count * 20 // total
    drawn = f"[{'#' * done}{'.' * (20 - done)}]  " if bar else ""
    minutes, rest = divmod(round((total - count) / pace), 60)
    return f"{drawn}{count:,} of {total:,} {what}  {speed}  {minutes}:{rest:02} left"


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
