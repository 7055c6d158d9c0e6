"""The history of validations, the only state of the loop besides the weights and the optimiser.

Best result, patience and plateau are pure functions of this history, so that a checkpoint stores only the history.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Validation:
    """One validation: the update before it, the value for comparison (lower is better) and all metrics."""

    step: int
    value: float
    metrics: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a checkpoint."""
        return {"step": self.step, "value": to_json(self.value), "metrics": metrics_to_json(self.metrics)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Validation":
        """The inverse of `to_dict`."""
        return cls(step=values["step"], value=from_json(values["value"]), metrics=metrics_from_json(values["metrics"]))


def ranked(history: Sequence[Validation]) -> list[Validation]:
    """The finite validations from the best to the worst; of equal ones, the earlier first."""
    return sorted((entry for entry in history if math.isfinite(entry.value)), key=lambda entry: entry.value)


def best(history: Sequence[Validation]) -> Validation | None:
    """The best validation, if there is one."""
    return next(iter(ranked(history)), None)


def best_steps(history: Sequence[Validation], count: int) -> list[int]:
    """The steps of the `count` best validations, in the order of steps.

    >>> history = [Validation(step=step, value=value) for step, value in ((1, 3.0), (2, 1.0), (3, 2.0))]
    >>> best_steps(history, 2)
    [2, 3]
    """
    return sorted(entry.step for entry in ranked(history)[:count])


def waits(history: Sequence[Validation]) -> Iterator[int]:
    """For each validation, the number of validations since the best one so far.

    >>> list(waits([Validation(step=step, value=value) for step, value in enumerate([3.0, 2.0, 2.5, 2.0, 1.0])]))
    [0, 0, 1, 2, 0]
    """
    lowest, wait = float("inf"), 0
    for entry in history:
        wait = 0 if entry.value < lowest else wait + 1
        lowest = min(lowest, entry.value)
        yield wait


def wait(history: Sequence[Validation]) -> int:
    """The number of validations since the best one."""
    return ([0, *waits(history)])[-1]


def to_json(value: float) -> float | None:
    """A number for JSON; NaN and infinity, which JSON does not have, become null."""
    return value if math.isfinite(value) else None


def from_json(value: float | None) -> float:
    """The inverse of `to_json`, except that null always becomes NaN."""
    return math.nan if value is None else value


def metrics_to_json(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """`to_json` for each metric."""
    return {name: to_json(value) for name, value in metrics.items()}


def metrics_from_json(metrics: Mapping[str, float | None]) -> dict[str, float]:
    """`from_json` for each metric."""
    return {name: from_json(value) for name, value in metrics.items()}
