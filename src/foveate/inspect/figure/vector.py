"""Draws an alignment as SVG. Text remains text, which the reader's fonts draw in all scripts and sizes."""

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Int

from foveate.errors import UsageError
from foveate.inspect.caption import Reading, printable
from foveate.inspect.figure.element import (
    PageTheme,
    colour_bar,
    document,
    frame,
    hatching,
    heading,
    painted,
    px,
    text_element,
)
from foveate.inspect.figure.letter import width
from foveate.inspect.figure.paint import Classed, Paint
from foveate.inspect.figure.scale import HIDDEN, NAN, Hue, Scale, Shading, shaded
from foveate.inspect.figure.svg_layout import (
    CAPTION,
    GAP,
    KEY,
    LABEL,
    MANY,
    PAD,
    SPACE,
    Axis,
    Layout,
    Pixels,
    arrange,
    keys_width,
)

if TYPE_CHECKING:
    from foveate.inspect.alignment import Alignment


def svg(
    alignment: "Alignment",
    *,
    title: str | None = None,
    names: tuple[str, str] = ("source", "target"),
    theme: PageTheme = "light",
    hue: Hue = "blue",
    top: float | None = 1.0,
    reading: Reading = "auto",
    links: bool = False,
    scale: Scale = "linear",
) -> str:
    """The alignment as an SVG document: source pieces are columns, target pieces are rows, darker is larger.

    Labels are drawn in their own direction. For a source that reads from right to left, columns and row labels are
    mirrored, so that reading begins in the corner between the labels; `reading` overrides this. `top` is the weight
    with the strongest colour: 1, so that pictures can be compared, or None for the largest. `links` outlines each row's
    largest weight. `scale` "log" shows six powers of ten, "lift" the ratio to equal weights for all visible pieces.
    Hidden cells are hatched, unlike zeros; NaN has a cross. The theme "auto" follows that of the reader; the others are
    fixed in attributes, for papers and old programs.

    Raises `UsageError` for an empty alignment.
    """
    return drawn(
        alignment, shaded(alignment, scale=scale, top=top, hue=hue), title, names, theme, reading=reading, links=links
    )


def picture(alignment: "Alignment", *, names: tuple[str, str] = ("source", "target")) -> str:
    """The SVG element for a page with its own headings and with `stylesheet()`."""
    return _draw(alignment, shaded(alignment), Classed(), "", None, names, "auto", False)


def drawn(
    alignment: "Alignment",
    shading: Shading,
    title: str | None,
    names: tuple[str, str],
    theme: PageTheme = "light",
    *,
    reading: Reading = "auto",
    links: bool = False,
) -> str:
    """The SVG of an alignment from its shading."""
    paint, style = painted(theme, shading.hue)
    return _draw(alignment, shading, paint, style, title, names, reading, links)


def _draw(
    alignment: "Alignment",
    shading: Shading,
    paint: Paint,
    style: str,
    title: str | None,
    names: tuple[str, str],
    reading: Reading,
    links: bool,
) -> str:
    if not alignment.weights.size:
        raise UsageError(
            f"there is nothing to draw: {len(alignment.source)} source and {len(alignment.target)} target pieces. "
            "Give an input and an output that are not empty."
        )
    alignment = alignment.readable()
    title, names = printable(title) if title else None, (printable(names[0]), printable(names[1]))
    place = arrange(alignment, title, names, reading, shading)
    description = f"{title or 'Alignment'}. {alignment.describe()}"
    parts = [
        *_heading(place, paint),
        *_cells(place, paint, alignment, shading.levels),
        *(_links(place, paint, alignment) if links else ()),
        *_row_labels(place, paint),
        *_column_labels(place, paint),
        *_captions(place, paint, names),
        *_legend(place, paint, shading),
        *_keys(place, paint, shading),
    ]
    return document(parts, (place.width, place.height), description, paint, style)


def _heading(place: Layout, paint: Paint) -> Iterator[str]:
    x, side = (place.width - PAD, "right") if place.mirrored else (PAD, "left")
    return heading(place.title, paint, x, side)


