"""Visibility rules are a Boolean algebra over absolute positions."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from foveate.attention import Positions, Visibility, causal, everything, padding, visibility, window

reach = st.one_of(st.integers(0, 6), st.just(math.inf))
# Rules are drawn as plain data and built inside the tests: the runtime type checker draws random numbers of its own,
# which hypothesis forbids while it generates.
leaf = st.one_of(st.sampled_from(["everything", "causal", "padding"]), st.tuples(st.just("window"), reach, reach))
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
        case "everything":
            return everything()
        case "causal":
            return causal()
        case "padding":
            return padding()
        case ("window", left, right):
            return window(left=left, right=right)
        case ("&", a, b):
            return rule(a) & rule(b)
        case ("|", a, b):
            return rule(a) | rule(b)
        case ("~", a):
            return ~rule(a)
    raise AssertionError(tree)


def positions(query: int, key: int, start: int, lengths: list[int]) -> Positions:
    return Positions.of(query, key, query_start=start, key_lengths=torch.tensor(lengths))


def full(rule: Visibility, at: Positions) -> torch.Tensor:
    return rule(at).expand(2, 1, at.query.shape[-2], at.key.shape[-1])


@given(tree, tree, place)
def test_operators_are_those_of_boolean_algebra(one: object, other: object, where: tuple) -> None:
    a, b, at = rule(one), rule(other), positions(*where)
    assert torch.equal(full(a & b, at), full(a, at) & full(b, at))
    assert torch.equal(full(a | b, at), full(a, at) | full(b, at))
    assert torch.equal(full(~a, at), ~full(a, at))


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
