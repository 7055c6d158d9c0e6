from collections.abc import Callable

import pytest

from foveate import config as configuration
from foveate.errors import UsageError
from foveate.train import Constant, Cosine, InverseSquareRoot, Plateau, TrainConfig, noam_peak
from foveate.train.history import Validation


def history(*values: float) -> list[Validation]:
    return [Validation(step=step, value=float(value)) for step, value in enumerate(values, start=1)]


@pytest.mark.parametrize(
    "schedule", [Constant(warmup=10), InverseSquareRoot(warmup=10), Cosine(warmup=10), Plateau(warmup=10)]
)
def test_warm_up_is_linear_and_reaches_the_base_rate(
    schedule: Constant | InverseSquareRoot | Cosine | Plateau,
) -> None:
    factors = [schedule.factor(step, 100) for step in range(1, 11)]
    assert factors == pytest.approx([step / 10 for step in range(1, 11)])


def test_inverse_square_root_with_the_peak_of_the_paper_is_the_formula_of_the_paper() -> None:
    schedule = InverseSquareRoot(warmup=4000)
    for step in (1, 100, 4000, 100_000):
        paper = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert noam_peak(512, 4000) * schedule.factor(step, 1) == pytest.approx(paper)


def test_cosine_ends_at_its_final_factor_and_stays_there() -> None:
    schedule = Cosine(final=0.1)
    assert schedule.factor(100, 100) == pytest.approx(0.1)
    assert schedule.factor(150, 100) == pytest.approx(0.1)


def test_cosine_survives_a_warm_up_as_long_as_the_run() -> None:
    assert Cosine(warmup=10).factor(10, 10) == 1.0


def test_plateau_reduces_once_per_patience() -> None:
    schedule = Plateau(decay=0.5, patience=2)
    assert schedule.factor(1, 1, history(1, 2)) == 1.0
    assert schedule.factor(1, 1, history(1, 2, 2)) == 0.5
    assert schedule.factor(1, 1, history(1, 2, 2, 2)) == 0.5
    assert schedule.factor(1, 1, history(1, 2, 2, 2, 2)) == 0.25


def test_plateau_keeps_the_reduced_rate_after_an_improvement() -> None:
    assert Plateau(decay=0.5, patience=1).factor(1, 1, history(2, 3, 1)) == 0.5


def test_plateau_never_goes_below_its_final_factor() -> None:
    assert Plateau(decay=0.1, patience=1, final=0.05).factor(1, 1, history(1, *[2] * 10)) == 0.05


def test_a_validation_that_is_not_a_number_counts_as_no_improvement() -> None:
    assert Plateau(decay=0.5, patience=1).factor(1, 1, history(1, float("nan"))) == 0.5


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Constant(warmup=-1), "negative"),
        (lambda: Cosine(final=2.0), "between 0 and 1"),
        (lambda: Plateau(decay=1.5), "between 0 and 1"),
        (lambda: Plateau(patience=0), "at least 1"),
    ],
)
def test_impossible_values_are_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_a_schedule_is_chosen_by_its_kind() -> None:
    config = configuration.build(TrainConfig, {"schedule": {"kind": "cosine", "warmup": 5}})
    assert config.schedule == Cosine(warmup=5)
    with pytest.raises(UsageError, match="cosine"):
        configuration.build(TrainConfig, {"schedule": {"kind": "cosin"}})
