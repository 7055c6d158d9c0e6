import json
import math

from foveate.train.history import Validation, best, best_steps, wait, waits


def history(*values: float) -> list[Validation]:
    return [Validation(step=step, value=float(value)) for step, value in enumerate(values, start=1)]


def test_the_earliest_of_equal_validations_is_best() -> None:
    validation = best(history(2, 1, 1))
    assert validation
    assert validation.step == 2


def test_a_value_that_is_not_finite_is_never_best() -> None:
    assert best(history(math.nan, math.inf, -math.inf)) is None
    assert best_steps(history(math.nan, 3, 2), 5) == [2, 3]


def test_waiting_starts_anew_at_each_better_validation() -> None:
    assert list(waits(history(3, 4, 2, 2, math.nan))) == [0, 1, 0, 1, 2]
    assert wait(history(3, 4, 2, 2, math.nan)) == 2


def test_there_is_no_wait_without_a_validation() -> None:
    assert wait([]) == 0
    assert best([]) is None


def test_a_validation_survives_json_exactly() -> None:
    entry = Validation(step=3, value=-0.1, metrics={"loss": 1 / 3})
    assert Validation.from_dict(json.loads(json.dumps(entry.to_dict(), allow_nan=False))) == entry


def test_a_validation_that_is_not_finite_survives_json_as_not_a_number() -> None:
    entry = Validation(step=3, value=math.nan, metrics={"loss": math.inf})
    validation = Validation.from_dict(json.loads(json.dumps(entry.to_dict(), allow_nan=False)))
    assert math.isnan(validation.value)
    assert math.isnan(validation.metrics["loss"])
