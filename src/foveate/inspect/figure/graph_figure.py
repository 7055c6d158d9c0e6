"""Draws a graph or a molecule as SVG, with edges as wide as their weights and areas for what a read-out looks at."""

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil, cos, hypot, pi, sin
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from foveate.errors import UsageError
from foveate.inspect.caption import fit, printable
from foveate.inspect.figure.element import PageTheme, colour_bar, document, font, heading, painted, px, text_element
from foveate.inspect.figure.letter import width
from foveate.inspect.figure.paint import Paint
from foveate.inspect.figure.scale import HIDDEN, STEPS
from foveate.inspect.figure.svg_layout import (
    CAPTION,
    LABEL,
    LEGEND,
    PAD,
    Pixels,
    title_height,
    title_lines,
    title_width,
)

if TYPE_CHECKING:  # the import of pictures of alignments must be quick
    from foveate.inspect.trace.track import Track

WIDE, HIGH, EDGE, LONGEST = 640, 520, 36, 96
"""The largest width and height of a drawing, its margin, and the length of an edge of middle length, in pixels."""
LARGEST, SMALLEST = 17.0, 4.0
"""The radius of a node."""
CORNERS = 32
OFFSETS = {"single": (0.0,), "double": (-0.5, 0.5), "triple": (-1.0, 0.0, 1.0), "aromatic": (-0.5, 0.5)}
APART = 5.0
"""The distance between the strokes of a bond."""
MOST = 300
"""The largest number of nodes that a drawing shows."""
Point = tuple[float, float]


def graph_svg(
    track: "Track",
    weights: Float[np.ndarray, "queries nodes"],
    *,
    query: int | None = None,
    title: str | None = None,
    theme: PageTheme = "light",
) -> str:
    """The nodes of a track and weights as an SVG document.

    With a `query`, a node, the edges that it looks along are as wide as their weights, and a ring is its weight for
    itself. Without one, weights of every node for every node are drawn as all edges, and a single row of weights, that
    of a read-out, as areas around the nodes. Widths and colours grow to the largest weight that is drawn.

    Raises `UsageError` for a track without edges, weights of other nodes, and more than 300 nodes.
    """
    count = len(track)
    if track.edges is None or weights.shape[1] != count or weights.shape[0] not in (1, count) or not count:
        raise UsageError(
            f"A graph is drawn from its edges and weights of 1 or {count} queries for {count} nodes; there are "
            f"{'no edges' if track.edges is None else f'{weights.shape[0]} × {weights.shape[1]} weights'}."
        )
    if count > MOST:
        raise UsageError(f"{count:,} nodes are too many for a drawing; it shows {MOST}. Draw the neighbours of a node.")
    paint, style = painted(theme)
    roads = _roads(track)
    places, size = _to_scale(track, roads)
    radius = min(LARGEST, max(SMALLEST, 0.3 * _nearest(places)))
    title = printable(title) if title else None
    lines = title_lines(title, size[0] - 2 * PAD)
    top = title_height(lines) + 6 if lines else 0
    places = [(x, y + top) for x, y in places]
    outside = len(weights) == 1 and query is None  # a read-out, or the only node
    rows = [] if outside else range(count) if query is None else [query]
    levels = np.nan_to_num(weights[0] if outside else weights[rows].mean(0))
    carried = [
        (row, key, float(weights[row, key])) for row in rows for key in np.flatnonzero(weights[row] > 0).tolist()
    ]
    most = max((weight for *_, weight in carried), default=1.0)
    parts = [
        *(part for road in roads for part in _base(road, places, radius, paint)),
        *(part for row, key, weight in carried for part in _carried(row, key, weight / most, places, radius, paint)),
        *(_areas(levels, places, radius, paint) if outside else ()),
        *(_node(track, at, places[at], radius, levels, at == query, paint) for at in range(count)),
    ]
    words = _meaning(levels, most if carried else None, mean=len(rows) > 1)
    foot = size[1] + top
    room = max(LEGEND, *(width(line) * CAPTION for line in words))
    wide = ceil(max(size[0], 2 * PAD + title_width(lines), 2 * PAD + room))
    parts = [*heading(lines, paint), *parts, *colour_bar(PAD, foot, LEGEND, paint)]
    for number, line in enumerate(words):
        parts.append(text_element(PAD, foot + 24 + number * 16, line, "left", paint.ink("quiet"), font(CAPTION)))
    description = f"{title or 'Graph'}. {'; '.join(_spoken(track, levels, 8))}."
    return document(parts, (wide, foot + 24 + 16 * len(words)), description, paint, style)


