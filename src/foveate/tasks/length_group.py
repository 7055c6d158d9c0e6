"""Groups of examples by their lengths, for scores of short and long ones."""

from collections.abc import Sequence
from itertools import count

import numpy as np

FEWEST = 20
"""The smallest number of examples whose score is shown for their lengths alone."""
MOST_GROUPS = 8


def chosen_lengths(lengths: Sequence[int], bounds: Sequence[int] = ()) -> list[int]:
    """The longest length of each group: `bounds`, or a few round numbers with enough examples each.

    >>> chosen_lengths([length for length in range(1, 41) for _ in range(10)])
    [5, 10, 15, 20, 25, 30, 35, 40]
    >>> chosen_lengths([3] * 50 + [12] * 4)
    [12]
    """
    longest = max(lengths)
    if bounds:
        return sorted({*(length for length in bounds if length < longest), longest})
    round_steps = (size * 10**power for power in count() for size in (1, 2, 5))
    step = next(step for step in round_steps if step * MOST_GROUPS >= longest)
    ends, waiting = [], 0
    for end in range(step, longest + step, step):
        waiting += sum(end - step < length <= end for length in lengths)
        if waiting >= FEWEST:
            ends.append(min(end, longest))
            waiting = 0
    if waiting or not ends:  # the few longest join those before them
        ends = [*ends[:-1], longest]
    return ends


def grouped(lengths: Sequence[int], bounds: Sequence[int] = ()) -> dict[int, list[int]]:
    """The numbers of the examples of each group, by its longest length."""
    ends = chosen_lengths(lengths, bounds)
    groups: dict[int, list[int]] = {end: [] for end in ends}
    for number, length in enumerate(lengths):
        groups[next(end for end in ends if length <= end)].append(number)
    return {end: numbers for end, numbers in groups.items() if numbers}


def measured_lengths(texts: Sequence[str]) -> tuple[list[int], str]:
    """Lengths in words, or in characters where texts are mostly single words, and what they are counted in.

    >>> measured_lengths(["a b", "c d e"]), measured_lengths(["attention"])
    (([2, 3], 'words'), ([9], 'characters'))
    """
    words = [len(text.split()) for text in texts]
    if np.median(words) > 1:
        return words, "words"
    return [len(text) for text in texts], "characters"
