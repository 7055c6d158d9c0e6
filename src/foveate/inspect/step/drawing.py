"""Draws steps as SVG: formulas, sentences, and tables with tinted numbers."""

import math
from collections.abc import Sequence
from html import escape
from textwrap import wrap

from foveate.inspect.caption import cell_width, first_strong, fit, printable
from foveate.inspect.figure.element import FONTS
from foveate.inspect.figure.letter import width
from foveate.inspect.figure.scale import INKS
from foveate.inspect.figure.svg_layout import Pixels
from foveate.inspect.step.formula import Letters, boxed
from foveate.inspect.step.table import Shown, Table, tint

PAD, SIZE, SMALL, CELL, LINE = 20, 15, 12, 58, 20
GAP = 26
"""The space between two steps."""
WIDEST = 110
"""The maximum width of labels beside a table; longer ones are shortened."""


def drawing(steps: Sequence[Shown], title: str = "", remark: str = "") -> str:
    """All steps below one another as SVG: formula, sentence, and the tinted numbers."""
    ink = INKS["light"]
    parts: list[str] = []
    y: Pixels = PAD
    wide: Pixels = 0
    if title:
        shown = printable(title)
        parts.append(_words(PAD, y + 14, shown, 15, ink.text, bold=True))
        y, wide = y + 34, width(shown, bold=True) * 15
    for step in steps:
        formula = boxed(step.mathml, SIZE)
        symbol = width(step.symbol, bold=True) * SIZE + 18
        y += formula.above
        parts.append(_words(PAD, y, step.symbol, SIZE, ink.link, bold=True))
        for part in formula.moved(PAD + symbol, y):
            if isinstance(part, Letters):
                if part.text.strip():
                    parts.append(_words(part.x, part.y, part.text, part.size, ink.text, bold=part.bold))
            else:
                parts.append(_rect(part.x, part.y, part.width, part.height, ink.text))
        y += formula.below + 20
        parts.append(_words(PAD, y, step.about, SMALL, ink.quiet))
        wide = max(wide, symbol + formula.width, width(step.about) * SMALL)
        y += 10
        table = Table.of(step)
        drawn, table_width, height = _drawn_table(table, PAD, y)
        parts += drawn
        wide, y = max(wide, table_width), y + height + GAP
    for line in wrap(remark, 90):
        parts.append(_words(PAD, y, line, SMALL, ink.quiet))
        wide, y = max(wide, width(line) * SMALL), y + LINE
    high, wide = math.ceil(y - GAP + PAD), math.ceil(wide + 2 * PAD)
    description = escape(f"{title or 'Steps'}: {'; '.join(f'{step.symbol}. {step.about}' for step in steps)}")
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" '
        f'role="img" aria-label="{description}" font-family="{escape(FONTS)}">'
    )
    return "\n".join([head, f'<rect width="100%" height="100%" fill="{ink.paper}"/>', *parts, "</svg>"]) + "\n"


def _drawn_table(table: Table, x: Pixels, y: Pixels) -> tuple[list[str], Pixels, Pixels]:
    """The SVG of a table, its width and its height."""
    ink, parts = INKS["light"], list[str]()
    beside = tuple(_fitted(label, WIDEST) for label in table.beside)
    left = max((width(label) for label in beside), default=0.0) * SMALL
    left += 10 if left else 0
    cell = max(CELL, max(width(text) for row in table.cells for text in row) * SMALL + 14)
    top = y
    if table.above:
        for column, label in enumerate(table.above):
            shown = _fitted(label, cell - 6)
            parts.append(_words(x + left + (column + 1) * cell - 7, top + 14, shown, SMALL, ink.quiet, end=True))
        top += LINE
    for row, (label, cells, shares) in enumerate(zip(beside, table.cells, table.shares, strict=True)):
        line = top + row * LINE
        if label:
            parts.append(_words(x + left - 10, line + 14, label, SMALL, ink.text, end=True))
        for column, (text, share) in enumerate(zip(cells, shares, strict=True)):
            at = x + left + column * cell
            parts.append(_rect(at, line, cell - 1, LINE - 1, tint(share)))
            parts.append(_words(at + cell - 7, line + 14, text, SMALL, ink.text, end=True))
    columns = max(map(len, table.cells))
    return parts, left + columns * cell, top - y + len(table.cells) * LINE


def _fitted(label: str, room: Pixels) -> str:
    """The label, shortened to its room."""
    shown, count = label, cell_width(label)
    while count > 1 and width(shown) * SMALL > room:
        count -= 1
        shown = fit(label, count)
    return shown


def _words(x: Pixels, y: Pixels, text: str, size: Pixels, ink: str, *, bold: bool = False, end: bool = False) -> str:
    """Text on a line that begins or ends at `x`, in any reading direction."""
    backwards = first_strong(text) == "rtl"
    anchor = "end" if end != backwards else "start"
    weight = ' font-weight="600"' if bold else ""
    bidi = ' direction="rtl" unicode-bidi="embed"' if backwards else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}"{weight} text-anchor="{anchor}"{bidi} fill="{ink}">'
        f"{escape(text)}</text>"
    )


def _rect(x: Pixels, y: Pixels, width: Pixels, height: Pixels, ink: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:g}" fill="{ink}"/>'
