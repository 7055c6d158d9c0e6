"""Places of the nodes of a graph in a drawing: the same ones each time, without random numbers."""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from math import cos, pi, sin

import numpy as np
from jaxtyping import Float, Int

Places = tuple[tuple[float, float], ...]
ROUNDS = 300
MOVED = 1e-5
"""The layout is finished when no node moves by more than this, in lengths of an edge."""


def arranged(count: int, edges: Sequence[Sequence[int]], focus: int | None = None) -> Places:
    """Places (x, y) within the unit square, from the left and from above, for the edges (sources, targets).

    With a `focus`, this node is in the middle, and every other on the ring of its distance. Otherwise distances in the
    drawing are close to the numbers of edges between nodes, by minimal stress Σ_{i<j} (|x_i − x_j| − d_ij)² / d_ij².
    Parts without a connection stand apart.

    >>> arranged(3, [[0, 1], [1, 2]])
    ((0.0, 0.5), (0.5, 0.5), (1.0, 0.5))
    >>> arranged(3, [[0, 1], [1, 2]], focus=1)
    ((0.5, 0.0), (0.5, 0.5), (0.5, 1.0))

    Reference: Gansner, Koren and North 2004, section 2.3; Kamada and Kawai 1989 for the stress.
    """
    if not count:
        return ()
    neighbours = _neighbours(count, edges)
    if focus is not None:
        return _rounded(0.5 + _rings(neighbours, focus) / 2)
    return _rounded(fitted(_by_stress(_distances(neighbours))))


def _neighbours(count: int, edges: Sequence[Sequence[int]]) -> list[list[int]]:
    sides: list[set[int]] = [set() for _ in range(count)]
    for source, target in zip(*edges, strict=True):
        if source != target:
            sides[source].add(target)
            sides[target].add(source)
    return [sorted(side) for side in sides]


def _distances(neighbours: list[list[int]]) -> Float[np.ndarray, "nodes nodes"]:
    """The number of edges between each two nodes; between parts, what keeps these apart."""
    rows = np.array([_hops(neighbours, node) for node in range(len(neighbours))])
    apart = np.sqrt(len(rows)) / 2 + 1.5
    return np.where(rows < 0, max(apart, float(rows.max()) / 2 + 1), rows).astype(np.float64)


def _hops(neighbours: list[list[int]], start: int) -> list[int]:
    """The number of edges from a node to every other; −1 where there is no path."""
    hops = [-1] * len(neighbours)
    hops[start], waiting = 0, deque([start])
    while waiting:
        node = waiting.popleft()
        for other in neighbours[node]:
            if hops[other] < 0:
                hops[other] = hops[node] + 1
                waiting.append(other)
    return hops


def _by_stress(distance: Float[np.ndarray, "nodes nodes"]) -> Float[np.ndarray, "nodes 2"]:
    """Stress majorisation, from the two largest principal axes of the distances."""
    count = len(distance)
    if count < 3:
        return np.stack([np.arange(count, dtype=np.float64), np.zeros(count)], axis=1)
    places = _principal(distance)
    weights = 1 / np.where(distance > 0, distance, 1.0) ** 2
    np.fill_diagonal(weights, 0)
    laplacian = np.diag(weights.sum(1)) - weights
    solved = np.linalg.inv(laplacian + 1 / count)  # what is missing, moving all nodes together, changes no distance
    for _ in range(ROUNDS):
        between = np.hypot(*(side[:, None] - side for side in places.T))
        pulls = -weights * distance / np.where(between > 0, between, 1.0)
        pulls = pulls - np.diag(pulls.sum(1))
        before, places = places, solved @ (pulls @ places)
        if np.abs(places - before).max() < MOVED:
            break
    return places


def _principal(distance: Float[np.ndarray, "nodes nodes"]) -> Float[np.ndarray, "nodes 2"]:
    """Classical scaling, with a slight bend that parts nodes in one place and a fixed sign of each axis."""
    count = len(distance)
    squares = distance**2
    centred = -0.5 * (squares - squares.mean(0) - squares.mean(1)[:, None] + squares.mean())
    values, vectors = np.linalg.eigh(centred)
    places = vectors[:, :-3:-1] * np.sqrt(np.maximum(values[:-3:-1], 0))
    first = np.abs(places).round(6).argmax(0)
    places *= np.where(places[first, [0, 1]] > 0, -1, 1)
    flat = np.ptp(places[:, 1]) < 1e-6  # nodes in one line stay in it
    turns = np.arange(count) * pi * (3 - np.sqrt(5))
    return places + (0 if flat else 1e-2) * np.stack([np.cos(turns), np.sin(turns)], axis=1)


def _rings(neighbours: list[list[int]], focus: int) -> Float[np.ndarray, "nodes 2"]:
    """A radial tree: each node has a sector as wide as the number of leaves behind it."""
    hops = np.array(_hops(neighbours, focus))
    outermost = int(hops.max())
    hops[hops < 0] = outermost = outermost + bool((hops < 0).any())
    children: list[list[int]] = [[] for _ in neighbours]
    order = np.argsort(hops, kind="stable").tolist()
    for node in order[1:]:
        nearer = [other for other in neighbours[node] if hops[other] == hops[node] - 1]
        children[min(nearer, key=lambda other: (len(children[other]), other)) if nearer else focus].append(node)
    leaves = np.ones(len(neighbours), dtype=np.int64)
    for node in reversed(order):
        leaves[node] = max(1, int(leaves[children[node]].sum())) if children[node] else 1
    places, begin = np.zeros((len(neighbours), 2)), {focus: -pi / 2 - pi * _first(leaves, children[focus])}
    for node in order:
        starts = np.concatenate([[0], leaves[children[node]].cumsum()]) * 2 * pi / leaves[focus]
        for child, (start, end) in zip(children[node], pairwise(starts.tolist()), strict=True):
            begin[child] = begin[node] + start
            angle, radius = begin[node] + (start + end) / 2, hops[child] / max(outermost, 1)
            places[child] = radius * cos(angle), radius * sin(angle)
    return places


def _first(leaves: Int[np.ndarray, " nodes"], children: list[int]) -> float:
    """The share of the first sector in the circle, whose middle is above the focus."""
    return float(leaves[children[0]] / leaves[children].sum()) if children else 0.0


def fitted(places: Float[np.ndarray, "nodes 2"]) -> Float[np.ndarray, "nodes 2"]:
    """Moved and scaled into the middle of the unit square, the same way in both directions."""
    size = float(np.ptp(places, axis=0).max()) or 1.0
    return 0.5 + (places - (places.min(0) + places.max(0)) / 2) / size


def _rounded(places: Float[np.ndarray, "nodes 2"]) -> Places:
    """Without the last digits, which depend on the processor."""
    return tuple((float(x), float(y)) for x, y in np.clip(places, 0, 1).round(4) + 0.0)
