"""Elements of drawings: text, rectangles, coordinates, and the document around them."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from math import ceil
from typing import Literal

from foveate.inspect.caption import Direction, first_strong
from foveate.inspect.figure.paint import Classed, Fixed, Paint, stylesheet
from foveate.inspect.figure.scale import HIDDEN, STEPS, Palette
from foveate.inspect.figure.svg_layout import PAD, RISE, TITLE, Pixels

PageTheme = Literal["light", "dark", "auto"]
FONTS = (
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', 'Noto Sans Arabic', Vazirmatn, "
    "'PingFang SC', 'Microsoft YaHei', 'Noto Sans CJK SC', sans-serif"
)


def painted(theme: PageTheme, hue: Palette = "blue") -> tuple[Paint, str]:
    """The colours of a theme, and the style element that they need."""
    return (Classed(hue), f"<style>{stylesheet(hue)}</style>") if theme == "auto" else (Fixed(theme, hue), "")


def document(parts: Iterable[str], size: tuple[Pixels, Pixels], description: str, paint: Paint, style: str = "") -> str:
    """An SVG of the size, with the parts that are not empty on paper."""
    wide, high = size
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{px(wide)}" height="{px(high)}" '
        f'viewBox="0 0 {px(wide)} {px(high)}" role="img" aria-label="{escape(description)}" '
        f'font-family="{escape(FONTS)}">'
    )
    ground = f'<rect width="100%" height="100%" {paint.ink("paper")}/>'
    return "\n".join(part for part in (head, style, ground, *parts, "</svg>") if part) + "\n"


def text_element(
    x: Pixels, y: Pixels, text: str, side: str, ink: str, more: str = "", default: Direction = "ltr", hint: str = ""
) -> str:
    """Text with its visual left, right or centre at `x`. In right-to-left text, the anchor "start" is the right end."""
    direction = first_strong(text, default)
    anchors = {"left": "start", "right": "end", "centre": "middle"}
    anchor = anchors[side if side == "centre" or direction == "ltr" else "left" if side == "right" else "right"]
    bidi = ' direction="rtl" unicode-bidi="embed"' if direction == "rtl" else ""
    says = f"<title>{escape(hint)}</title>" if hint else ""
    return (
        f'<text x="{px(x)}" y="{px(y)}" text-anchor="{anchor}"{bidi} {ink}{" " if more else ""}{more}>'
        f"{says}{escape(text)}</text>"
    )


def heading(lines: Sequence[str], paint: Paint, x: Pixels = PAD, side: str = "left") -> Iterator[str]:
    """The lines of a title at the top of a picture."""
    for number, line in enumerate(lines):
        y = PAD + TITLE - 2 + number * RISE
        yield text_element(x, y, line, side, paint.ink("text"), font(TITLE, bold=True))


def colour_bar(x: Pixels, y: Pixels, long: Pixels, paint: Paint) -> Iterator[str]:
    """The colours of a scale from 0 to its end, 10 pixels high."""
    pieces = 25
    yield '<g shape-rendering="crispEdges">'
    for i in range(pieces):
        begin, end = x + long * i // pieces, x + long * (i + 1) // pieces
        yield f"<rect {frame(begin, y, end - begin, 10)} {paint.level(STEPS * i // (pieces - 1))}/>"
    yield "</g>"
    yield f'<rect {frame(x, y, long, 10)} fill="none" {paint.ink("grid")}/>'


def hatching(paint: Paint, x: Pixels, y: Pixels, wide: Pixels, high: Pixels, apart: Pixels = 6) -> Iterator[str]:
    """Slanted lines over a quiet background, clipped at its edges, without patterns, which old viewers lack."""
    yield f"<rect {frame(x, y, wide, high)} {paint.level(HIDDEN)}/>"
    lines = []
    for step in range(1, ceil((wide + high) / apart)):
        along = step * apart  # where the line x + y = along meets the edges
        begin, end = max(0.0, along - high), min(along, wide)
        lines.append(f"M{px(x + begin)} {px(y + along - begin)}L{px(x + end)} {px(y + along - end)}")
    yield f'<path d="{"".join(lines)}" fill="none" stroke-width="1" {paint.ink("hatch")}/>'


def frame(x: Pixels, y: Pixels, wide: Pixels, high: Pixels) -> str:
    """The attributes of a rectangle."""
    return f'x="{px(x)}" y="{px(y)}" width="{px(wide)}" height="{px(high)}"'


def font(size: int, *, bold: bool = False) -> str:
    """The attributes of a text's letters."""
    return f'font-size="{size}"' + (' font-weight="600"' if bold else "")


def px(value: Pixels) -> str:
    """A coordinate in tenths of a pixel, without `.0` and negative zero."""
    return f"{round(value, 1) + 0.0:g}" if abs(value) < 1e5 else f"{value:.0f}"
