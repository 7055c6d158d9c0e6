"""The alignment as PNG, for places that take no SVG: pixels, and letters of a built-in ASCII font."""

from collections.abc import Sequence
from math import ceil

import numpy as np
from jaxtyping import UInt8

from foveate.errors import UsageError
from foveate.inspect.alignment import Alignment
from foveate.inspect.figure.font import draw
from foveate.inspect.figure.pixel import encode
from foveate.inspect.figure.scale import INKS, RGB, STEPS, Hue, Theme, legend, levels, ramp, top_of
from foveate.inspect.label import fit, printable

Canvas = UInt8[np.ndarray, "_ _"]  # pictures of any two sizes

# Palette numbers after the 101 steps of the scale.
PAPER, TEXT, GRID = STEPS + 1, STEPS + 2, STEPS + 3
ZOOM = 2  # pixels of the picture per pixel of the font
LINE = 9 * ZOOM + 2
PAD, GAP, BAR = 20, 8, 14
LONGEST = 28
LARGEST = 4096  # rows or columns beyond which a single PNG is no picture any more


def png(
    alignment: Alignment,
    *,
    title: str | None = None,
    theme: Theme = "light",
    hue: Hue = "blue",
    top: float | None = 1.0,
    words: tuple[str, str] | None = None,
) -> bytes:
    """The alignment as a PNG file: source pieces are columns, target pieces rows; column labels read upwards.

    `words` stand at the ends of the scale when weights are shown by another measure. The same arguments give the same
    bytes. The title and a description in words are kept inside as `iTXt`.

    Raises `UsageError` when there is nothing to draw or a label is not ASCII: then write an SVG, which carries all.
    """
    rows, columns = alignment.weights.shape
    if not 0 < min(rows, columns) <= max(rows, columns) <= LARGEST:
        raise UsageError(
            f"a picture needs 1 to {LARGEST} source and target pieces, but there are {columns} and {rows}. "
            "Give an input and an output that are not empty, or draw a part of them."
        )
    cell = 24 if max(rows, columns) <= 64 else max(2, 1536 // max(rows, columns))
    strongest = top_of(alignment.weights, top)
    canvas = _lay_out(_grid(levels(alignment.weights, strongest).astype(np.uint8), cell), cell, alignment, title)
    canvas = _stack(canvas, _legend(words or legend(strongest, float(alignment.weights.max()))))
    details = {"Title": title or "Alignment", "Description": alignment.describe()}
    return encode(np.pad(canvas, PAD, constant_values=PAPER), _palette(theme, hue), details)


def _palette(theme: Theme, hue: Hue) -> list[RGB]:
    ink = INKS[theme]
    named = [bytes.fromhex(colour[1:]) for colour in (ink.paper, ink.text, ink.grid)]
    return [*ramp(theme, hue), *((red, green, blue) for red, green, blue in named)]


def _grid(steps: Canvas, cell: int) -> Canvas:
    """Each weight as a square, with lines between the squares while they are large enough."""
    pixels = steps.repeat(cell, axis=0).repeat(cell, axis=1)
    if cell >= 12:
        pixels[::cell, :] = pixels[:, ::cell] = GRID
    return np.pad(pixels, ((0, 1), (0, 1)), constant_values=GRID)


def _lay_out(grid: Canvas, cell: int, alignment: Alignment, title: str | None) -> Canvas:
    """Row labels to the left, column labels above, turned so that they read upwards, the title on top."""
    beside = _ladder(alignment.target, cell, flush_right=True)
    above = np.rot90(_ladder(alignment.source, cell, flush_right=False))
    picture = np.full(
        (above.shape[0] + GAP + grid.shape[0], beside.shape[1] + GAP + grid.shape[1]), PAPER, dtype=np.uint8
    )
    picture[-grid.shape[0] :, -grid.shape[1] :] = grid
    picture[: above.shape[0], -grid.shape[1] :] = above
    picture[-grid.shape[0] :, : beside.shape[1]] = beside
    return _stack(_write(printable(title)), picture) if title else picture


def _ladder(labels: Sequence[str], cell: int, flush_right: bool) -> Canvas:
    """Labels one below the other, each at the middle of its cell; some are left out where cells are too low."""
    every = ceil(LINE / cell)
    written = {i: _write(fit(printable(labels[i]), LONGEST, "~")) for i in range(0, len(labels), every)}
    widest = max(label.shape[1] for label in written.values())
    high = LINE + cell  # room for the first and last label, which may be higher than their cells
    canvas = np.full((len(labels) * cell + 1 + 2 * high, widest), PAPER, dtype=np.uint8)
    for i, label in written.items():
        top = high + i * cell + cell // 2 - 7
        left = widest - label.shape[1] if flush_right else 0
        canvas[top : top + label.shape[0], left : left + label.shape[1]] = label
    return canvas[high:-high]


def _legend(words: tuple[str, str]) -> Canvas:
    """The scale as a bar, its ends in words below."""
    low, high = _write(words[0]), _write(words[1])
    wide = max(low.shape[1] + high.shape[1] + 4 * GAP, 3 * (STEPS + 1))
    bar = np.tile((np.arange(wide) * STEPS // (wide - 1)).astype(np.uint8), (BAR, 1))
    between = np.full((low.shape[0], wide - low.shape[1] - high.shape[1]), PAPER, dtype=np.uint8)
    return _stack(np.pad(bar, 1, constant_values=GRID), np.hstack([low, between, high]), gap=GAP)


def _write(text: str) -> Canvas:
    letters = draw(text).repeat(ZOOM, axis=0).repeat(ZOOM, axis=1)
    return np.where(letters, TEXT, PAPER).astype(np.uint8)


def _stack(upper: Canvas, lower: Canvas, gap: int = PAD) -> Canvas:
    wide = max(upper.shape[1], lower.shape[1])
    parts = [np.pad(part, ((0, 0), (0, wide - part.shape[1])), constant_values=PAPER) for part in (upper, lower)]
    return np.vstack([parts[0], np.full((gap, wide), PAPER, dtype=np.uint8), parts[1]])
