import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.comparison.result import Estimate, paired, student

FIGURES = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=9)


@given(FIGURES)
def test_the_error_is_the_standard_deviation_of_the_sample_over_the_root_of_its_size(values: list[float]) -> None:
    estimate = Estimate.of(values)
    assert estimate.mean == pytest.approx(np.mean(values), abs=1e-6)
    assert estimate.error == pytest.approx(np.std(values, ddof=1) / math.sqrt(len(values)), rel=1e-6, abs=1e-6)


def test_the_interval_of_three_starts_is_that_of_the_textbook() -> None:
    low, high = Estimate.of([10.0, 12.0, 14.0]).interval or (0.0, 0.0)
    assert (low, high) == pytest.approx((12 - 4.303 * 2 / math.sqrt(3), 12 + 4.303 * 2 / math.sqrt(3)))


def test_one_start_says_nothing_of_its_error() -> None:
    alone = Estimate.of([3.5])
    assert (alone.error, alone.interval, alone.is_clear, str(alone)) == (None, None, False, "3.500")


def test_no_start_has_no_mean() -> None:
    with pytest.raises(ValueError, match="no mean of nothing"):
        Estimate.of([])


def test_the_interval_holds_the_mean_as_often_as_it_says() -> None:
    generator = np.random.default_rng(0)
    hits = 0
    for row in generator.normal(5.0, 2.0, (2000, 4)).tolist():
        low, high = Estimate.of(row).interval or (0.0, 0.0)
        hits += low <= 5.0 <= high
    assert 0.935 <= hits / 2000 <= 0.965


def test_t_falls_towards_that_of_the_normal_distribution() -> None:
    assert [student(n) for n in (1, 2, 9, 30)] == [12.706, 4.303, 2.262, 2.042]
    assert student(31) == pytest.approx(2.040, abs=3e-3)
    assert student(60) == pytest.approx(2.000, abs=1e-3)
    assert student(10**6) == pytest.approx(1.960, abs=1e-3)


def test_a_paired_difference_leaves_out_what_a_seed_does_to_both() -> None:
    ours = {0: 10.0, 1: 20.0, 2: 30.0}
    theirs = {0: 9.0, 1: 18.9, 2: 29.1}
    difference = paired(ours, theirs)
    assert difference is not None
    assert difference.mean == pytest.approx(1.0)
    assert difference.is_clear
    assert not Estimate.of(list(ours.values())).is_clear


def test_only_seeds_that_both_have_are_paired() -> None:
    difference = paired({0: 1.0, 5: 9.0}, {0: 3.0, 4: 0.0})
    assert difference == Estimate(-2.0, None, 1)
    assert paired({0: 1.0}, {1: 1.0}) is None


def test_digits_follow_the_error() -> None:
    assert Estimate(0.123456, 0.0034, 3).shown() == "0.1235 ± 0.0034"
    assert Estimate(-1.5, 0.0, 3).shown(sign=True) == "-1.500 ± 0"
    assert Estimate(100.0, None, 1).shown() == "100"


def test_the_whisker_of_an_unknown_error_has_no_length() -> None:
    assert Estimate(2.0, None, 1).whisker == Estimate(2.0, math.nan, 2).whisker == (2.0, 2.0)
    assert Estimate(2.0, 0.5, 2).whisker == (1.5, 2.5)


def test_huge_figures_have_an_infinite_error() -> None:
    assert Estimate.of([1e304, 1.0]).error == math.inf


def test_an_error_beyond_the_largest_number_is_unknown_in_json_and_words() -> None:
    estimate = Estimate.of([1e304, 1.0])
    assert estimate.to_dict() == {"mean": 5e303, "standard_error": None, "interval_95": None, "count": 2}
    assert str(estimate) == "5e+303 ± ?"
    assert str(Estimate.of([2e20, 2e20])) == "2e+20 ± 0"
