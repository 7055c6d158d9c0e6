"""Batches of several directions: a pure function of seed and step, with the shares that the temperature gives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.data.balanced_plan import BalancedPlan, tempered

COUNTS = (400, 60, 9)
"""Pairs of three directions."""


def plan(temperature: float = 1.0, seed: int = 3) -> BalancedPlan:
    generator = np.random.default_rng(0)
    directions = generator.permutation(np.repeat(np.arange(len(COUNTS)), COUNTS))
    source, target = generator.integers(2, 12, (2, len(directions)))
    return BalancedPlan(source, target, directions, temperature=temperature, max_tokens=80, seed=seed)


def directions_of(batches: BalancedPlan, step: int) -> set[int]:
    examples = batches.examples(step)
    return {number for number, members in enumerate(batches._members) if np.isin(examples, members).any()}


def test_at_temperature_1_a_round_has_every_pair_once() -> None:
    batches = plan()
    for first in (0, batches.steps_per_epoch):
        steps = range(first, first + batches.steps_per_epoch)
        assert sorted(np.concatenate([batches.examples(step) for step in steps])) == list(range(sum(COUNTS)))


@pytest.mark.parametrize("temperature", [1.0, 5.0])
def test_a_step_is_a_function_of_seed_and_step_and_has_one_direction(temperature: float) -> None:
    batches = plan(temperature)
    inquired = list(range(0, 3 * batches.steps_per_epoch, 7))
    here = [batches.examples(step).tolist() for step in inquired]
    assert here == [plan(temperature).examples(step).tolist() for step in inquired]
    assert here != [plan(temperature, seed=4).examples(step).tolist() for step in inquired]
    assert all(len(directions_of(batches, step)) == 1 for step in inquired)


def test_a_direction_is_read_whole_before_it_is_read_again_whatever_its_share() -> None:
    batches = plan(5.0)
    examples: list[int] = []
    for step in range(4 * batches.steps_per_epoch):
        if directions_of(batches, step) == {0}:
            examples += batches.examples(step).tolist()
    for start in range(0, len(examples) - COUNTS[0] + 1, COUNTS[0]):
        assert len(set(examples[start : start + COUNTS[0]])) == COUNTS[0]
    assert len(examples) > COUNTS[0]


def test_a_factor_multiplies_the_share_of_its_direction() -> None:
    directions = np.random.default_rng(0).permutation(np.repeat(np.arange(len(COUNTS)), COUNTS))
    lengths = np.full(len(directions), 4)
    shares = [
        BalancedPlan(lengths, lengths, directions, temperature=1.0, factors=factors, max_tokens=80, seed=3)._shares
        for factors in ({}, {1: 3.0}, {0: 3.0, 1: 3.0, 2: 3.0})
    ]
    assert shares[0] == shares[2]
    assert sum(shares[0]) == sum(shares[1])
    assert shares[1][1] / shares[1][0] == pytest.approx(3 * shares[0][1] / shares[0][0], rel=0.15)


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=8), st.floats(1, 1e6))
def test_shares_keep_the_sum_and_the_order_and_come_closer_with_the_temperature(
    counts: list[int], temperature: float
) -> None:
    shares, warmer = tempered(counts, temperature), tempered(counts, 2 * temperature)
    assert sum(shares) == sum(counts)
    assert min(shares) >= 1
    order = np.argsort(counts, kind="stable")
    assert (np.diff(np.array(shares)[order]) >= -1).all()  # up to rounding
    assert max(warmer) - min(warmer) <= max(shares) - min(shares) + 1
