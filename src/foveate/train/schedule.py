"""Learning-rate schedules: values that turn a step number into a factor of the base learning rate.

A schedule has no state. `factor(step, steps, history)` is a pure function of the number of the update (from 1), of the
total number of updates and of the validations so far, so that a resumed run continues the same curve.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from foveate.config import setting
from foveate.train.history import Validation, waits


@dataclass(frozen=True, kw_only=True)
class Constant:
    """The base learning rate, reached linearly over `warmup` updates.

    >>> [Constant(warmup=4).factor(step, 100) for step in (1, 2, 4, 50)]
    [0.25, 0.5, 1.0, 1.0]
    """

    warmup: int = setting(0, "updates of linear warm-up")

    def __post_init__(self) -> None:
        _require_warmup(self.warmup)

    def factor(self, step: int, steps: int, history: Sequence[Validation] = ()) -> float:
        return _ramp(step, self.warmup)


@dataclass(frozen=True, kw_only=True)
class InverseSquareRoot:
    """factor = min(step / warmup, √(warmup / step)): it rises linearly, then falls with the root of the step.

    This is the paper's rate d⁻⁰·⁵ · min(step⁻⁰·⁵, step · warmup⁻¹·⁵) with its peak factored out, so that the base
    learning rate is the peak; `noam_peak` computes that of the paper.

    >>> schedule = InverseSquareRoot(warmup=100)
    >>> [schedule.factor(step, 10_000) for step in (1, 50, 100, 400, 10_000)]
    [0.01, 0.5, 1.0, 0.5, 0.1]

    Reference: Vaswani et al. 2017, §5.3, equation 3.
    """

    warmup: int = setting(4000, "updates of linear warm-up; the peak is at the last of them")

    def __post_init__(self) -> None:
        _require_warmup(self.warmup)

    def factor(self, step: int, steps: int, history: Sequence[Validation] = ()) -> float:
        warmup = max(self.warmup, 1)
        return min(step / warmup, math.sqrt(warmup / step))


@dataclass(frozen=True, kw_only=True)
class Cosine:
    """A linear warm-up, then half a cosine from 1 down to `final` at the last update.

    >>> schedule = Cosine(warmup=10, final=0.2)
    >>> [round(schedule.factor(step, 110), 2) for step in (5, 10, 60, 110)]
    [0.5, 1.0, 0.6, 0.2]

    Reference: Loshchilov & Hutter 2017, equation 5 (one period, no restarts).
    """

    warmup: int = setting(0, "updates of linear warm-up")
    final: float = setting(0.0, "the factor at the last update")

    def __post_init__(self) -> None:
        _require_warmup(self.warmup)
        if not 0 <= self.final <= 1:
            raise ValueError(f"final must be between 0 and 1, got {self.final}")

    def factor(self, step: int, steps: int, history: Sequence[Validation] = ()) -> float:
        if step <= self.warmup:
            return _ramp(step, self.warmup)
        progress = min(1.0, (step - self.warmup) / max(1, steps - self.warmup))
        return self.final + (1 - self.final) * (1 + math.cos(math.pi * progress)) / 2


@dataclass(frozen=True, kw_only=True)
class Plateau:
    """Multiplies the rate by `decay` after each `patience` validations without a better result.

    The number of reductions follows from the history, so that the schedule has no state.

    >>> values = [3.0, 2.0, 2.1, 2.2, 1.9, 2.0, 2.0]
    >>> history = [Validation(step=step, value=value) for step, value in enumerate(values, start=1)]
    >>> [Plateau(decay=0.5, patience=2).factor(1, 1000, history[:count]) for count in (2, 3, 4, 5, 7)]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """

    decay: float = setting(0.5, "the factor of each reduction")
    patience: int = setting(2, "validations without a better result before a reduction")
    final: float = setting(0.01, "the factor is never less than this")
    warmup: int = setting(0, "updates of linear warm-up")

    def __post_init__(self) -> None:
        _require_warmup(self.warmup)
        if not 0 < self.decay < 1:
            raise ValueError(f"decay must be between 0 and 1, got {self.decay}")
        if self.patience < 1:
            raise ValueError(f"patience must be at least 1 validation, got {self.patience}")

    def factor(self, step: int, steps: int, history: Sequence[Validation] = ()) -> float:
        reductions = sum(wait > 0 and wait % self.patience == 0 for wait in waits(history))
        return _ramp(step, self.warmup) * max(self.final, self.decay**reductions)


def noam_peak(model_dim: int, warmup: int) -> float:
    """The peak (model_dim · warmup)⁻⁰·⁵ of the Transformer paper, for use as the base learning rate.

    >>> f"{noam_peak(512, 4000):.6f}"
    '0.000699'
    """
    return (model_dim * warmup) ** -0.5


def _ramp(step: int, warmup: int) -> float:
    return min(1.0, step / warmup) if warmup > 0 else 1.0


def _require_warmup(warmup: int) -> None:
    if warmup < 0:
        raise ValueError(f"warmup counts updates and cannot be negative, got {warmup}")