def _meaning(levels: np.ndarray, widest: float | None, *, mean: bool) -> list[str]:
    """The meaning of colours and widths, in words."""
    nothing = "0 (grey)" if (levels == 0).any() else "0"
    lines = [f"{nothing} to {levels.max():.3g}, {'mean of all queries' if mean else 'the largest weight here'}"]
    return lines if widest is None else [*lines, f"the widest edge has the weight {widest:.3g}"]


def graph_lines(
    track: "Track", weights: Float[np.ndarray, "queries nodes"], *, query: int | None = None, most: int = 20
) -> str:
    """The strongest weights as lines of text: a bar, the weight, the node and its note.

    >>> from foveate.inspect import Track
    >>> print(graph_lines(Track.of_nodes("COO", [[0, 0], [1, 2]]), np.array([[0.1, 0.65, 0.25]])))
    0.650 ██████████ O
    0.250 ████       O
    0.100 ██         C
    """
    row = np.nan_to_num(weights[0 if query is None or len(weights) == 1 else query])
    return "\n".join(
        f"{row[at]:.3f} {'█' * round(10 * row[at] / row.max()):<10} {printable(track.labels[at])}"
        + (f": {printable(track.notes[at])}" if track.notes is not None else "")
        for at in _strongest(row, most)
    )


class _Road:
    """Two nodes that an edge joins."""

    def __init__(self, source: int, target: int, bond: str | None) -> None:
        self.source, self.target, self.bond, self.both = source, target, bond, False


def _roads(track: "Track") -> list[_Road]:
    assert track.edges is not None
    roads: dict[tuple[int, int], _Road] = {}
    for at, (source, target) in enumerate(zip(*track.edges, strict=True)):
        if source != target:
            road = roads.setdefault(
                (min(source, target), max(source, target)),
                _Road(source, target, None if track.bonds is None else track.bonds[at]),
            )
            road.both |= road.source == target
    return list(roads.values())


def _to_scale(track: "Track", roads: Sequence[_Road]) -> tuple[list[Point], tuple[int, int]]:
    """The places in pixels, and the size of the drawing; an edge of middle length is not longer than it need be."""
    unit = np.array(track.placed().places)
    low, extent = unit.min(0), np.maximum(np.ptp(unit, axis=0), 1e-9)
    lengths = [float(np.linalg.norm(unit[road.source] - unit[road.target])) for road in roads]
    middle = float(np.median(lengths)) if lengths else 1.0
    scale = min((WIDE - 2 * EDGE) / extent[0], (HIGH - 2 * EDGE) / extent[1], LONGEST / max(middle, 1e-9))
    places = EDGE + (unit - low) * scale
    return [(float(x), float(y)) for x, y in places], tuple(ceil(side * scale + 2 * EDGE) for side in extent)


def _nearest(places: Sequence[Point]) -> float:
    """The distance between the two nearest nodes."""
    at = np.array(places)
    apart = np.hypot(*(side[:, None] - side for side in at.T))
    return float(apart[~np.eye(len(at), dtype=bool)].min()) if len(at) > 1 else 2 * LONGEST


def _base(road: _Road, places: Sequence[Point], radius: float, paint: Paint) -> Iterator[str]:
    """The strokes of an edge; the second one of an aromatic bond is dashed."""
    (a, b), (c, d) = places[road.source], places[road.target]
    far = hypot(c - a, d - b) or 1.0
    x, y = (b - d) / far, (c - a) / far
    for number, by in enumerate(OFFSETS[road.bond or "single"]):
        from_, to = (a + x * by * APART, b + y * by * APART), (c + x * by * APART, d + y * by * APART)
        dashes = max(2, int(far / 8)) if road.bond == "aromatic" and number else 1
        share = 0.55 if dashes > 1 else 1.0
        for at in range(dashes):
            ends = [_between(from_, to, at / dashes), _between(from_, to, (at + share) / dashes)]
            yield _path(ends, 1.6 if road.bond else 1, paint, "hatch")
    if not road.both and road.bond is None:
        yield _arrow(places[road.source], places[road.target], radius + 1, 6, paint.ink("quiet"))


