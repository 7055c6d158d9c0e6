"""The alignment as SVG: text stays text, so every script is shaped by the reader's own fonts, sharp at any size."""

from collections.abc import Iterator
from html import escape
from typing import Literal

import numpy as np
from jaxtyping import Int

from foveate.errors import UsageError
from foveate.inspect.alignment import Alignment
from foveate.inspect.figure.layout import CAPTION, GAP, LABEL, LEGEND, MANY, PAD, TITLE, Axis, Layout, Pixels, arrange
from foveate.inspect.figure.paint import Classed, Fixed, Paint, stylesheet
from foveate.inspect.figure.scale import STEPS, Hue, legend, levels, top_of
from foveate.inspect.label import Direction, Reading, first_strong, printable

FONTS = (
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', 'Noto Sans Arabic', Vazirmatn, "
    "'PingFang SC', 'Microsoft YaHei', 'Noto Sans CJK SC', sans-serif"
)


def svg(
    alignment: Alignment,
    *,
    title: str | None = None,
    names: tuple[str, str] = ("source", "target"),
    theme: Literal["light", "dark", "auto"] = "light",
    hue: Hue = "blue",
    top: float | None = 1.0,
    reading: Reading = "auto",
    links: bool = False,
    words: tuple[str, str] | None = None,
) -> str:
    """The alignment as an SVG document: source pieces are columns, target pieces rows, darker is more.

    Labels are drawn in their own direction. A source that reads from right to left has its columns (and the row labels)
    mirrored, so that reading begins in the corner between the labels; `reading` decides by hand. `top` is the weight
    drawn strongest: 1, so that pictures can be compared, or None for the largest. `links` outlines each row's largest
    weight. `words` stand at the ends of the scale when weights are shown by another measure.
    The theme "auto" follows the reader's; the others are fixed in attributes, for papers and old programs.

    Raises `UsageError` when there is nothing to draw.
    """
    paint: Paint = Classed(hue) if theme == "auto" else Fixed(theme, hue)
    style = f"<style>{stylesheet(hue)}</style>" if theme == "auto" else ""
    return _draw(alignment, paint, style, title, names, top, reading, links, words)


def picture(alignment: Alignment, *, names: tuple[str, str] = ("source", "target")) -> str:
    """The SVG element for a page that has its own headings and carries `stylesheet()`."""
    return _draw(alignment, Classed(), "", None, names, 1.0, "auto", False)


def _draw(
    alignment: Alignment,
    paint: Paint,
    style: str,
    title: str | None,
    names: tuple[str, str],
    top: float | None,
    reading: Reading,
    links: bool,
    words: tuple[str, str] | None = None,
) -> str:
    if not alignment.weights.size:
        raise UsageError(
            f"there is nothing to draw: {len(alignment.source)} source and {len(alignment.target)} target pieces. "
            "Give an input and an output that are not empty."
        )
    title, names = printable(title) if title else None, (printable(names[0]), printable(names[1]))
    place = arrange(alignment, title, names, reading)
    strongest = top_of(alignment.weights, top)
    said = f"{title or 'Alignment'}. {alignment.describe()}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_n(place.width)}" height="{_n(place.height)}" '
        f'viewBox="0 0 {_n(place.width)} {_n(place.height)}" role="img" '
        f'aria-label="{escape(said)}" font-family="{escape(FONTS)}">',
        style,
        f'<rect width="100%" height="100%" {paint.ink("paper")}/>',
        *_heading(place, paint, title),
        *_cells(place, paint, alignment, levels(alignment.weights, strongest)),
        *(_links(place, paint, alignment) if links else ()),
        *_row_labels(place, paint),
        *_column_labels(place, paint),
        *_captions(place, paint, names),
        *_legend(place, paint, words or legend(strongest, float(alignment.weights.max()))),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _heading(place: Layout, paint: Paint, title: str | None) -> Iterator[str]:
    if title:
        x, side = (place.width - PAD, "right") if place.mirrored else (PAD, "left")
        yield _text(x, PAD + TITLE - 2, title, side, paint.ink("text"), f'font-size="{TITLE}" font-weight="600"')


