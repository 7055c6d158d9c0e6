"""Line charts of a run: one small SVG for each figure in `metrics.jsonl`."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from foveate.inspect.caption import printable

Point = tuple[float, float]

WIDTH, HEIGHT = 340, 200
LEFT, RIGHT, TOP, BOTTOM = 50, 12, 10, 26
MOST_POINTS = 300  # longer lines are averaged in bins, because more points would only be noise a few pixels wide
MOST_HINTS = 60

_NOT_DRAWN = frozenset({"kind", "step", "epoch", "tokens", "seconds", "best"})
_LAST = ("learning_rate", "gradient_norm", "tokens_per_second")
_KINDS = {"train": "training", "valid": "validation"}


@dataclass(frozen=True)
class Curve:
    """One line of a chart: points (step, value) in the order of the steps."""

    name: str
    points: tuple[Point, ...]

    @property
    def last(self) -> float:
        return self.points[-1][1]

    @property
    def lowest(self) -> Point:
        """The smallest value and its first step."""
        return min(self.points, key=lambda point: point[1])


def curves_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Curve]]:
    """The curves of each figure in the rows of `metrics.jsonl`: training before validation, the loss first.

    Missing and infinite values are gaps; figures with a single point are left out.

    >>> rows = [{"kind": kind, "step": step, "loss": 1 / step} for step in (1, 2) for kind in ("train", "valid")]
    >>> {name: [curve.name for curve in curves] for name, curves in curves_of(rows).items()}
    {'loss': ['training', 'validation']}
    """
    values_of: dict[str, dict[str, dict[float, float]]] = {}
    for row in rows:
        kind = _KINDS.get(str(row.get("kind", "train")), str(row.get("kind")))
        for name, value in row.items():
            if name not in _NOT_DRAWN and _is_number(value) and _is_number(row.get("step")):
                values_of.setdefault(name, {}).setdefault(kind, {})[float(row["step"])] = float(value)
    drawn = {
        name: [Curve(kind, tuple(sorted(points.items()))) for kind, points in sorted(kinds.items()) if len(points) > 1]
        for name, kinds in values_of.items()
    }
    order = sorted(drawn, key=lambda name: (name != "loss", _LAST.index(name) if name in _LAST else -1))
    return {name: drawn[name] for name in order if drawn[name]}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def nice_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Equally spaced round numbers (1, 2 or 5 times a power of ten) that cover the range from `low` to `high`.

    >>> nice_ticks(0.13, 0.92), nice_ticks(0.0, 1234.0)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 500.0, 1000.0, 1500.0])
    """
    if not high - low > 1e-300:  # below the precision of any scale
        room = abs(low) / 2 or 1.0
        low, high = low - room, high + room
    least = (high - low) / (most - 1)
    power = 10.0 ** math.floor(math.log10(least))
    for step in (power, 2 * power, 5 * power, 10 * power, 20 * power):
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if last - first < most:
            break
    digits = max(0, 1 - math.floor(math.log10(step)))
    return [round(i * step, digits) + 0.0 for i in range(first, last + 1)]


def figure_text(value: float, digits: int = 4) -> str:
    """A number in readable form: `12,000`, `0.0003`, `2e-6`.

    >>> figure_text(12000.0), figure_text(0.00031), figure_text(2e-6), figure_text(3.14159)
    ('12,000', '0.00031', '2e-6', '3.142')
    """
    if value and abs(value) < 1e-4:
        return f"{value:.3g}".replace("e-0", "e-")
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"


def title_of(name: str) -> str:
    """The heading of a figure: `Tokens per second`."""
    words = printable(name).replace("_", " ").replace(".", " ")
    return words[:1].upper() + words[1:]


def chart(name: str, curves: Sequence[Curve], last: float) -> str:
    """One chart of the steps from 0 to `last` as an SVG element.

    Colours are classes of the page: `line-0`, `line-1` …, `axis`, `rule`. All charts of a run have the same steps, so
    that simultaneous events have the same place.
    """
    ys = [y for curve in curves for _, y in curve.points]
    low = 0.0 if 0 <= min(ys) < 0.4 * max(ys) else min(ys)
    frame = Frame(last, nice_ticks(low, max(ys)))
    description = "; ".join(f"{curve.name} ends at {figure_text(curve.last)}" for curve in curves)
    label = escape(f"{title_of(name)} by step: {description}.")
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">',
        *_axes(frame),
        *(_line(frame, curve, rank) for rank, curve in ranked(curves)),
        *(hint for rank, curve in ranked(curves) for hint in _hints(frame, curve, rank)),
        "</svg>",
    ]
    return "\n".join(parts)


def ranked(curves: Sequence[Curve]) -> Iterator[tuple[int, Curve]]:
    """Each curve with the number of its colour; that of validation does not depend on the other curves."""
    for i, curve in enumerate(curves):
        yield {"training": 0, "validation": 1}.get(curve.name, 2 + i), curve


@dataclass(frozen=True)
class Frame:
    """Converts figures to pixels."""

    last: float
    ticks: list[float]

    def x(self, step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / (self.last or 1.0)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - self.ticks[0]) / (self.ticks[-1] - self.ticks[0])


def _axes(frame: Frame) -> Iterator[str]:
    for tick in frame.ticks:
        at = frame.y(tick)
        yield f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
        yield f'<text class="axis" x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{figure_text(tick)}</text>'
    y = HEIGHT - BOTTOM
    yield f'<line class="base" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>'
    for tick in nice_ticks(0.0, frame.last, most=5):
        if tick > frame.last:
            break
        x = frame.x(tick)
        # Centred on its tick, the last label would leave the picture.
        anchor = "end" if x > WIDTH - RIGHT - 18 else "middle"
        yield f'<line class="base" x1="{x:.1f}" x2="{x:.1f}" y1="{y}" y2="{y + 4}"/>'
        yield f'<text class="axis" x="{x:.1f}" y="{y + 17}" text-anchor="{anchor}">{figure_text(tick)}</text>'
    yield f'<text class="axis" x="{LEFT - 14}" y="{y + 17}" text-anchor="end">step</text>'


def _line(frame: Frame, curve: Curve, rank: int) -> str:
    points = thinned(curve.points, MOST_POINTS)
    path = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in points)
    dots = ""
    if curve.name == "validation" and len(points) <= 40:
        dots = "".join(
            f'<circle class="dot-{rank}" cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="2.6"/>' for x, y in points
        )
    return f'<polyline class="line-{rank}" points="{path}"/>{dots}'


def _hints(frame: Frame, curve: Curve, rank: int) -> Iterator[str]:
    """Transparent spots with tooltips of their values; those of validation are drawn last, on top."""
    for x, y in thinned(curve.points, MOST_HINTS):
        says = escape(f"{curve.name}, step {x:,.0f}: {figure_text(y)}")
        yield f'<circle class="hint" cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="7"><title>{says}</title></circle>'


def thinned(points: Sequence[Point], most: int) -> list[Point]:
    """At most `most` points; each is the mean of several neighbours, at the step of the last one.

    >>> thinned([(1.0, 4.0), (2.0, 2.0), (3.0, 1.0)], most=2)
    [(2.0, 3.0), (3.0, 1.0)]
    """
    size = math.ceil(len(points) / most)
    bins = [points[i : i + size] for i in range(0, len(points), size)]
    return [(group[-1][0], math.fsum(y for _, y in group) / len(group)) for group in bins]
