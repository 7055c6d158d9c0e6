"""Where nodes are drawn: laws of places that follow from edges alone."""

import itertools
import math

import numpy as np
import pytest

from foveate.inspect.graph_layout import arranged

GRID = [(a, b) for a in range(16) for b in range(16) if b - a == 4 or (b - a == 1 and b % 4)]
CUBE = [(a, b) for a in range(8) for b in range(a) if (a ^ b).bit_count() == 1]
RING = [(a, (a + 1) % 12) for a in range(12)]
TREE = [(a, (a - 1) // 2) for a in range(1, 31)]
PARTS = [(0, 1), (1, 2), (2, 0), (3, 4), (6, 6)]
GRAPHS = {"grid": (16, GRID), "cube": (8, CUBE), "ring": (12, RING), "tree": (31, TREE), "parts": (7, PARTS)}


def sides(pairs: list[tuple[int, int]]) -> list[tuple[int, ...]]:
    return list(zip(*pairs, strict=True))


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("focus", [None, 1])
def test_nodes_lie_apart_within_the_unit_square_at_every_call(name: str, focus: int | None) -> None:
    count, pairs = GRAPHS[name]
    places = arranged(count, sides(pairs), focus)
    assert places == arranged(count, sides(pairs), focus)
    assert all(0 <= at <= 1 for place in places for at in place)
    assert min(math.dist(*two) for two in itertools.combinations(places, 2)) > 0.02


@pytest.mark.parametrize("name", ["grid", "ring", "tree", "cube"])
def test_neighbours_are_nearer_than_others(name: str) -> None:
    count, pairs = GRAPHS[name]
    places = arranged(count, sides(pairs))
    joined = [math.dist(places[a], places[b]) for a, b in pairs]
    others = [
        math.dist(places[a], places[b])
        for a, b in itertools.combinations(range(count), 2)
        if (a, b) not in pairs and (b, a) not in pairs
    ]
    assert np.mean(joined) < 0.75 * np.mean(others)


def test_a_ring_is_drawn_as_a_ring_and_a_path_as_a_line() -> None:
    ring = np.array(arranged(12, sides(RING)))
    radii = np.linalg.norm(ring - ring.mean(0), axis=1)
    assert radii.max() / radii.min() < 1.05
    path = np.array(arranged(6, sides([(a, a + 1) for a in range(5)])))
    np.testing.assert_allclose(path, np.stack([np.linspace(0, 1, 6), np.full(6, 0.5)], 1), atol=5e-3)


def test_the_direction_and_number_of_edges_does_not_move_a_node() -> None:
    turned = [(b, a) for a, b in GRID]
    assert arranged(16, sides(turned)) == arranged(16, sides(GRID + turned)) == arranged(16, sides(GRID))


def test_rings_count_the_edges_to_the_focus() -> None:
    places = arranged(31, sides(TREE), focus=0)
    radii = [math.dist(place, (0.5, 0.5)) for place in places]
    assert radii == pytest.approx([int(math.log2(node + 1)) / 8 for node in range(31)], abs=1e-3)
    assert arranged(3, [[0], [1]], focus=0)[2] == pytest.approx((0.5, 1.0))  # beyond all rings, where no path leads


def test_no_and_one_node_have_places() -> None:
    assert arranged(0, [[], []]) == ()
    assert arranged(1, [[], []]) == arranged(1, [[0], [0]], focus=0) == ((0.5, 0.5),)
