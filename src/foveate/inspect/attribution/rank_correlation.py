"""Kendall's rank correlation with ties."""

import math

import numpy as np
from jaxtyping import Float64

BLOCK = 512
"""The number of items whose pairs with all others are compared at once."""


def kendall(first: Float64[np.ndarray, " items"], second: Float64[np.ndarray, " items"]) -> float:
    """τ_b = (C − D) / √((n₀ − n₁)(n₀ − n₂)), with C and D the numbers of pairs that both order alike and unlike, n₀ of
    all pairs, and n₁ and n₂ of those that the first and the second leave tied

    NaN if one of them ties all pairs, or has a score that is not a number: then there is no order to compare.

    >>> kendall(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])).__round__(3)
    0.333

    Reference: Kendall 1945, "The treatment of ties in ranking problems".
    """
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        return math.nan
    agreement, ordered_first, ordered_second = 0.0, 0, 0
    for start in range(0, len(first), BLOCK):
        rows = slice(start, start + BLOCK)
        signs = np.sign(first[rows, None] - first[None]), np.sign(second[rows, None] - second[None])
        agreement += float((signs[0] * signs[1]).sum())
        ordered_first += int(np.count_nonzero(signs[0]))
        ordered_second += int(np.count_nonzero(signs[1]))
    if not ordered_first or not ordered_second:
        return math.nan
    return agreement / math.sqrt(ordered_first * ordered_second)