def _cells(
    place: Layout, paint: Paint, alignment: "Alignment", steps: Int[np.ndarray, "target source"]
) -> Iterator[str]:
    """Draw the visible cells; the hatching below the hidden ones remains visible."""
    wide, high = place.right - place.left, place.bottom - place.top
    box = frame(place.left, place.top, wide, high)
    hidden = steps == HIDDEN
    if hidden.any():
        yield from hatching(paint, place.left, place.top, wide, high)
    if max(steps.shape) > MANY:
        yield paint.image(steps[:, ::-1] if place.mirrored else steps, box)
    else:
        yield from _ground(place, paint, hidden) if hidden.any() else (f"<rect {box} {paint.level(0)}/>",)
        yield '<g shape-rendering="crispEdges">'
        for row, column in np.argwhere((steps > 0) & ~hidden):
            yield _cell(place, paint, alignment, int(row), int(column), int(steps[row, column]))
        yield "</g>"
        for row, column in np.argwhere(steps == NAN):
            x, y = place.column(int(column)), place.top + int(row) * place.pitch
            yield _cross(paint, x, y, place.pitch)
        yield _lines(place, paint)
    yield f'<rect {box} fill="none" stroke-width="1" {paint.ink("grid")}/>'


def _ground(place: Layout, paint: Paint, hidden: Bool[np.ndarray, "target source"]) -> Iterator[str]:
    """Draw the colour of 0 under the visible cells, one rectangle for neighbours in a row."""
    yield '<g shape-rendering="crispEdges">'
    for row, covered in enumerate(hidden):
        edges = np.flatnonzero(np.diff(np.concatenate([[True], covered, [True]])))
        for begin, end in edges.reshape(-1, 2).tolist():
            x, y = place.column(end - 1 if place.mirrored else begin), place.top + row * place.pitch
            yield (
                f'<rect x="{px(x)}" y="{px(y)}" width="{px((end - begin) * place.pitch)}" height="{px(place.pitch)}" '
                f"{paint.level(0)}/>"
            )
    yield "</g>"


def _cross(paint: Paint, x: Pixels, y: Pixels, side: Pixels) -> str:
    a, b = side * 0.3, side * 0.7
    both = f"M{px(x + a)} {px(y + a)}L{px(x + b)} {px(y + b)}M{px(x + a)} {px(y + b)}L{px(x + b)} {px(y + a)}"
    return f'<path d="{both}" fill="none" stroke-width="1.6" {paint.ink("cross")}/>'


def _cell(place: Layout, paint: Paint, alignment: "Alignment", row: int, column: int, step: int) -> str:
    x, y, pitch = px(place.column(column)), px(place.top + row * place.pitch), px(place.pitch)
    weight = alignment.weights[row, column]
    number = "not a number" if np.isnan(weight) else f"{weight:.3f}"
    says = f"{place.target.labels[row]} → {place.source.labels[column]}: {number}"
    return (
        f'<rect x="{x}" y="{y}" width="{pitch}" height="{pitch}" '
        f"{paint.level(step)}><title>{escape(says)}</title></rect>"
    )


def _lines(place: Layout, paint: Paint) -> str:
    down = "".join(
        f"M{px(place.left + i * place.pitch)} {px(place.top)}V{px(place.bottom)}"
        for i in range(1, len(place.source.labels))
    )
    across = "".join(
        f"M{px(place.left)} {px(place.top + i * place.pitch)}H{px(place.right)}"
        for i in range(1, len(place.target.labels))
    )
    look = 'fill="none" stroke-width="1" stroke-opacity="0.55" pointer-events="none"'
    return f'<path d="{down}{across}" {look} {paint.ink("grid")}/>'


def _links(place: Layout, paint: Paint, alignment: "Alignment") -> Iterator[str]:
    inset = min(2.0, place.pitch / 4)
    for source, target in sorted(alignment.hard()):
        x, y, side = place.column(source) + inset, place.top + target * place.pitch + inset, place.pitch - 2 * inset
        yield (
            f'<rect x="{px(x)}" y="{px(y)}" width="{px(side)}" height="{px(side)}" rx="2" fill="none" stroke-width="2" '
            f'pointer-events="none" {paint.ink("link")}/>'
        )


def _row_labels(place: Layout, paint: Paint) -> Iterator[str]:
    x, side = (place.right + GAP, "left") if place.mirrored else (place.left - GAP, "right")
    yield f'<g font-size="{LABEL}">'
    for i, label in place.target.drawn:
        y = place.top + (i + 0.5) * place.pitch + LABEL * 0.35
        yield _label(x, y, label, place.target, i, side, paint)
    yield "</g>"


