"""Graphs with error bars: SVG files that stand alone, or in a page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from foveate.inspect.caption import printable
from foveate.inspect.chart import figure_text, nice_ticks

WIDTH, HEIGHT = 560, 330
LEFT, RIGHT, TOP, BOTTOM = 58, 16, 14, 46
KEY_ROW, LETTER = 20, 6.6
# Okabe and Ito's colours, which most eyes tell apart, darker on white and lighter on black; then again, dashed.
_LIGHT = ("#2f77b8", "#d55e00", "#00806a", "#8a4fa3", "#a07800", "#0d8aa8", "#b03060", "#555b66")
_DARK = ("#74b3e2", "#ff9d3c", "#3fc4a5", "#c99ae0", "#e0c050", "#5fd0ea", "#f090b0", "#b0b6c2")
COLOURS = len(_LIGHT)


def _style() -> str:
    rules = [f".graph .c{i}{{--c:{colour}}}" for i, colour in enumerate(_LIGHT)]
    dark = [f".graph .c{i}{{--c:{colour}}}" for i, colour in enumerate(_DARK)]
    return (
        '.graph{font:12px system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;--ink:#5a6270;--line:#e2e6ec;'
        "--ground:#fff}"
        ".graph text{fill:var(--ink)}.graph .ground{fill:var(--ground)}.graph .grid{stroke:var(--line)}"
        ".graph .base{stroke:var(--ink);stroke-opacity:.5}"
        ".graph .mean{fill:none;stroke:var(--c);stroke-width:2.2;stroke-linejoin:round}"
        ".graph .dashed{stroke-dasharray:6 4}.graph .bar{stroke:var(--c);stroke-width:1.4}"
        ".graph .dot{fill:var(--c)}.graph .one{fill:var(--c);fill-opacity:.35}"
        ".graph .band{fill:var(--c);fill-opacity:.16;stroke:none}"
        + "".join(rules)
        + "@media screen and (prefers-color-scheme:dark){"
        + ".graph{--ink:#a2a9b8;--line:#272c37;--ground:#14161c}"
        + "".join(dark)
        + "}"
    )


@dataclass(frozen=True)
class Point:
    """A mean at a place, with the ends of its error bar."""

    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True)
class Series:
    """A line of a graph."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class _Frame:
    """From figures to pixels."""

    x_ticks: Sequence[float]
    y_ticks: Sequence[float]
    x_range: tuple[float, float]
    top: int

    def x(self, value: float) -> float:
        low, high = self.x_range
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / ((high - low) or 1.0)

    def y(self, value: float) -> float:
        low, high = self.y_ticks[0], self.y_ticks[-1]
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - self.top) * (value - low) / ((high - low) or 1.0)


def graph(series: Sequence[Series], *, x_title: str, y_title: str, band: bool = False, at_points: bool = False) -> str:
    """Lines with an error bar at every point, or with a band of their errors; `at_points` labels the places of points.

    >>> line = Series("dot", (Point(1.0, 0.5, 0.4, 0.6), Point(2.0, 0.7, 0.6, 0.8)))
    >>> graph([line], x_title="words", y_title="BLEU").count("<circle")
    2
    """
    drawn = [one for one in series if one.points]
    points = [point for one in drawn for point in one.points]
    if not points:
        return ""
    low, high = min(point.low for point in points), max(point.high for point in points)
    low = 0.0 if 0 <= low < 0.4 * high else low
    places = sorted({point.x for point in points})
    x_range = (places[0], places[-1]) if at_points else (min(0.0, places[0]), places[-1])
    ticks = places if at_points else [tick for tick in nice_ticks(*x_range, most=7) if tick <= x_range[1]]
    key, rows = _key([one.name for one in drawn])
    frame = _Frame(ticks, nice_ticks(low, high), x_range, TOP + rows * KEY_ROW)
    body = [*key, *_axes(frame, x_title, y_title)]
    for number, one in enumerate(drawn):
        body += _band(frame, one, number) if band else _bars(frame, one, number)
    for number, one in enumerate(drawn):
        body += _line(frame, one, number, dots=not band)
    description = f"{y_title} by {x_title}: " + "; ".join(
        f"{one.name} ends at {figure_text(one.points[-1].y)}" for one in drawn
    )
    return _whole(body, HEIGHT, description)