def _cells(place: Layout, paint: Paint, alignment: Alignment, steps: Int[np.ndarray, "target source"]) -> Iterator[str]:
    wide, high = place.right - place.left, place.bottom - place.top
    frame = f'x="{_n(place.left)}" y="{_n(place.top)}" width="{_n(wide)}" height="{_n(high)}"'
    if max(steps.shape) > MANY:
        yield paint.image(steps[:, ::-1] if place.mirrored else steps, frame)
    else:
        yield f"<rect {frame} {paint.level(0)}/>"
        yield '<g shape-rendering="crispEdges">'
        for row, column in np.argwhere(steps > 0):
            yield _cell(place, paint, alignment, int(row), int(column), int(steps[row, column]))
        yield "</g>"
        yield _lines(place, paint)
    yield f'<rect {frame} fill="none" stroke-width="1" {paint.ink("grid")}/>'


def _cell(place: Layout, paint: Paint, alignment: Alignment, row: int, column: int, step: int) -> str:
    x, y, pitch = _n(place.column(column)), _n(place.top + row * place.pitch), _n(place.pitch)
    says = f"{place.target.labels[row]} → {place.source.labels[column]}: {alignment.weights[row, column]:.3f}"
    return (
        f'<rect x="{x}" y="{y}" width="{pitch}" height="{pitch}" '
        f"{paint.level(step)}><title>{escape(says)}</title></rect>"
    )


def _lines(place: Layout, paint: Paint) -> str:
    down = "".join(
        f"M{_n(place.left + i * place.pitch)} {_n(place.top)}V{_n(place.bottom)}"
        for i in range(1, len(place.source.labels))
    )
    across = "".join(
        f"M{_n(place.left)} {_n(place.top + i * place.pitch)}H{_n(place.right)}"
        for i in range(1, len(place.target.labels))
    )
    look = 'fill="none" stroke-width="1" stroke-opacity="0.55" pointer-events="none"'
    return f'<path d="{down}{across}" {look} {paint.ink("grid")}/>'


def _links(place: Layout, paint: Paint, alignment: Alignment) -> Iterator[str]:
    inset = min(2.0, place.pitch / 4)
    for source, target in sorted(alignment.hard()):
        x, y, side = place.column(source) + inset, place.top + target * place.pitch + inset, place.pitch - 2 * inset
        yield (
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(side)}" height="{_n(side)}" rx="2" fill="none" stroke-width="2" '
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
    """Above the columns; tilted labels rise away from the corner where reading begins."""
    yield f'<g font-size="{LABEL}">'
    side = "centre" if place.tilt == 0 else "right" if place.mirrored and place.tilt == 45 else "left"
    for i, label in place.source.drawn:
        x, y = place.column(i) + place.pitch / 2, place.top - GAP
        if place.tilt == 0:
            yield _label(x, y, label, place.source, i, side, paint)
            continue
        angle = place.tilt if side == "right" else -place.tilt
        across = LABEL * 0.35 if place.tilt == 90 else LABEL * 0.2
        turn = f"translate({_n(x + (across if angle < 0 else -across))} {_n(y)}) rotate({angle})"
        yield _label(0, 0, label, place.source, i, side, paint, f'transform="{turn}"')
    yield "</g>"


def _captions(place: Layout, paint: Paint, names: tuple[str, str]) -> Iterator[str]:
    """The name of each axis after a small arrow that shows which way it reads."""
    y = place.below + 18
    begin, way = (place.right, -1) if place.mirrored else (place.left, 1)
    said = f"{names[0]}, read right to left" if place.mirrored else names[0]
    yield _arrow(paint, begin, y, begin + way * 24, y)
    quiet = f'font-size="{CAPTION}"'
    yield _text(begin + way * 31, y + 4, said, "right" if place.mirrored else "left", paint.ink("quiet"), quiet)
    x = place.left - 14 if place.mirrored else place.right + 14
    yield _arrow(paint, x, place.top + 1, x, place.top + 25)
    turn = f'transform="translate({_n(x - 4)} {_n(place.top + 32)}) rotate(90)"'
    yield _text(0, 0, names[1], "left", paint.ink("quiet"), f"{quiet} {turn}")


