"""What a comparison asks of a task and what it gets: metrics, test data, scores by length."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

FEWEST = 20
"""Examples that a length must have to be shown alone."""
MOST_BUCKETS = 8


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """The examples of some lengths, and how good they are."""

    longest: int
    count: int
    value: float


@dataclass(frozen=True, kw_only=True)
class Scored:
    """What a trained model was measured to be."""

    values: Mapping[str, float]
    buckets: Sequence[Bucket] = ()
    """The first metric by the length of the input."""
    unit: str = ""
    """What lengths are counted in; empty where there are none."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is to be measured, and on what."""

    metrics: tuple[str, ...]
    test: Mapping[str, str] = field(default_factory=dict)
    """Files of test data by the setting of `data` that they stand for; none: the validation data."""
    columns: tuple[int, int] | None = None
    """Of the test data, where they have columns."""
    lengths: tuple[int, ...] = ()
    """The longest of each group of lengths; none: chosen from the data."""


def chosen_lengths(lengths: Sequence[int], bounds: Sequence[int] = ()) -> list[int]:
    """The longest of each group: as asked, or a few round ones that have enough examples each.

    >>> chosen_lengths([length for length in range(1, 41) for _ in range(10)])
    [5, 10, 15, 20, 25, 30, 35, 40]
    >>> chosen_lengths([3] * 50 + [12] * 4)
    [12]
    """
    longest = max(lengths)
    if bounds:
        return sorted({*(length for length in bounds if length < longest), longest})
    step = next(step for step in _round_steps() if step * MOST_BUCKETS >= longest)
    ends, waiting = [], 0
    for end in range(step, longest + step, step):
        waiting += sum(end - step < length <= end for length in lengths)
        if waiting >= FEWEST:
            ends.append(min(end, longest))
            waiting = 0
    if waiting or not ends:  # the few longest join those before them
        ends = [*ends[:-1], longest]
    return ends


def _round_steps() -> Iterator[int]:
    power = 1
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10


def grouped(lengths: Sequence[int], bounds: Sequence[int] = ()) -> dict[int, list[int]]:
    """The numbers of the examples of each group, by its longest length."""
    ends = chosen_lengths(lengths, bounds)
    groups: dict[int, list[int]] = {end: [] for end in ends}
    for number, length in enumerate(lengths):
        groups[next(end for end in ends if length <= end)].append(number)
    return {end: numbers for end, numbers in groups.items() if numbers}


def in_percent(figures: Mapping[str, float]) -> dict[str, float]:
    """What `validate` of a task gives, with shares as per cent, as scores are."""
    return {name: value * (100 if name == "accuracy" else 1) for name, value in figures.items()}


def measured_lengths(texts: Sequence[str]) -> tuple[list[int], str]:
    """Lengths in words, or in characters where texts are mostly single words, and what they are counted in.

    >>> measured_lengths(["a b", "c d e"]), measured_lengths(["attention"])
    (([2, 3], 'words'), ([9], 'characters'))
    """
    words = [len(text.split()) for text in texts]
    if np.median(words) > 1:
        return words, "words"
    return [len(text) for text in texts], "characters"
