"""Means with their errors over random starts, and differences between what started alike."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Two-sided 95 % points of Student's t with 1 to 30 degrees of freedom.
_T: tuple[float, ...] = (
    12.706,
    4.303,
    3.182,
    2.776,
    2.571,
    2.447,
    2.365,
    2.306,
    2.262,
    2.228,
    2.201,
    2.179,
    2.160,
    2.145,
    2.131,
)
_T += (2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)


def student(degrees: int) -> float:
    """The t of a 95 % interval: what the standard error is multiplied by.

    >>> student(2), student(30), round(student(120), 2)
    (4.303, 2.042, 1.98)
    """
    return _T[degrees - 1] if degrees <= len(_T) else 1.96 + 2.4 / degrees


@dataclass(frozen=True)
class Estimate:
    """What some independent figures say of their mean.

    error = s / √n with s² = Σ (x − mean)² / (n − 1); the interval is mean ± t · error, which holds the true mean in 95
    of 100 such experiments if the figures scatter normally. With one figure nothing is known of the error.

    >>> print(Estimate.of([1.0, 2.0, 3.0]), "|", Estimate.of([2.0]))
    2.00 ± 0.58 | 2
    """

    mean: float
    error: float | None
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Estimate":
        """Raises ValueError where there is no value."""
        if not values:
            raise ValueError("no value: there is no mean of nothing. Give at least one.")
        count = len(values)
        mean = math.fsum(values) / count
        if count == 1:
            return cls(mean, None, 1)
        variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
        return cls(mean, math.sqrt(variance / count), count)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the mean, by Student's t."""
        if self.error is None:
            return None
        half = student(self.count - 1) * self.error
        return self.mean - half, self.mean + half

    @property
    def is_clear(self) -> bool:
        """Whether the 95 % interval leaves out 0: of a difference, whether there is likely to be one."""
        return self.interval is not None and (self.interval[0] > 0 or self.interval[1] < 0)

    def to_dict(self) -> dict[str, float | int | list[float] | None]:
        """Plain data for JSON."""
        interval = None if self.interval is None else list(self.interval)
        return {"mean": self.mean, "standard_error": self.error, "interval_95": interval, "count": self.count}

    def __str__(self) -> str:
        return self.shown()

    def shown(self, *, sign: bool = False) -> str:
        """As many digits as the error lets one believe: two of the error, or four of the mean.

        >>> Estimate(12.3456, 0.0123, 3).shown(), Estimate(1234.5, 25.0, 3).shown(sign=True)
        ('12.346 ± 0.012', '+1,234 ± 25')
        """
        plus = "+" if sign else ""
        if not self.error or not math.isfinite(self.error):
            return f"{self.mean:{plus},.{_digits(self.mean, 4)}f}" + ("" if self.error is None else " ± 0")
        digits = _digits(self.error, 2)
        return f"{self.mean:{plus},.{digits}f} ± {self.error:,.{digits}f}"


def paired(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Estimate | None:
    """The mean difference of the starts that both have; None where there are none.

    What a seed does to both (the order of batches, mostly) falls out, so that fewer starts suffice than for two means.

    >>> print(paired({0: 3.0, 1: 5.0, 2: 9.0}, {0: 2.0, 1: 4.5}).shown(sign=True))
    +0.75 ± 0.25
    """
    shared = sorted(ours.keys() & theirs.keys())
    return Estimate.of([ours[seed] - theirs[seed] for seed in shared]) if shared else None


def _digits(value: float, significant: int) -> int:
    """Digits after the point that show so many significant ones."""
    if not value or not math.isfinite(value):
        return 0
    exponent = math.floor(math.log10(abs(value)))
    if significant == 4 and value == int(value):
        return 0
    return max(0, significant - 1 - exponent)