def ranges(rows: Sequence[tuple[str, Sequence[float], float, tuple[float, float] | None]], *, title: str) -> str:
    """A row for each variant: its figures as pale dots, their mean, and the interval of the mean.

    >>> ranges([("dot", [1.0, 2.0], 1.5, (1.0, 2.0))], title="BLEU").count("<circle")
    3
    """
    if not rows:
        return ""
    left = 24 + max(len(printable(name)) for name, *_ in rows) * LETTER
    height = TOP + 30 * len(rows) + BOTTOM
    figures_of_rows = [figure for _, figures, _, interval in rows for figure in (*figures, *_near(interval, figures))]
    ticks = nice_ticks(min(figures_of_rows), max(figures_of_rows))

    def x(value: float) -> float:
        inside = min(max(value, ticks[0]), ticks[-1])
        return left + (WIDTH - RIGHT - left) * (inside - ticks[0]) / (ticks[-1] - ticks[0])

    body = []
    for tick in ticks:
        body.append(f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{TOP}" y2="{height - BOTTOM}"/>')
        body.append(
            f'<text x="{x(tick):.1f}" y="{height - BOTTOM + 18}" text-anchor="middle">{figure_text(tick)}</text>'
        )
    body.append(
        f'<text x="{(left + WIDTH - RIGHT) / 2:.0f}" y="{height - 8}" text-anchor="middle">{_text(title)}</text>'
    )
    for number, (name, figures, mean, interval) in enumerate(rows):
        y, colour = TOP + 30 * number + 15, number % COLOURS
        body.append(f'<text x="{left - 12:.1f}" y="{y + 4}" text-anchor="end">{_text(name)}</text>')
        if interval is not None:
            ends = f'x1="{x(interval[0]):.1f}" x2="{x(interval[1]):.1f}" y1="{y}" y2="{y}"'
            body.append(f'<g class="c{colour}"><line class="bar" {ends}/></g>')
        body += [f'<g class="c{colour}"><circle class="one" cx="{x(one):.1f}" cy="{y}" r="4"/></g>' for one in figures]
        hint = f"<title>{_text(name)}: {figure_text(mean)}</title>"
        body.append(f'<g class="c{colour}"><circle class="dot" cx="{x(mean):.1f}" cy="{y}" r="4.5">{hint}</circle></g>')
    description = f"{title}: " + "; ".join(f"{name} {figure_text(mean)}" for name, _, mean, _ in rows)
    return _whole(body, height, description)


def _near(interval: tuple[float, float] | None, figures: Sequence[float]) -> Iterator[float]:
    """The ends of an interval, cut where they would squeeze the figures: the interval of two seeds is huge."""
    if interval is not None:
        room = 1.5 * (max(figures) - min(figures))
        yield max(interval[0], min(figures) - room)
        yield min(interval[1], max(figures) + room)


def _whole(body: Sequence[str], height: int, description: str) -> str:
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(printable(description))}">',
        f"<style>{_style()}</style>",
        f'<rect class="ground" width="{WIDTH}" height="{height}"/>',
    ]
    return "\n".join([*parts, *body, "</svg>"]) + "\n"


def _key(names: Sequence[str]) -> tuple[list[str], int]:
    """The names beside a piece of their lines, in as many rows as they need."""
    parts, x, row = [], float(LEFT), 0
    for number, name in enumerate(names):
        width = 34 + len(printable(name)) * LETTER + 18
        if x + width > WIDTH and x > LEFT:
            x, row = float(LEFT), row + 1
        y = TOP + 6 + row * KEY_ROW
        line = f'<line class="{_mean(number)}" x1="{x:.0f}" x2="{x + 24:.0f}" y1="{y}" y2="{y}"/>'
        parts.append(f'<g class="c{number % COLOURS}">{line}</g>')
        parts.append(f'<text x="{x + 30:.0f}" y="{y + 4}">{_text(name)}</text>')
        x += width
    return parts, row + 1


def _axes(frame: _Frame, x_title: str, y_title: str) -> Iterator[str]:
    base = HEIGHT - BOTTOM
    for tick in frame.y_ticks:
        y = frame.y(tick)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{figure_text(tick)}</text>'
    yield f'<line class="base" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}"/>'
    for tick in frame.x_ticks:
        anchor = "end" if frame.x(tick) > WIDTH - RIGHT - 14 else "middle"
        yield f'<text x="{frame.x(tick):.1f}" y="{base + 18}" text-anchor="{anchor}">{figure_text(tick)}</text>'
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield f'<text x="{middle:.0f}" y="{HEIGHT - 8}" text-anchor="middle">{_text(x_title)}</text>'
    half = (frame.top + base) / 2
    yield f'<text transform="translate(14 {half:.0f}) rotate(-90)" text-anchor="middle">{_text(y_title)}</text>'


def _line(frame: _Frame, one: Series, number: int, *, dots: bool) -> Iterator[str]:
    path = " ".join(f"{frame.x(point.x):.1f},{frame.y(point.y):.1f}" for point in one.points)
    yield f'<g class="c{number % COLOURS}"><polyline class="{_mean(number)}" points="{path}"/>'
    for point in one.points if dots else ():
        hint = f"<title>{_text(one.name)}, {figure_text(point.x)}: {figure_text(point.y)}</title>"
        yield f'<circle class="dot" cx="{frame.x(point.x):.1f}" cy="{frame.y(point.y):.1f}" r="3.4">{hint}</circle>'
    yield "</g>"


def _bars(frame: _Frame, one: Series, number: int) -> Iterator[str]:
    yield f'<g class="c{number % COLOURS}">'
    for point in one.points:
        x, low, high = frame.x(point.x), frame.y(point.low), frame.y(point.high)
        if low - high >= 1:
            ends = f"M{x - 3:.1f} {low:.1f}h6M{x - 3:.1f} {high:.1f}h6"
            yield f'<path class="bar" d="M{x:.1f} {low:.1f}V{high:.1f}{ends}"/>'
    yield "</g>"


def _band(frame: _Frame, one: Series, number: int) -> Iterator[str]:
    above = [f"{frame.x(point.x):.1f},{frame.y(point.high):.1f}" for point in one.points]
    below = [f"{frame.x(point.x):.1f},{frame.y(point.low):.1f}" for point in reversed(one.points)]
    yield f'<g class="c{number % COLOURS}"><polygon class="band" points="{" ".join([*above, *below])}"/></g>'


def _mean(number: int) -> str:
    return "mean dashed" if number >= COLOURS else "mean"


def _text(words: str) -> str:
    return escape(printable(words))
