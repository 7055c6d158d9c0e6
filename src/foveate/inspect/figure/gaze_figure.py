"""Draws where each word of a caption, or a class token, looks in a picture."""

import base64
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from foveate.errors import UsageError
from foveate.inspect.alignment import SPECIAL, Alignment
from foveate.inspect.caption import fit, printable
from foveate.inspect.figure.element import PageTheme, document, font, frame, heading, painted, px, text_element
from foveate.inspect.figure.letter import width
from foveate.inspect.figure.paint import Paint
from foveate.inspect.figure.svg_layout import (
    CAPTION,
    GAP,
    LABEL,
    LEGEND,
    PAD,
    TITLED,
    Pixels,
    title_height,
    title_lines,
    title_width,
)

if TYPE_CHECKING:  # pictures of alignments do not need torch
    from foveate.inspect.trace.media import Picture

SIDE, ACROSS = 132, 5
"""The longer side of a panel in pixels, and the panels of a line."""
LEAST = 24
"""The shorter side of a panel in pixels, at least, so that long and narrow pictures are visible."""
FOG = 0.82
"""The opacity of the paper over a place without weight."""
LETTER = 0.62
"""The width of a character as a share of its size, about."""
LETTERS = 18
"""The most characters of a word below its panel."""


class _Panel(NamedTuple):
    """The corner and size of a panel in pixels, and the rows and columns of its places."""

    left: Pixels
    top: Pixels
    wide: Pixels
    high: Pixels
    grid: tuple[int, int]

    def frame(self, place: int | None = None) -> str:
        """The attributes of a place's rectangle, or of the whole panel's."""
        if place is None:
            return frame(self.left, self.top, self.wide, self.high)
        (row, column), (wide, high) = divmod(place, self.grid[1]), self.cell
        return frame(self.left + column * wide, self.top + row * high, wide, high)

    def middle(self, place: int) -> tuple[Pixels, Pixels]:
        (row, column), (wide, high) = divmod(place, self.grid[1]), self.cell
        return self.left + (column + 0.5) * wide, self.top + (row + 0.5) * high

    @property
    def cell(self) -> tuple[Pixels, Pixels]:
        return self.wide / self.grid[1], self.high / self.grid[0]


def gaze_svg(
    alignment: Alignment,
    *,
    picture: "Picture | None" = None,
    title: str | None = None,
    theme: PageTheme = "light",
) -> str:
    """The places that each word of a caption looks at, as an SVG document.

    The first panel has the path: a line through the places with the largest weights, in the order of the words, whose
    numbers stand at the places. Of hard attention, these are its glimpses. Then each word has a panel, in which fog
    lies over a place, the thicker the smaller its weight in comparison with the largest, whose place has a frame.
    Begin and end of the text have no panel, and the path does not contain them.

    Raises `UsageError` for an alignment whose source is not a whole grid of places, and for one without words.

    >>> table = Alignment.of(["0,0", "0,1"], ["a", "dog"], [[0.9, 0.1], [0.2, 0.8]], grid=(1, 2))
    >>> "a: row 0, column 0; dog: row 0, column 1" in gaze_svg(table)
    True
    """
    grid = alignment.grid
    if grid is None or grid[0] * grid[1] != len(alignment.source):
        raise UsageError("A gaze lies on a picture, and the source of this alignment is not a whole grid of places.")
    words = [number for number, label in enumerate(alignment.target) if label not in SPECIAL]
    if not words:
        raise UsageError("There is no word that looks at the picture.")
    labels = [printable(alignment.target[number]).strip("▁␣") for number in words]
    weights = np.nan_to_num(alignment.weights[words])
    places = weights.argmax(1).tolist()
    wide, high = _size(picture, grid)
    paint, style = painted(theme)
    title = printable(title if title is not None else " ".join(labels))
    across = min(len(words) + 1, ACROSS)
    lines = title_lines(title, across * (wide + GAP) - GAP)
    parts = list(heading(lines, paint))
    first, below = PAD + title_height(lines), high + LABEL + 2 * GAP
    for number in range(len(words) + 1):
        line, column = divmod(number, ACROSS)
        panel = _Panel(PAD + column * (wide + GAP), first + line * below, wide, high, grid)
        parts += _photograph(panel, picture, paint)
        caption = labels[number - 1] if number else "path"
        parts += _fog(panel, weights[number - 1], paint) if number else _path(panel, places, paint)
        ink = paint.ink("text" if number else "quiet")
        baseline = panel.top + high + LABEL + GAP / 2
        name = f"{number} {fit(caption, LETTERS)}" if number else caption
        parts.append(text_element(panel.left + wide / 2, baseline, name, "centre", ink, font(LABEL)))
    foot = first + ceil((len(words) + 1) / ACROSS) * below + GAP
    parts += _legend(foot, paint)
    inside = max(across * (wide + GAP) - GAP, title_width(lines), LEGEND)
    whole = ceil(2 * PAD + inside), ceil(foot + 34 + GAP)
    spoken = "; ".join(
        f"{label}: row {place // grid[1]}, column {place % grid[1]}"
        for label, place in zip(labels, places, strict=True)
    )
    return document(parts, whole, f"{title}. {spoken}", paint, style)


