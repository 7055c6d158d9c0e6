"""Draws a time alignment as SVG: waveform and spectrogram above, words and letters with their times below."""

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from foveate.errors import UsageError
from foveate.inspect.caption import cell_width, fit, printable
from foveate.inspect.chart import figure_text, nice_ticks
from foveate.inspect.figure.element import PageTheme, document, font, frame, heading, painted, px, text_element
from foveate.inspect.figure.letter import width
from foveate.inspect.figure.paint import Paint
from foveate.inspect.figure.scale import STEPS
from foveate.inspect.figure.svg_layout import CAPTION, GAP, LABEL, PAD, Pixels, title_height, title_lines

if TYPE_CHECKING:  # the import of pictures of alignments must be quick
    from foveate.inspect.time_alignment import TimeAlignment
    from foveate.inspect.time_file import TimedLabel
    from foveate.inspect.trace.media import Picture
    from foveate.inspect.trace.sound import Sound

AXIS, WAVE, BANDS = 18, 56, 128
BOX, TIMES = 22, 14
"""The heights of a label's box, and of the times within it."""
CALL, ROWS = 17, 3
"""The height of a row of labels below their boxes, and the most such rows."""
NARROWEST, WIDEST, SECOND = 560, 4000, 150
"""Pixels of a picture, at least and at most, and of a second."""
TINT = 12
"""The level of the colour of boxes."""


def time_svg(
    alignment: "TimeAlignment",
    *,
    sound: "Sound | None" = None,
    picture: "Picture | None" = None,
    title: str | None = None,
    theme: PageTheme = "light",
) -> str:
    """A time alignment as an SVG document, with the outline of its sound and with its spectrogram, if they are given.

    Every tier has a line of boxes, labels above their times in seconds; boxes that overlap have further lines. A label
    that is longer than its box stands below it; where so many do that they need more than three rows, they are
    shortened, and their tooltips have all of them. `picture` is a spectrogram by
    `foveate.inspect.spectrogram` that lasts as long as the recording.

    Raises `UsageError` for an alignment without labels, and for another picture.
    """
    tiers = [(name, _lines(labels)) for name, labels in alignment.tiers.items() if labels]
    if not tiers:
        raise UsageError(f"{alignment.name} has no labels to draw: nothing was recognised.")
    paint, style = painted(theme)
    called = printable(title if title is not None else alignment.name)
    left = PAD + max(width(printable(name)) for name, _ in tiers) * CAPTION + GAP
    wide = min(WIDEST, max(NARROWEST, alignment.seconds * SECOND))
    place = _Place(left, wide / alignment.seconds)
    headline = title_lines(called, left + wide - PAD)
    y: Pixels = PAD + title_height(headline)
    parts = list(heading(headline, paint))
    parts += _axis(place, alignment.seconds, y, paint)
    y = top = y + AXIS
    if sound is not None:
        parts.append(_wave(place, sound, y, paint))
        y += WAVE
    if picture is not None:
        parts.append(paint.image(_levels(picture), frame(left, y, wide, BANDS)))
        y += BANDS
    edges = sorted({at for each in alignment.tiers[tiers[0][0]] for at in (each.start, each.end)})
    if y > top:
        parts.append(_rulers(place, edges, top, y, paint))
        y += GAP
    for tier, (name, lines) in enumerate(tiers):
        high = BOX + (TIMES if tier == 0 else 0)
        parts.append(
            text_element(left - GAP, y + BOX * 0.68, printable(name), "right", paint.ink("quiet"), font(CAPTION))
        )
        for line in lines:
            below = _below(place, line, left + wide)
            for label in line:
                parts += _box(place, label, y, high, paint, named=id(label) not in below)
                if id(label) in below:
                    parts += _word_below(place, label, below[id(label)], y + high, paint)
            y += high + 3 + CALL * (1 + max((row for row, _ in below.values()), default=-1))
        y += GAP - 3
    spoken = "; ".join(f"{printable(each.label)} {each.start:.2f} to {each.end:.2f} s" for each in _first(alignment))
    high, wide = ceil(y + PAD - GAP), ceil(left + wide + PAD)
    return document(parts, (wide, high), f"{called}. {spoken}.", paint, style)


class _Place:
    """Converts seconds to pixels."""

    def __init__(self, left: Pixels, second: Pixels) -> None:
        self.left, self.second = left, second

    def __call__(self, seconds: float) -> Pixels:
        return self.left + seconds * self.second


def _first(alignment: "TimeAlignment", most: int = 12) -> "Sequence[TimedLabel]":
    return next(labels for labels in alignment.tiers.values() if labels)[:most]


def _lines(labels: "Sequence[TimedLabel]") -> "list[list[TimedLabel]]":
    """Labels in as few lines as possible, so that those of a line do not overlap."""
    lines: list[list[TimedLabel]] = []
    for label in labels:
        free = next((line for line in lines if line[-1].end <= label.start + 1e-6), None)
        if free is None:
            lines.append([label])
        else:
            free.append(label)
    return lines


