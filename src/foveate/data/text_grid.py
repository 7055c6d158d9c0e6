"""Reads the intervals of a Praat TextGrid: the long and the short text form, in UTF-8 or UTF-16.

Praat reads both forms alike: free-standing numbers, texts in double quotes (in which two double quotes are one) and
flags such as <exists> are values, and everything else is a comment.

Reference: the Praat manual, "TextGrid file formats".
"""

import codecs
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

from foveate.errors import DataError
from foveate.suggestion import counted, did_you_mean, listing, missing_file

LARGEST = 1 << 26
"""The limit on the size of a TextGrid, in bytes."""
INTERVALS, POINTS = "IntervalTier", "TextTier"
_NAMED = 8
_VALUE = re.compile(
    r'"(?P<text>(?:[^"]|"")*)"|!.*|(?P<number>(?<!\S)-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?(?!\S))|<(?P<flag>\w+)>'
)


class Interval(NamedTuple):
    """The line in the file, start and end in seconds, and the label of an interval."""

    line: int
    start: float
    end: float
    label: str


class _Value(NamedTuple):
    line: int
    kind: str
    text: str


def intervals(path: Path, tier: str | None = None) -> list[Interval]:
    """The intervals of one tier, which may be left out if there is only one tier of intervals.

    Raises DataError with file and line for a file that is not a TextGrid or ends early, and for tiers that are missing.
    """
    tiers = _tiers(path, _Values(path))
    named = [name for name, _ in tiers]
    names = listing(map(repr, named), _NAMED)
    with_intervals = [number for number, (_, inside) in enumerate(tiers) if inside is not None]
    if tier is None:
        if len(with_intervals) != 1:
            what = counted(len(with_intervals), "tier")
            raise DataError(
                f"{path} has {what} of intervals among the tiers {names or 'none'}. Name one as track.tier."
            )
        number = with_intervals[0]
    elif named.count(tier) == 1:
        number = named.index(tier)
    elif tier in named:
        raise DataError(f"{path} has several tiers with the name {tier!r}. Choose one by its number, counted from 1.")
    elif tier.isdecimal() and 1 <= int(tier) <= len(tiers):
        number = int(tier) - 1
    else:
        raise DataError(f"{path} has no tier {tier!r}, only {names or 'none'}.{did_you_mean(tier, named)}")
    inside = tiers[number][1]
    if inside is None:
        raise DataError(
            f"{path}: the tier {named[number]!r} has points, which last for no time. Choose one of intervals."
        )
    return inside


def _tiers(path: Path, values: "_Values") -> list[tuple[str, list[Interval] | None]]:
    """The name of each tier, with its intervals; None for a tier of points."""
    kind, grid = values.text(), values.text()
    if kind.text not in ("ooTextFile", "ooTextFile short") or grid.text != "TextGrid":
        raise DataError(f"{path} is not a TextGrid but {kind.text!r}, {grid.text!r}. Save a TextGrid as text in Praat.")
    values.number(), values.number()
    if values.take("flag").text != "exists":
        return []
    tiers: list[tuple[str, list[Interval] | None]] = []
    for _ in range(values.count()):
        of, name = values.text(), values.text().text
        values.number(), values.number()
        many = range(values.count())
        if of.text == INTERVALS:
            tiers.append((name, [values.interval() for _ in many]))
        elif of.text == POINTS:
            for _ in many:
                values.number(), values.text()
            tiers.append((name, None))
        else:
            raise DataError(
                f"{path}:{of.line}: {of.text!r} is not a class of tiers. Classes are {INTERVALS} and {POINTS}."
            )
    return tiers


class _Values:
    """The values of a file, one after the other."""

    def __init__(self, path: Path) -> None:
        self.path, self.line = path, 1
        self._values = self._read(_decoded(path))

    def _read(self, content: str) -> Iterator[_Value]:
        line, place = 1, 0
        for match in _VALUE.finditer(content):
            line += content.count("\n", place, match.start())
            place = match.start()
            if match.lastgroup:
                yield _Value(line, match.lastgroup, match[match.lastgroup])

    def take(self, kind: str) -> _Value:
        value = next(self._values, None)
        if value is None:
            raise DataError(f"{self.path} ends after line {self.line}, in the middle of a tier. Save it again.")
        self.line = value.line
        if value.kind != kind:
            self._refuse(f"{value.text!r} stands where a {kind} is needed")
        return value

    def text(self) -> _Value:
        value = self.take("text")
        return value._replace(text=value.text.replace('""', '"'))

    def number(self) -> float:
        return float(self.take("number").text)

    def count(self) -> int:
        number = self.number()
        if number != int(number) or number < 0:
            self._refuse(f"{number} stands where a number of tiers or intervals is needed")
        return int(number)

    def interval(self) -> Interval:
        start, end, label = self.number(), self.number(), self.text()
        return Interval(label.line, start, end, label.text)

    def _refuse(self, what: str) -> NoReturn:
        raise DataError(f"{self.path}:{self.line}: {what}. Save the TextGrid again, as text.")


def _decoded(path: Path) -> str:
    try:
        content = path.read_bytes() if path.stat().st_size <= LARGEST else None
    except FileNotFoundError:
        raise DataError(missing_file(path)) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    if content is None:
        raise DataError(f"{path} is larger than {LARGEST >> 20} MiB. Is it a TextGrid?")
    if content.startswith(b"ooBinaryFile"):
        raise DataError(f"{path} is a binary TextGrid. Save it as text in Praat.")
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{path} is neither UTF-8 nor UTF-16 text. Save the TextGrid as text in Praat.") from None
