"""The layout of an SVG picture, from the number of pieces and the length of their labels."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Literal

from foveate.inspect.caption import Direction, Reading, fit, printable, reading_direction
from foveate.inspect.figure.letter import width as text_width
from foveate.inspect.figure.scale import Shading
from foveate.inspect.figure.text_line import wrapped

if TYPE_CHECKING:
    from foveate.inspect.alignment import Alignment

Pixels = int | float

LABEL, CAPTION, TITLE = 12, 11, 15  # font sizes in pixels
PAD, GAP = 16, 7  # margins around the picture, and between grid and labels
RISE = TITLE + 4  # from a line of the title to the next
TITLED = 400  # the width that a title may have beside a narrower map
LEGEND, SPACE = 240, 18  # the minimum length of the legend's bar, and the space between its words
KEY = 12  # the side of a square in the legend for levels outside the scale
MANY = 64  # beyond this number of rows or columns, the cells become one embedded PNG
LONGEST = 28  # the maximum number of drawn characters of a label; its tooltip has all


@dataclass(frozen=True)
class Axis:
    """The labels of one side, with the interval and the width of those that are drawn."""

    labels: tuple[str, ...]
    every: int
    reading: Direction

    @property
    def drawn(self) -> Iterator[tuple[int, str]]:
        return ((i, fit(self.labels[i], LONGEST)) for i in range(0, len(self.labels), self.every))

    @property
    def widest(self) -> Pixels:
        return max((text_width(label) * LABEL for _, label in self.drawn), default=0.0)


@dataclass(frozen=True)
class Layout:
    """The places of all parts in pixels; `mirrored` if the source reads from right to left."""

    source: Axis
    target: Axis
    pitch: Pixels
    tilt: Literal[0, 45, 90]
    left: Pixels
    top: Pixels
    width: Pixels
    height: Pixels
    below: Pixels
    legend: Pixels
    """The length of the legend's bar."""
    title: tuple[str, ...]
    """The lines of the title."""

    @property
    def mirrored(self) -> bool:
        return self.source.reading == "rtl"

    @property
    def right(self) -> Pixels:
        return self.left + self.pitch * len(self.source.labels)

    @property
    def bottom(self) -> Pixels:
        return self.top + self.pitch * len(self.target.labels)

    def column(self, i: int) -> Pixels:
        """The left edge of source piece `i`."""
        return self.right - (i + 1) * self.pitch if self.mirrored else self.left + i * self.pitch


def arrange(
    alignment: "Alignment", title: str | None, names: tuple[str, str], reading: Reading, shading: Shading
) -> Layout:
    """Compute the layout from the number of pieces and the length of their labels."""
    rows, columns = alignment.weights.shape
    size = max(rows, columns)
    pitch = 22.0 if size <= 32 else 16.0 if size <= MANY else max(2.0, 768 // size)
    every = ceil(15 / pitch)
    source, target = _axis(alignment.source, every, reading), _axis(alignment.target, every, reading)
    tilt: Literal[0, 45, 90] = 45 if pitch >= 20 else 90
    if size <= 32 and source.widest <= 2.6 * LABEL:  # letters and phones are upright
        pitch, tilt = max(pitch, ceil(source.widest) + 4.0), 0
    rise = {0: LABEL + 2.0, 45: source.widest * 0.71 + 10, 90: source.widest}[tilt]
    lean = (
        max(text_width(label) * LABEL * 0.71 - pitch * (columns - i - 0.5) for i, label in source.drawn)
        if tilt == 45
        else 0.0
    )
    beside, beyond = target.widest + GAP, max(lean, 2.4 * CAPTION)
    bar = _bar(shading)
    width = max(beside + pitch * columns + beyond, bar, keys_width(shading))
    lines = title_lines(title, width)
    width = max(width, title_width(lines))
    mirrored = source.reading == "rtl"
    left = PAD + (width - beside - pitch * columns if mirrored else beside)
    upper = PAD + title_height(lines) + rise + GAP
    below = max(upper + pitch * rows, upper + 36 + text_width(names[1]) * CAPTION)
    foot = 62 + (KEY + 12 if any(shading.beside()) else 0)
    return Layout(source, target, pitch, tilt, left, upper, width + 2 * PAD, below + foot + PAD, below, bar, lines)


def title_lines(title: str | None, room: Pixels) -> tuple[str, ...]:
    """The lines of a title over a picture of some width."""
    return tuple(wrapped(title, max(room, TITLED) / TITLE, bold=True)) if title else ()


def title_height(lines: Sequence[str]) -> int:
    """The room of a title, with the space below it."""
    return len(lines) * RISE + 10 if lines else 0


def title_width(lines: Sequence[str]) -> Pixels:
    return max((text_width(line, bold=True) * TITLE for line in lines), default=0)


def _bar(shading: Shading) -> Pixels:
    """The length of the bar that separates the words below it; the outer ones are aligned with its ends."""
    needed = [float(LEGEND)]
    for (a, one), (b, other) in pairwise(shading.ticks):
        after = text_width(one) * CAPTION * (1 if a == 0 else 0.5)
        before = text_width(other) * CAPTION * (1 if b == 1 else 0.5)
        needed.append((after + before + SPACE) / (b - a))
    return ceil(max(needed))


def keys_width(shading: Shading) -> Pixels:
    """The width of the squares beside the scale, with their words."""
    return sum((KEY + 6 + text_width(words) * CAPTION + SPACE for _, words in shading.beside()), start=0.0)


def _axis(labels: Sequence[str], every: int, reading: Reading) -> Axis:
    return Axis(tuple(printable(label) for label in labels), every, reading_direction(labels, reading))
