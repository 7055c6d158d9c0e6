"""Draws an alignment as blocks of text, for a terminal, a log or a mail."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

from foveate.errors import UsageError
from foveate.inspect.caption import (
    Reading,
    cell_width,
    clusters,
    first_strong,
    fit,
    joins,
    printable,
    reading_direction,
)
from foveate.inspect.figure.scale import HIDDEN, INKS, NAN, STEPS, ZERO, Hue, Theme, hexadecimal, ramp, shaded

if TYPE_CHECKING:
    from foveate.inspect.alignment import Alignment

CELL = 2  # columns of a cell, which is then about square and as wide as a wide character
SHADES = " ░▒▓█"
BESIDE = {HIDDEN: "··", NAN: "××"}
"""The characters of hidden cells and of NaN."""
TALLEST = 12  # the maximum number of stacked characters of a column label; longer labels are numbered
WIDEST = 24  # columns of a row label
PICTURES = 4  # queries of a picture that are drawn one by one; of more, the mean is drawn
LEFT_TO_RIGHT = "\u200e"  # the mark separates the next number of a list from preceding right-to-left text
_RESET = "\x1b[0m"


def terminal(
    alignment: "Alignment",
    *,
    colour: bool = False,
    width: int | None = None,
    top: float | None = 1.0,
    theme: Theme = "dark",
    hue: Hue = "blue",
    reading: Reading = "auto",
) -> str:
    """The alignment as lines of text: 24-bit colours, or the shades ` ░▒▓█` without colour.

    Hidden cells are `··`, NaN is `××`. Column labels are upright; if they are too long, or if their letters join,
    columns are numbered and listed below. Pieces beyond `width` terminal columns follow in further panels. For a source
    that reads from right to left, columns are mirrored, with a note.

    The patches of a picture are drawn as they lie in it, once for each query or once for the mean of many queries, and
    the strongest patch is drawn strongest.

    >>> from foveate.inspect import Alignment
    >>> print(terminal(Alignment.of("cat", ["K", "AE1", "T"], [[1, 0, 0], [0.3, 0.7, 0], [0, 0.4, 0.6]])))
        c a t
      K ██
    AE1 ░░▓▓
      T   ▒▒▒▒
    0 not looked at  ░▒▓█  1 all attention

    >>> print(terminal(Alignment.of(["0,0", "0,1", "1,0", "1,1"], ["cat"], [[0, 0.6, 0.1, 0.3]], grid=(2, 2))))
    cat
      0 1
    0   ██
    1 ░░▒▒
    0 not looked at  ░▒▓█  0.6 largest here

    Raises `UsageError` for an empty alignment.
    """
    if not alignment.weights.size:
        raise UsageError(
            f"there is nothing to draw: {len(alignment.source)} source and {len(alignment.target)} target pieces. "
            "Give an input and an output that are not empty."
        )
    if alignment.grid is not None:
        look: dict[str, Any] = {"colour": colour, "width": width, "top": None, "theme": theme, "hue": hue}
        return "\n\n".join(f"{title}\n{terminal(picture, **look)}" for title, picture in _pictures(alignment))
    alignment = alignment.readable()
    shading = shaded(alignment, top=top, hue=hue)
    cells = _colours(theme, hue) if colour else _shades()
    header = _header([printable(label) for label in alignment.source])
    room = None if width is None else max(width, 16)
    rows = _pad_left(
        [fit(printable(label), WIDEST if room is None else min(WIDEST, room // 3)) for label in alignment.target]
    )
    beside = cell_width(rows[0]) + 1
    backwards = reading_direction(alignment.source, reading) == "rtl"
    panels = [
        "\n".join(_panel(columns[::-1] if backwards else columns, header, rows, shading.levels, cells))
        for columns in _split(len(alignment.source), None if room is None else (room - beside) // CELL)
    ]
    notes = [*header.key(room), *(["columns run from right to left, as the source reads"] if backwards else [])]
    bar = "".join(cells[step] for step in range(0, STEPS + 1, 10)) if colour else SHADES[1:]
    bar = bar.replace(" " * CELL + _RESET, " " + _RESET) if colour else bar
    keys = "   ".join(f"{cells[level]} {words}" for level, words in shading.beside())
    (_, low), (_, high) = shading.ticks
    return "\n".join(["\n\n".join(panels), *notes, f"{low}  {bar}  {high}", *([keys] if keys else [])])


def _pictures(alignment: "Alignment") -> Iterator[tuple[str, "Alignment"]]:
    """The weights of patches in the rows and columns of their picture, each map with its title."""
    rows, columns = alignment.grid or (0, 0)
    count, before = len(alignment.target), len(alignment.source) - rows * columns
    weights, visible, titles = alignment.weights, ~alignment.hidden, [printable(label) for label in alignment.target]
    if count > PICTURES:
        weights, visible = weights.mean(0, keepdims=True), np.asarray(visible.any(0, keepdims=True))
        titles = [f"mean of {count} queries"]
    for title, row, shown in zip(titles, weights, visible, strict=True):
        tokens = (f"{printable(label)} {row[at]:.3f}" for at, label in enumerate(alignment.source[:before]))
        picture = replace(
            alignment,
            source=tuple(map(str, range(columns))),
            target=tuple(map(str, range(rows))),
            weights=row[before:].reshape(rows, columns),
            visible=shown[before:].reshape(rows, columns),
            share=None,
            grid=None,
        )
        yield "  ".join([title, *tokens]), picture


@dataclass(frozen=True)
class Header:
    """Column labels as stacks of characters, or numbers with a list of their labels."""

    stacks: tuple[tuple[str, ...], ...]
    labels: tuple[str, ...] = ()

    def lines(self, columns: Sequence[int], beside: int) -> Iterator[str]:
        height = max(len(self.stacks[column]) for column in columns)
        for line in range(height):
            shown = (self._character(column, line - height) for column in columns)
            yield (" " * beside + "".join(shown)).rstrip()

    def _character(self, column: int, from_end: int) -> str:
        stack = self.stacks[column]
        character = stack[from_end] if -from_end <= len(stack) else ""
        return character + " " * (CELL - cell_width(character))

    def key(self, width: int | None) -> Iterator[str]:
        """The numbered labels, a few on each line."""
        line = ""
        for number, label in enumerate(self.labels, start=1):
            entry = f"{number} {label}" if width is None else fit(f"{number} {label}", width)
            if first_strong(label) == "rtl":
                entry += LEFT_TO_RIGHT
            if line and width is not None and cell_width(line) + 2 + cell_width(entry) > width:
                yield line
                line = ""
            line += "  " + entry if line else entry
        if line:
            yield line


def _header(labels: Sequence[str]) -> Header:
    stacks = [tuple(clusters(label)) for label in labels]
    if all(len(stack) <= TALLEST for stack in stacks) and not any(joins(label) for label in labels):
        return Header(tuple(stacks))
    numbers = [str(number) for number in range(1, len(labels) + 1)]
    if len(labels) < 100:  # two digits side by side, their last one over the cell's middle
        return Header(tuple((number.rjust(CELL),) for number in numbers), tuple(labels))
    return Header(tuple(tuple(number) for number in numbers), tuple(labels))


def _panel(
    columns: Sequence[int],
    header: Header,
    rows: Sequence[str],
    steps: Int[np.ndarray, "target source"],
    cells: Mapping[int, str],
) -> Iterator[str]:
    yield from header.lines(columns, cell_width(rows[0]) + 1)
    for label, row in zip(rows, steps, strict=True):
        yield f"{label} {''.join(cells[int(row[column])] for column in columns)}".rstrip()


def _split(count: int, per_panel: int | None) -> list[list[int]]:
    step = count if per_panel is None else max(per_panel, 1)
    return [list(range(begin, min(begin + step, count))) for begin in range(0, count, step)]


def _pad_left(labels: Sequence[str]) -> list[str]:
    widest = max(cell_width(label) for label in labels)
    return [" " * (widest - cell_width(label)) + label for label in labels]


def _shades() -> dict[int, str]:
    shades = {step: SHADES[(step * (len(SHADES) - 1) + STEPS // 2) // STEPS] * CELL for step in range(STEPS + 1)}
    return {**shades, ZERO: " " * CELL, **BESIDE}


def _colours(theme: Theme, hue: Hue) -> dict[int, str]:
    painted = {step: _on(hexadecimal(rgb)) + " " * CELL + _RESET for step, rgb in enumerate(ramp(theme, hue))}
    ink = INKS[theme]
    beside = {HIDDEN: (ink.hidden, ink.hatch), NAN: (ink.nan, ink.cross)}
    return {
        **painted,
        ZERO: " " * CELL,
        **{level: _on(ground) + _on(letter, 38) + BESIDE[level] + _RESET for level, (ground, letter) in beside.items()},
    }


def _on(colour: str, place: int = 48) -> str:
    return "\x1b[{};2;{};{};{}m".format(place, *bytes.fromhex(colour[1:]))