def _below(place: _Place, line: "Sequence[TimedLabel]", right: Pixels) -> "dict[int, tuple[int, Pixels]]":
    """The row and the middle of each label that is too long for its box, and stands below it; none if rows are full."""
    ends: list[Pixels] = []
    below = {}
    for label in line:
        text, room = printable(label.label), (label.end - label.start) * place.second
        if not text or width(text) * LABEL <= room - 4:
            continue
        half = width(text) * LABEL / 2
        middle = min(max(place(label.start) + room / 2, place.left + half), right - half)
        row = next((row for row, end in enumerate(ends) if end + GAP <= middle - half), len(ends))
        if row == ROWS:
            return {}
        ends[row : row + 1] = [middle + half]
        below[id(label)] = (row, middle)
    return below


def _axis(place: _Place, seconds: float, y: Pixels, paint: Paint) -> Iterator[str]:
    last = -1e9
    for tick in nice_ticks(0.0, seconds, most=max(3, int(seconds * place.second / 70))):
        x, text = place(tick), figure_text(tick) + (" s" if tick == 0 else "")
        if tick > seconds or x < last:
            continue
        yield f'<path d="M{px(x)} {px(y + AXIS - 5)}V{px(y + AXIS)}" {paint.ink("hatch")}/>'
        yield text_element(x + 3, y + AXIS - 6, text, "left", paint.ink("quiet"), font(CAPTION))
        last = x + width(text) * CAPTION + 8


def _wave(place: _Place, sound: "Sound", y: Pixels, paint: Paint) -> str:
    """The outline as one polygon: its highest samples to the right, its lowest back to the left."""
    middle, tall = y + WAVE / 2, WAVE / 2 - 3
    times = (np.arange(len(sound.high)) + 0.5) * sound.seconds / len(sound.high)
    upper = [(place(at), middle - max(high * tall / 127, 0.4)) for at, high in zip(times, sound.high, strict=True)]
    lower = [(place(at), middle - min(low * tall / 127, -0.4)) for at, low in zip(times, sound.low, strict=True)]
    points = " ".join(f"{px(x)},{px(at)}" for x, at in [*upper, *reversed(lower)])
    return f'<polygon points="{points}" {paint.ink("text")}/>'


def _rulers(place: _Place, edges: Sequence[float], top: Pixels, bottom: Pixels, paint: Paint) -> str:
    lines = "".join(f"M{px(place(at))} {px(top)}V{px(bottom + GAP)}" for at in edges)
    return f'<path d="{lines}" fill="none" stroke-width="1" stroke-opacity="0.6" {paint.ink("link")}/>'


def _word_below(
    place: _Place, label: "TimedLabel", where: tuple[int, Pixels], y: Pixels, paint: Paint
) -> Iterator[str]:
    """A label under its box, with a line to it."""
    (row, middle), x = where, place((label.start + label.end) / 2)
    line = f"M{px(x)} {px(y)}L{px(middle)} {px(y + 4 + row * CALL)}"
    yield f'<path d="{line}" fill="none" stroke-width="1" {paint.ink("hatch")}/>'
    text = printable(label.label)
    yield text_element(middle, y + (row + 1) * CALL - 2, text, "centre", paint.ink("text"), font(LABEL))


def _box(place: _Place, label: "TimedLabel", y: Pixels, high: Pixels, paint: Paint, *, named: bool) -> Iterator[str]:
    x, room = place(label.start), (label.end - label.start) * place.second
    text, times = printable(label.label), f"{label.start:.2f}–{label.end:.2f}"
    box = frame(x, y, max(room, 1), high)
    yield f"<rect {box} {paint.level(TINT)}><title>{escape(f'{text}: {times} s')}</title></rect>"
    yield f'<rect {box} fill="none" stroke-width="1" pointer-events="none" {paint.ink("hatch")}/>'
    middle, shown = x + room / 2, _fitted(text, room - 4) if named else ""
    if shown:
        yield text_element(middle, y + BOX * 0.68, shown, "centre", paint.ink("text"), font(LABEL))
    if high > BOX and width(times) * (CAPTION - 1) <= room - 2:
        yield text_element(middle, y + high - 6, times, "centre", paint.ink("quiet"), font(CAPTION - 1))


def _fitted(text: str, room: Pixels) -> str:
    """As much of a label as fits; nothing if not even a letter does."""
    for count in range(cell_width(text), 0, -1):
        shown = fit(text, count)
        if width(shown) * LABEL <= room and shown != "…":
            return shown
    return ""


def _levels(picture: "Picture") -> np.ndarray:
    grey = picture.grey
    if grey is None:
        raise UsageError(
            "The picture of the frames has colours or was made elsewhere. Draw the energies with "
            "`foveate.inspect.spectrogram(energies)`, or leave the picture out."
        )
    return np.rint(grey * (STEPS / 255)).astype(int)
