"""Pairs made by a rule, with known answers and alignments."""

import random
from collections.abc import Iterator, Sequence
from typing import Literal

from foveate.data.text import Pair

Rule = Literal["copy", "reverse", "sort"]


def synthetic(
    rule: Rule,
    count: int,
    *,
    seed: int = 0,
    symbols: Sequence[str] = "abcdefghijklmnop",
    shortest: int = 1,
    longest: int = 10,
    separator: str = "",
) -> Iterator[Pair]:
    """Random sequences of symbols with their copy, reverse or sorted form; reproducible by a seed.

    The right alignment of "copy" is the diagonal, of "reverse" the anti-diagonal.

    >>> [(pair.source, pair.target) for pair in synthetic("reverse", 3, longest=4)]
    [('mgei', 'iegm'), ('onpf', 'fpno'), ('ie', 'ei')]
    """
    generator = random.Random(seed)
    for line in range(1, count + 1):
        length = generator.randint(shortest, longest)
        drawn = [symbols[int(generator.random() * len(symbols))] for _ in range(length)]
        yield Pair(line, separator.join(drawn), separator.join(_apply(rule, drawn)))


def _apply(rule: Rule, drawn: list[str]) -> list[str]:
    if rule == "sort":
        return sorted(drawn)
    return drawn[::-1] if rule == "reverse" else drawn
