"""Visibility rules are a Boolean algebra over absolute positions."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from foveate.attention import (
    Positions,
    Visibility,
    block,
    causal,
    chunk,
    dilated,
    edges,
    neighbourhood,
    padding,
    random_blocks,
    summary,
    visibility,
    window,
)

reach = st.one_of(st.integers(0, 6), st.just(math.inf))
small, size = st.integers(0, 3), st.integers(1, 4)
# Rules are drawn as plain data and built inside the tests: the runtime type checker draws random numbers of its own,
# which hypothesis forbids while it generates.
leaf = st.one_of(
    st.sampled_from(["everything", "nothing", "causal", "padding", "same_segment"]),
    st.tuples(st.just("window"), reach, reach),
    st.tuples(st.just("around"), reach, reach),
    st.tuples(st.just("dilated"), reach, reach, size),
    st.tuples(st.just("chunk"), size, reach, reach),
    st.tuples(st.just("strided"), size),
    st.tuples(st.just("summary"), size, size),
    st.tuples(st.just("global_tokens"), st.one_of(small, st.lists(st.integers(0, 6), max_size=2))),
    st.tuples(st.just("random_blocks"), size, small, small),
    st.tuples(st.just("prefix"), st.one_of(small, st.lists(small, min_size=2, max_size=2))),
    st.tuples(st.just("neighbourhood"), size, small, small, st.integers(0, 2)),
    st.tuples(st.just("edges"), st.lists(st.tuples(small, small), max_size=6), st.booleans()),
)
tree = st.recursive(
    leaf,
    lambda inner: st.one_of(st.tuples(st.sampled_from(["&", "|"]), inner, inner), st.tuples(st.just("~"), inner)),
    max_leaves=5,
)
place = st.tuples(
    st.integers(1, 5), st.integers(1, 5), st.integers(0, 4), st.lists(st.integers(0, 5), min_size=2, max_size=2)
)


def rule(tree: str | tuple) -> Visibility:
    match tree:
        case str(name):
            return getattr(visibility, name)()
        case (("window" | "around") as name, left, right):
            return getattr(visibility, name)(left=left, right=right)
        case ("dilated", left, right, step):
            return dilated(left=left, right=right, step=step)
        case ("chunk", size, left, right):
            return chunk(size, left=left, right=right)
        case ("strided", size):
            return block(size, strided=True)
        case ("summary", size, count):
            return summary(block=max(size, count), count=count)
        case (("global_tokens" | "prefix") as name, which):
            return getattr(visibility, name)(which)
        case ("random_blocks", size, count, seed):
            return random_blocks(block=size, count=count, seed=seed)
        case ("neighbourhood", columns, rows, beside, first):
            return neighbourhood(columns=columns, reach=(rows, beside), first=first)
        case ("edges", pairs, loops):
            return edges(torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T, self_loops=loops)
        case ("&", a, b):
            return rule(a) & rule(b)
        case ("|", a, b):
            return rule(a) | rule(b)
        case ("~", a):
            return ~rule(a)
    raise AssertionError(tree)


def positions(query: int, key: int, start: int, lengths: list[int]) -> Positions:
    at = Positions.of(query, key, query_start=start, key_lengths=torch.tensor(lengths).clamp(max=key))
    place = torch.arange(query + key)
    centre = (place[:query] * 1.7 % (key + 1)).reshape(1, 1, query, 1)
    segment = place * 7 // 3 % 2
    return replace(
        at,
        centre=centre,
        query_segment=segment[None, None, :query, None],
        key_segment=segment[None, None, None, query:],
    )


def full(rule: Visibility, at: Positions) -> torch.Tensor:
    return rule(at).expand(2, 1, at.query.shape[-2], at.key.shape[-1])


@given(tree, tree, place)
def test_operators_are_those_of_boolean_algebra(one: object, other: object, where: tuple) -> None:
    a, b, at = rule(one), rule(other), positions(*where)
    assert torch.equal(full(a & b, at), full(a, at) & full(b, at))
    assert torch.equal(full(a | b, at), full(a, at) | full(b, at))
    assert torch.equal(full(~a, at), ~full(a, at))


COUNTS = (0, 1, 2, 5, math.inf)
DEFINED = [
    "everything",
    "nothing",
    "causal",
    "padding",
    "same_segment",
    *itertools.product(["window", "around"], COUNTS, COUNTS),
    *itertools.product(["dilated"], COUNTS, COUNTS, [1, 2, 3]),
    *itertools.product(["chunk"], [1, 2, 3], COUNTS, COUNTS),
    *itertools.product(["prefix", "global_tokens"], [0, 1, 3]),
    *itertools.product(["neighbourhood"], [1, 2, 3], [0, 1, 2], [0, 1, 2], [0, 2]),
    *itertools.product(["edges"], [((0, 1), (3, 2), (1, 1))], [True, False]),
]


@pytest.mark.parametrize("start", [0, 2])
def test_a_rule_says_what_its_definition_says_of_each_pair(start: int) -> None:
    at = positions(4, 5, start, [5, 3])
    for drawn in DEFINED:
        said = full(rule(drawn), at)
        for batch, i, j in itertools.product(range(2), range(4), range(5)):
            assert sees(drawn, at, batch, i, j) == bool(said[batch, 0, i, j]), (drawn, batch, i, j)


def sees(drawn: str | tuple, at: Positions, batch: int, i: int, j: int) -> bool:
    """What a rule means, for one query and one key."""
    q, k = int(at.query[0, 0, i, 0]), int(at.key[0, 0, 0, j])
    match drawn:
        case "everything" | "nothing":
            return drawn == "everything"
        case "causal":
            return k <= q
        case "padding":
            return bool(at.real[batch, 0, 0, j])
        case "same_segment":
            return int(at.query_segment[0, 0, i, 0]) == int(at.key_segment[0, 0, 0, j])
        case ("window", left, right):
            return q - left <= k <= q + right
        case ("around", left, right):
            centre = float(at.centre[0, 0, i, 0])
            return centre - left <= k <= centre + right
        case ("dilated", left, right, step):
            return (k - q) % step == 0 and q - left * step <= k <= q + right * step
        case ("chunk", size, left, right):
            return q // size - left <= k // size <= q // size + right
        case ("prefix", length):
            return k < length
        case ("global_tokens", count):
            return q < count or k < count
        case ("neighbourhood", columns, rows, beside, first):
            (q_row, q_column), (k_row, k_column) = (divmod(place - first, columns) for place in (q, k))
            near = abs(q_row - k_row) <= rows and abs(q_column - k_column) <= beside
            return near and (not first or min(q, k) >= first)
        case ("edges", ends, loops):
            return (k, q) in ends or (loops and k == q)
    raise AssertionError(drawn)


@given(tree)
def test_a_rule_prints_as_the_code_that_makes_it(drawn: object) -> None:
    a = rule(drawn)
    assert eval(repr(a), {"math": math, **vars(visibility)}) == a
    assert Visibility.parse(repr(a)) == a


@given(tree, place)
def test_a_rule_that_reads_no_query_position_gives_every_query_the_same(drawn: object, where: tuple) -> None:
    a, at = rule(drawn), positions(*where)
    if not a.reads_query_position:
        visible = full(a, at)
        assert (visible == visible[:, :, :1]).all()


@given(tree, place)
def test_nothing_is_visible_outside_of_the_reach(drawn: object, where: tuple) -> None:
    a, at = rule(drawn), positions(*where)
    inside = torch.zeros(1, 1, 1, 1, dtype=torch.bool)
    for span in a.reach(at).spans:
        inside = inside | ((at.key >= span.first) & (at.key <= span.last))
    assert not (full(a, at) & ~inside).any()
    first, last = a.bounds(at)
    assert not (full(a, at) & ~((at.key >= first) & (at.key <= last))).any()


@given(tree, place, st.data())
def test_a_tile_of_a_rule_is_cut_from_the_whole(drawn: object, where: tuple, data: st.DataObject) -> None:
    a, at = rule(drawn), positions(*where)
    ends = [sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n)))) for n in where[:2]]
    rows, columns = (slice(*pair) for pair in ends)
    tile = full(a, at.rows(rows).columns(columns))
    assert torch.equal(tile, full(a, at)[:, :, rows, columns])


@given(tree, place)
def test_pairs_are_counted(drawn: object, where: tuple) -> None:
    a, at = rule(drawn), positions(*where)
    assert round(a.pairs(at)) == int(full(a, at).sum())
    assert round(a.pairs(at, heads=3)) == 3 * int(full(a, at).sum())


@given(tree, tree)
def test_the_order_of_a_combination_does_not_matter(one: object, other: object) -> None:
    a, b, at = rule(one), rule(other), positions(5, 5, 0, [5, 3])
    assert torch.equal(full(a & b, at), full(b & a, at))
    assert a & a == a
    assert a | a == a
    assert ~~a == a


@given(leaf, leaf)
def test_a_rule_that_swallows_another_is_swallowed_by_it_on_the_other_side_of_the_sign(
    one: object, other: object
) -> None:
    a, b = rule(one), rule(other)
    assert (a & b == a) == (a | b == b)
    assert a & (a | b) == a
    assert a | (a & b) == a


@given(st.integers(1, 7), st.integers(1, 7))
def test_an_unbounded_left_window_is_causal(query: int, key: int) -> None:
    assert window(left=math.inf, right=0).picture(query, key) == causal().picture(query, key)


@given(st.integers(1, 6), st.integers(0, 6), st.integers(0, 6))
def test_rows_of_a_cache_are_the_rows_of_the_whole(length: int, left: int, right: int) -> None:
    banded = window(left=left, right=right) & causal()
    whole = full(banded, Positions.of(length, length, key_lengths=torch.tensor([length, length])))
    for start in range(length):
        at = Positions.of(1, length, query_start=start, key_lengths=torch.tensor([length, length]))
        assert torch.equal(full(banded, at)[:, :, 0], whole[:, :, start])


def test_padding_for_longer_keys_than_there_are_says_what_to_pass() -> None:
    with pytest.raises(ValueError, match=r"`key` has 5 positions, but padding\(lengths\) names a sequence of 6"):
        padding(torch.tensor([6]))(Positions.of(5, 5))


def test_left_padding_counts_positions_from_the_first_real_token() -> None:
    at = Positions.of(3, 3, key_lengths=torch.tensor([2]), side="left")
    assert at.key.flatten().tolist() == [-1, 0, 1]
    assert at.real is not None
    assert at.real.flatten().tolist() == [False, True, True]