def _carried(
    target: int, source: int, strength: float, places: Sequence[Point], radius: float, paint: Paint
) -> Iterator[str]:
    """A weight as the width of an edge, or of a ring for a node and itself."""
    wide = 1 + 7 * strength**0.5
    if source == target:
        corners = _circle(places[target], radius + 1 + wide / 2)
        yield _path([*corners, corners[0]], wide, paint)
        return
    yield _path([places[source], places[target]], wide, paint)
    yield _arrow(places[source], places[target], radius + 1, 5 + wide, paint.ink("text"))


def _areas(levels: np.ndarray, places: Sequence[Point], radius: float, paint: Paint) -> Iterator[str]:
    for at, share in enumerate(levels / max(float(levels.max()), 1e-12)):
        if share > 0:
            around = _circle(places[at], radius * (1 + 0.9 * float(share) ** 0.5))
            yield _polygon(around, paint.level(round(STEPS * float(share) / 2)))


def _node(track: "Track", at: int, place: Point, radius: float, levels: np.ndarray, chosen: bool, paint: Paint) -> str:
    share = float(levels[at]) / max(float(levels.max()), 1e-12)
    level = round(STEPS * share) if share > 0 else HIDDEN
    name = printable(track.labels[at])
    note = f", {printable(track.notes[at])}" if track.notes is not None else ""
    hint = f"<title>{escape(f'{name}{note}: {levels[at]:.3f}')}</title>"
    parts = [
        _polygon(_circle(place, radius + (2.5 if chosen else 1)), paint.ink("text" if chosen else "quiet")),
        _polygon(_circle(place, radius), paint.level(level), hint),
    ]
    if width(name) * LABEL < 1.9 * radius:
        ink = paint.ink("paper" if share > 0.45 else "text")
        parts.append(text_element(place[0], place[1] + LABEL * 0.36, name, "centre", ink, font(LABEL)))
    elif chosen or share > 0.2 or len(levels) <= 30:
        shown = fit(name, 16)
        ink = paint.ink("text")
        parts.append(text_element(place[0], place[1] + radius + CAPTION, shown, "centre", ink, font(CAPTION)))
    return "".join(parts)


def _path(points: Sequence[Point], wide: Pixels, paint: Paint, ink: str = "link") -> str:
    line = "L".join(f"{px(x)} {px(y)}" for x, y in points)
    return f'<path d="M{line}" fill="none" stroke-width="{px(wide)}" {paint.ink(ink)}/>'


def _arrow(from_: Point, to: Point, radius: Pixels, size: Pixels, ink: str) -> str:
    """A head whose tip touches the circle around `to`."""
    far = hypot(to[0] - from_[0], to[1] - from_[1]) or 1.0
    x, y = (to[0] - from_[0]) / far, (to[1] - from_[1]) / far
    tip = to[0] - x * radius, to[1] - y * radius
    back = tip[0] - x * size, tip[1] - y * size
    corners = [tip, *((back[0] - y * side * size / 2, back[1] + x * side * size / 2) for side in (1, -1))]
    return _polygon(corners, ink)


def _circle(place: Point, radius: float) -> list[Point]:
    """The corners of a polygon that looks like a circle: our PDF has no other."""
    turns = (2 * pi * corner / CORNERS for corner in range(CORNERS))
    return [(place[0] + radius * cos(turn), place[1] + radius * sin(turn)) for turn in turns]


def _polygon(corners: Sequence[Point], ink: str, inside: str = "") -> str:
    points = " ".join(f"{px(x)},{px(y)}" for x, y in corners)
    return f'<polygon points="{points}" {ink}>{inside}</polygon>' if inside else f'<polygon points="{points}" {ink}/>'


def _between(a: Point, b: Point, share: float) -> Point:
    return a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share


def _strongest(row: np.ndarray, most: int) -> list[int]:
    return [at for at in np.argsort(-row, kind="stable")[:most].tolist() if row[at] > 0]


def _spoken(track: "Track", row: np.ndarray, most: int) -> Iterator[str]:
    return (f"{printable(track.labels[at])} {row[at]:.3f}" for at in _strongest(row, most))
