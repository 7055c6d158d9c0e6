import math
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foveate.inspect.chart import Curve, chart, curves_of, figure_text, nice_ticks, thinned

ROWS = [
    {"kind": kind, "step": step, "epoch": 0.5, "loss": 1 / step, "seconds": 3.0, **more}
    for step in (1, 2, 3)
    for kind, more in (
        ("train", {"learning_rate": 1e-3, "tokens_per_second": 9, "tokens": 5}),
        ("valid", {"phone_error": 0.5, "best": True}),
    )
]


def test_curves_are_grouped_by_what_they_measure_loss_first_speed_last() -> None:
    names = {name: [curve.name for curve in curves] for name, curves in curves_of(ROWS).items()}
    assert list(names) == ["loss", "phone_error", "learning_rate", "tokens_per_second"]
    assert names["loss"] == ["training", "validation"]
    assert names["phone_error"] == ["validation"]


def test_infinite_values_and_nan_leave_a_gap() -> None:
    values = [1.0, None, math.nan, "x", 2.0]
    rows = [{"kind": "train", "step": step, "loss": value} for step, value in enumerate(values)]
    assert curves_of(rows)["loss"] == [Curve("training", ((0.0, 1.0), (4.0, 2.0)))]


def test_a_single_point_does_not_make_a_curve() -> None:
    assert curves_of(ROWS[:2]) == {}


def test_a_step_that_was_repeated_after_a_resume_is_drawn_once() -> None:
    rows = [{"kind": "train", "step": step, "loss": float(step)} for step in (1, 2, 1, 2, 3)]
    assert [x for x, _ in curves_of(rows)["loss"][0].points] == [1.0, 2.0, 3.0]


@example(0.0, 5e-324)
@given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9))
def test_ticks_hold_the_data_and_are_few_and_even(first: float, second: float) -> None:
    low, high = sorted((first, second))
    ticks = nice_ticks(low, high)
    step = ticks[1] - ticks[0]
    assert 2 <= len(ticks) <= 8
    assert ticks[0] <= low + 1e-6 * step
    assert ticks[-1] >= high - 1e-6 * step
    assert all(b - a == pytest.approx(step) for a, b in pairwise(ticks))


@pytest.mark.parametrize("ticks", [nice_ticks(0.0, 1e-5), nice_ticks(19_500.0, 22_000.0), nice_ticks(-3.0, 3.0)])
def test_ticks_have_different_short_texts(ticks: list[float]) -> None:
    texts = [figure_text(tick) for tick in ticks]
    assert len(set(texts)) == len(texts)
    assert max(len(text) for text in texts) <= 8


def test_a_long_run_is_thinned_to_means_that_reach_its_end() -> None:
    points = [(float(step), float(step % 2)) for step in range(1, 10_001)]
    thin = thinned(points, most=300)
    assert len(thin) <= 300
    assert thin[-1][0] == 10_000
    assert {value for _, value in thin} == {0.5}


@pytest.mark.parametrize("value", [0.0, 1.0, -2.5, 1e-30, 1e12])
def test_a_constant_curve_is_drawn(value: float) -> None:
    ElementTree.fromstring(chart("loss", [Curve("training", ((1.0, value), (2.0, value)))], 2.0))


def test_points_tell_their_values() -> None:
    drawn = chart("loss", [Curve("validation", ((1000.0, 0.25), (2000.0, 0.125)))], 2000.0)
    assert "<title>validation, step 1,000: 0.25</title>" in drawn
    assert 'aria-label="Loss by step: validation ends at 0.125."' in drawn