def view_svg(
    alignment: Alignment, *, picture: "Picture | None" = None, title: str = "", theme: PageTheme = "light"
) -> str:
    """The weights of each query over a picture, such as those of a ViT's class token, as an SVG document.

    Each query has a panel with fog as in `gaze_svg`. Beside it stand its label, the weights of tokens that are before
    the places in the source, and the largest weight of a place.

    Raises `UsageError` for an alignment whose source does not end with a whole grid of places.

    >>> table = Alignment.of(["[class]", "0,0", "0,1"], ["[class]"], [[0.5, 0.1, 0.4]], grid=(1, 2))
    >>> "[class]: [class] 0.500, largest 0.400 in row 0, column 1" in view_svg(table)
    True
    """
    grid = alignment.grid
    before = -1 if grid is None else len(alignment.source) - grid[0] * grid[1]
    if grid is None or before < 0 or not alignment.target:
        raise UsageError("A view lies on a picture, and the source of this alignment does not end with all its places.")
    (wide, high), (paint, style) = _size(picture, grid), painted(theme)
    left, across = PAD + wide + 2 * GAP, 0.0
    y: Pixels = PAD
    parts, spoken = list[str](), list[str]()
    lines = title_lines(printable(title), left + TITLED)
    parts += heading(lines, paint)
    y, across = y + title_height(lines), max(across, title_width(lines) - left, LEGEND - left)
    for label, row in zip(alignment.target, np.nan_to_num(alignment.weights), strict=True):
        panel, weights = _Panel(PAD, y, wide, high, grid), row[before:]
        place = int(weights.argmax())
        tokens = [f"{printable(token)} {row[at]:.3f}" for at, token in enumerate(alignment.source[:before])]
        tokens.append(f"largest {weights[place]:.3f} in row {place // grid[1]}, column {place % grid[1]}")
        parts += [*_photograph(panel, picture, paint), *_fog(panel, weights, paint)]
        for line, text in enumerate((printable(label), *tokens)):
            ink = paint.ink("quiet" if line else "text")
            parts.append(text_element(left, y + LABEL + line * (LABEL + GAP), text, "left", ink, font(LABEL)))
            across = max(across, width(text) * LABEL)
        spoken.append(f"{printable(label)}: {', '.join(tokens)}")
        y += max(high, (LABEL + GAP) * (1 + len(tokens))) + 2 * GAP
    parts += _legend(y, paint)
    size = ceil(left + across + PAD), ceil(y + 34 + GAP)
    return document(parts, size, f"{title}. " * bool(title) + "; ".join(spoken), paint, style)


