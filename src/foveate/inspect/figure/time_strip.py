"""Draws a time alignment for a terminal: a line for each word, with a bar where it is heard."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from foveate.errors import UsageError
from foveate.inspect.caption import cell_width, first_strong, fit, printable
from foveate.inspect.chart import figure_text, nice_ticks
from foveate.inspect.figure.text_block import LEFT_TO_RIGHT, SHADES, WIDEST

if TYPE_CHECKING:
    from foveate.inspect.time_alignment import TimeAlignment
    from foveate.inspect.time_file import TimedLabel

LONGEST = 10.0
"""Seconds of one panel; what follows is drawn below it."""
LEAST = 16
"""The least number of columns of a panel's bars."""
APART = 6
"""The least number of columns between two ticks."""


def strip(alignment: "TimeAlignment", *, tier: str | None = None, width: int = 80) -> str:
    """One tier of a time alignment, its `first` unless it is named, as lines of text in at most `width` columns, from
    about 50 on.

    Each word has a line with its bar and its times in seconds; darker ends of a bar are columns that the word fills
    more. Each panel shows up to ten seconds.

    >>> from foveate.inspect import TimeAlignment
    >>> frames = [(2, 8), (9, 15), (16, 20)]
    >>> alignment = TimeAlignment.of_frames(["one", "two", "six"], frames, hop=0.1, name="a.wav", seconds=2.0)
    >>> print(strip(alignment, width=46))
        0 s     0.5    1       1.5    2
    one    ██████████                    0.20–0.80
    two               ▓█████████         0.90–1.50
    six                          ▒██████ 1.60–2.00

    Raises `UsageError` for a tier that does not exist or is empty.
    """
    tier = alignment.first if tier is None else tier
    labels = alignment.tier(tier)
    if not labels:
        raise UsageError(f"{alignment.name} has no {tier} to draw: nothing was recognised.")
    names = [fit(printable(each.label), min(WIDEST, width // 3)) for each in labels]
    times = [f"{each.start:.2f}–{each.end:.2f}" for each in labels]
    beside = max(map(cell_width, names)) + 1
    room = max(LEAST, width - beside - 1 - max(map(len, times)))
    panels = []
    for panel in _panels(labels):
        begin, end = _range([labels[number] for number in panel], alignment.seconds)
        lines = [" " * beside + _axis(begin, end, room)]
        for number in panel:
            name = names[number] + (LEFT_TO_RIGHT if first_strong(names[number]) == "rtl" else "")
            pad = " " * (beside - cell_width(names[number]))
            lines.append(f"{name}{pad}{_bar(labels[number], begin, end, room)} {times[number]}")
        panels.append("\n".join(lines))
    return "\n\n".join(panels)


def _panels(labels: "Sequence[TimedLabel]") -> Iterator[list[int]]:
    """The numbers of labels that are drawn together."""
    panel: list[int] = []
    for number, label in enumerate(labels):
        if panel and label.end > labels[panel[0]].start + LONGEST:
            yield panel
            panel = []
        panel.append(number)
    yield panel


def _range(labels: "Sequence[TimedLabel]", seconds: float) -> tuple[float, float]:
    """The seconds that a panel shows: all of a short recording, otherwise from its first label to its last."""
    if seconds <= LONGEST:
        return 0.0, seconds
    return labels[0].start, max(label.end for label in labels)


def _bar(label: "TimedLabel", begin: float, end: float, room: int) -> str:
    each = (end - begin) / room
    bar = ""
    for column in range(room):
        left = begin + column * each
        covered = (min(label.end, left + each) - max(label.start, left)) / each
        bar += SHADES[min(4, 1 + int(covered * 4))] if covered > 1e-6 else " "
    return bar


def _axis(begin: float, end: float, room: int) -> str:
    line = ""
    for tick in nice_ticks(begin, end, most=max(2, room // APART)):
        column = round((tick - begin) / (end - begin) * room)
        text = figure_text(tick) + ("" if line.strip() else " s")
        if begin <= tick <= end and column >= len(line) and column + len(text) <= room + 4:
            line = line.ljust(column) + text
    return line