def _column_labels(place: Layout, paint: Paint) -> Iterator[str]:
    """Draw the column labels; tilted labels rise away from the corner in which reading begins."""
    yield f'<g font-size="{LABEL}">'
    side = "centre" if place.tilt == 0 else "right" if place.mirrored and place.tilt == 45 else "left"
    for i, label in place.source.drawn:
        x, y = place.column(i) + place.pitch / 2, place.top - GAP
        if place.tilt == 0:
            yield _label(x, y, label, place.source, i, side, paint)
            continue
        angle = place.tilt if side == "right" else -place.tilt
        across = LABEL * 0.35 if place.tilt == 90 else LABEL * 0.2
        turn = f"translate({px(x + (across if angle < 0 else -across))} {px(y)}) rotate({angle})"
        yield _label(0, 0, label, place.source, i, side, paint, f'transform="{turn}"')
    yield "</g>"


def _captions(place: Layout, paint: Paint, names: tuple[str, str]) -> Iterator[str]:
    """Draw the name of each axis after a small arrow in its reading direction."""
    y = place.below + 18
    begin, way = (place.right, -1) if place.mirrored else (place.left, 1)
    description = f"{names[0]}, read right to left" if place.mirrored else names[0]
    yield _arrow(paint, begin, y, begin + way * 24, y)
    quiet = f'font-size="{CAPTION}"'
    yield text_element(
        begin + way * 31, y + 4, description, "right" if place.mirrored else "left", paint.ink("quiet"), quiet
    )
    x = place.left - 14 if place.mirrored else place.right + 14
    yield _arrow(paint, x, place.top + 1, x, place.top + 25)
    turn = f'transform="translate({px(x - 4)} {px(place.top + 32)}) rotate(90)"'
    yield text_element(0, 0, names[1], "left", paint.ink("quiet"), f"{quiet} {turn}")


def _arrow(paint: Paint, x: Pixels, y: Pixels, to_x: Pixels, to_y: Pixels) -> str:
    along_x, along_y = (to_x > x) - (to_x < x), (to_y > y) - (to_y < y)
    back_x, back_y = to_x - 6 * along_x, to_y - 6 * along_y
    points = [(to_x, to_y), (back_x - 3 * along_y, back_y + 3 * along_x), (back_x + 3 * along_y, back_y - 3 * along_x)]
    head = " ".join(f"{px(a)},{px(b)}" for a, b in points)
    shaft_x, shaft_y = (min(x, back_x), y - 0.6) if along_x else (x - 0.6, min(y, back_y))
    wide, high = (abs(back_x - x), 1.2) if along_x else (1.2, abs(back_y - y))
    return (
        f'<rect x="{px(shaft_x)}" y="{px(shaft_y)}" width="{px(wide)}" height="{px(high)}" {paint.ink("quiet")}/>'
        f'<polygon points="{head}" {paint.ink("quiet")}/>'
    )


def _legend(place: Layout, paint: Paint, shading: Shading) -> Iterator[str]:
    """Draw the colour bar with words below it."""
    x, y = _foot(place), place.below + 36
    yield from colour_bar(x, y, place.legend, paint)
    for at, says in shading.ticks:
        side = "left" if at == 0 else "right" if at == 1 else "centre"
        yield text_element(x + at * place.legend, y + 24, says, side, paint.ink("quiet"), f'font-size="{CAPTION}"')


def _keys(place: Layout, paint: Paint, shading: Shading) -> Iterator[str]:
    """Draw the levels outside the scale as squares with words."""
    x, y = _foot(place, keys_width(shading)), place.below + 36 + 34
    for level, words in shading.beside():
        if level == HIDDEN:
            yield from hatching(paint, x, y, KEY, KEY, 4)
        else:
            yield f'<rect x="{px(x)}" y="{px(y)}" width="{KEY}" height="{KEY}" {paint.level(level)}/>'
        if level == NAN:
            yield _cross(paint, x, y, KEY)
        yield f'<rect x="{px(x)}" y="{px(y)}" width="{KEY}" height="{KEY}" fill="none" {paint.ink("grid")}/>'
        yield text_element(x + KEY + 6, y + 10, words, "left", paint.ink("quiet"), f'font-size="{CAPTION}"')
        x += KEY + 6 + width(words) * CAPTION + SPACE


def _foot(place: Layout, wide: Pixels = 0) -> Pixels:
    """The left end of the legend, so that it ends within the picture."""
    wide = wide or place.legend
    if place.mirrored:
        return max(PAD, place.right - wide)
    return max(PAD, min(place.left, place.width - PAD - wide))


def _label(x: Pixels, y: Pixels, label: str, axis: Axis, i: int, side: str, paint: Paint, more: str = "") -> str:
    hint = axis.labels[i] if label != axis.labels[i] else ""
    return text_element(x, y, label, side, paint.ink("text"), more, axis.reading, hint)
