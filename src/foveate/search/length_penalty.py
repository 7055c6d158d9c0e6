"""Length penalties divide log-probabilities, so that long hypotheses do not lose merely because they are long.

Lengths count generated tokens, the end token included.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from foveate.config import setting

MOST = 6.0
"""The largest α: with it the divisor of the longest sentence, of 2²⁰ tokens, is a number of float32."""


@runtime_checkable
class LengthPenalty(Protocol):
    """score = log-probability / divisor(length)"""

    def divisor(self, length: int) -> float:
        """The divisor for the log-probability of a hypothesis of `length` tokens."""
        ...


@dataclass(frozen=True, kw_only=True)
class Average:
    """divisor(n) = nᵅ: with α = 1 the mean log-probability of a token, with α = 0 no penalty.

    >>> [Average(alpha=alpha).divisor(4) for alpha in (0.0, 0.5, 1.0)]
    [1.0, 2.0, 4.0]

    Reference: Boulanger-Lewandowski et al. 2013; the `length_penalty` of Hugging Face's `generate`.
    """

    alpha: float = setting(1.0, "0 does not penalise, 1 averages")

    def __post_init__(self) -> None:
        _require_alpha(self.alpha)

    def divisor(self, length: int) -> float:
        return float(length**self.alpha)


@dataclass(frozen=True, kw_only=True)
class Wu:
    """divisor(n) = ((5 + n) / 6)ᵅ: milder than the average for short hypotheses.

    >>> [Wu(alpha=1.0).divisor(length) for length in (1, 7, 13)]
    [1.0, 2.0, 3.0]

    Reference: Wu et al. 2016 (GNMT), equation 14, without the coverage term.
    """

    alpha: float = setting(0.6, "0 does not penalise; 0.6 to 0.7 in the paper")

    def __post_init__(self) -> None:
        _require_alpha(self.alpha)

    def divisor(self, length: int) -> float:
        return float(((5 + length) / 6) ** self.alpha)


def divisor_of(penalty: LengthPenalty | None, length: int) -> float:
    """The divisor; 1 without a penalty."""
    return 1.0 if penalty is None else penalty.divisor(length)


def _require_alpha(alpha: float) -> None:
    if not alpha >= 0:
        raise ValueError(f"alpha must not be negative, got {alpha}")
    if alpha > MOST:
        raise ValueError(f"alpha must be at most {MOST:g}, or divisors would be too large for float32, got {alpha}")