def _arrow(paint: Paint, x: Pixels, y: Pixels, to_x: Pixels, to_y: Pixels) -> str:
    along_x, along_y = (to_x > x) - (to_x < x), (to_y > y) - (to_y < y)
    back_x, back_y = to_x - 6 * along_x, to_y - 6 * along_y
    points = [(to_x, to_y), (back_x - 3 * along_y, back_y + 3 * along_x), (back_x + 3 * along_y, back_y - 3 * along_x)]
    head = " ".join(f"{_n(a)},{_n(b)}" for a, b in points)
    shaft_x, shaft_y = (min(x, back_x), y - 0.6) if along_x else (x - 0.6, min(y, back_y))
    wide, high = (abs(back_x - x), 1.2) if along_x else (1.2, abs(back_y - y))
    return (
        f'<rect x="{_n(shaft_x)}" y="{_n(shaft_y)}" width="{_n(wide)}" height="{_n(high)}" {paint.ink("quiet")}/>'
        f'<polygon points="{head}" {paint.ink("quiet")}/>'
    )


def _legend(place: Layout, paint: Paint, words: tuple[str, str]) -> Iterator[str]:
    """A bar of the scale with plain words at its ends."""
    x = min(place.left, place.width - PAD - LEGEND)
    if place.mirrored:
        x = max(PAD, place.right - LEGEND)
    y = place.below + 36
    pieces = 25
    yield '<g shape-rendering="crispEdges">'
    for i in range(pieces):
        begin, end = x + LEGEND * i // pieces, x + LEGEND * (i + 1) // pieces
        step = STEPS * i // (pieces - 1)
        yield f'<rect x="{_n(begin)}" y="{_n(y)}" width="{_n(end - begin)}" height="10" {paint.level(step)}/>'
    yield "</g>"
    yield f'<rect x="{_n(x)}" y="{_n(y)}" width="{LEGEND}" height="10" fill="none" {paint.ink("grid")}/>'
    low, high = words
    for at, says, side in ((x, low, "left"), (x + LEGEND, high, "right")):
        yield _text(at, y + 24, says, side, paint.ink("quiet"), f'font-size="{CAPTION}"')


def _label(x: Pixels, y: Pixels, label: str, axis: Axis, i: int, side: str, paint: Paint, more: str = "") -> str:
    hint = axis.labels[i] if label != axis.labels[i] else ""
    return _text(x, y, label, side, paint.ink("text"), more, axis.reading, hint)


def _text(
    x: Pixels, y: Pixels, text: str, side: str, ink: str, more: str = "", default: Direction = "ltr", hint: str = ""
) -> str:
    """Text whose visual left, right or centre is at `x`: in right-to-left text the anchor "start" is the right end."""
    direction = first_strong(text, default)
    anchors = {"left": "start", "right": "end", "centre": "middle"}
    anchor = anchors[side if side == "centre" or direction == "ltr" else "left" if side == "right" else "right"]
    bidi = ' direction="rtl" unicode-bidi="embed"' if direction == "rtl" else ""
    says = f"<title>{escape(hint)}</title>" if hint else ""
    return (
        f'<text x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}"{bidi} {ink}{" " if more else ""}{more}>'
        f"{says}{escape(text)}</text>"
    )


def _n(value: Pixels) -> str:
    """A coordinate to a tenth of a pixel, without a needless `.0` and without a negative zero."""
    return f"{round(value, 1) + 0.0:g}" if abs(value) < 1e5 else f"{value:.0f}"