def _size(picture: "Picture | None", grid: tuple[int, int]) -> tuple[Pixels, Pixels]:
    """The width and height of a panel."""
    ratio = picture.size[1] / picture.size[0] if picture is not None else grid[0] / grid[1]
    return (SIDE, max(SIDE * ratio, LEAST)) if ratio <= 1 else (max(SIDE / ratio, LEAST), SIDE)


def _photograph(panel: _Panel, picture: "Picture | None", paint: Paint) -> Iterator[str]:
    if picture is None:
        yield f"<rect {panel.frame()} {paint.ink('hidden')}/>"
        return
    pixels = base64.b64encode(picture.data).decode("ascii")
    yield f'<image {panel.frame()} preserveAspectRatio="none" href="data:{picture.media};base64,{pixels}"/>'


def _fog(panel: _Panel, weights: np.ndarray, paint: Paint) -> Iterator[str]:
    """Veils with sharp edges, between which no seams are seen, under a thin frame that covers the edge of a photo."""
    largest = float(weights.max())
    yield '<g shape-rendering="crispEdges">'
    for place, weight in enumerate(weights.tolist()):
        hint = f"<title>{weight:.3f}</title>"
        veil = _opacity(weight / largest if largest else 0)
        yield f'<rect {panel.frame(place)} {paint.ink("paper")} fill-opacity="{veil:.2f}">{hint}</rect>'
    yield "</g>"
    yield f'<rect {panel.frame()} fill="none" stroke-width="1" {paint.ink("grid")}/>'
    if largest:
        yield f'<rect {panel.frame(int(weights.argmax()))} fill="none" stroke-width="2" {paint.ink("link")}/>'


def _opacity(share: float) -> float:
    return FOG * (1 - share)


def _legend(y: Pixels, paint: Paint) -> Iterator[str]:
    """The fog over a dark ground, from none of the largest weight to all of it, as it lies over a photo."""
    pieces = 24
    yield '<g shape-rendering="crispEdges">'
    yield f"<rect {frame(PAD, y, LEGEND, 10)} {paint.ink('text')}/>"
    for at in range(pieces):
        place = frame(PAD + at * LEGEND / pieces, y, LEGEND / pieces, 10)
        yield f'<rect {place} {paint.ink("paper")} fill-opacity="{_opacity(at / (pieces - 1)):.2f}"/>'
    yield "</g>"
    yield f'<rect {frame(PAD, y, LEGEND, 10)} fill="none" stroke-width="1" {paint.ink("grid")}/>'
    for at, words, side in ((0, "weight 0", "left"), (LEGEND, "the panel's largest", "right")):
        yield text_element(PAD + at, y + 24, words, side, paint.ink("quiet"), font(CAPTION))


def _path(panel: _Panel, places: Sequence[int], paint: Paint) -> Iterator[str]:
    """A line through the places, and at each place the numbers of its words."""
    yield f'<rect {panel.frame()} {paint.ink("paper")} fill-opacity="0.4"/>'
    points = [panel.middle(place) for place in places]
    for (x, y), (u, v) in pairwise(points):
        if (x, y) != (u, v):
            line = f"M{px(x)} {px(y)}L{px(u)} {px(v)}"
            yield f'<path d="{line}" fill="none" stroke-width="1.5" {paint.ink("link")}/>'
    for place in dict.fromkeys(places):
        x, y = panel.middle(place)
        numbers = _runs([number for number, other in enumerate(places, start=1) if other == place])
        wide = max(CAPTION * LETTER * len(numbers) + 4, CAPTION + 4)
        yield f"<rect {frame(x - wide / 2, y - CAPTION / 2 - 2, wide, CAPTION + 4)} {paint.ink('paper')}/>"
        yield text_element(x, y + CAPTION * 0.36, numbers, "centre", paint.ink("text"), font(CAPTION))


def _runs(numbers: Sequence[int]) -> str:
    """
    >>> _runs([1, 2, 3, 6, 8, 9])
    '1–3 6 8–9'
    """
    runs = [[number for _, number in run] for _, run in groupby(enumerate(numbers), lambda one: one[1] - one[0])]
    return " ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)
