"""Nested operations on digits, whose value depends on every level: [MAX 2 9 [MIN 4 7 ] 0 ] is 9."""

import random
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from foveate.data.synthetic.labelled_sequence import Labelled

OPERATIONS: dict[str, Callable[[list[int]], int]] = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda values: int(statistics.median(values)),
    "[SM": lambda values: sum(values) % 10,
}
LIST_TOKENS = (*(str(digit) for digit in range(10)), *OPERATIONS, "]")
"""The tokens with the ids 1, 2, 3 …"""


def list_operations(
    count: int,
    *,
    seed: int = 0,
    shortest: int = 500,
    longest: int = 2000,
    depth: int = 10,
    arguments: int = 10,
    value_probability: float = 0.25,
) -> Iterator[Labelled]:
    """ListOps: the value, 0 to 9, of minima, maxima, medians and sums modulo ten inside each other.

    Lengths are in tokens. Two differences from the published data: trees grow to a random length with equal chances,
    instead of being rejected until one fits, and redundant parentheses are left out.

    >>> for example in list_operations(3, shortest=5, longest=12, depth=3, arguments=3):
    ...     print(" ".join(LIST_TOKENS[id - 1] for id in example.ids), "=", example.label)
    [SM 4 [SM 4 8 9 ] ] = 5
    [MED [MIN 0 9 ] 7 ] = 3
    [MAX 8 7 1 ] = 8

    Reference: Nangia and Bowman 2018; lengths, depth and arguments as in Tay et al. 2021, section 2.2.1.
    """
    generator = random.Random(seed)
    complete = 0
    while complete < count:
        tokens: list[str] = []
        grower = _Grower(generator, arguments, value_probability)
        value = grower.grow(tokens, generator.randint(shortest, longest), depth)
        if shortest <= len(tokens) <= longest:
            complete += 1
            yield Labelled([LIST_TOKENS.index(token) + 1 for token in tokens], value)


@dataclass(frozen=True)
class _Grower:
    generator: random.Random
    arguments: int
    value_probability: float

    def grow(self, tokens: list[str], size: int, depth: int) -> int:
        """Append a tree of about `size` tokens; return its value."""
        draw = self.generator
        if size < 4 or depth <= 1:
            value = draw.randrange(10)
            tokens.append(str(value))
            return value
        operation = draw.choice(list(OPERATIONS))
        tokens.append(operation)
        inner = [self.grow(tokens, part, depth - 1) for part in self._parts(size - 2)]
        tokens.append("]")
        return OPERATIONS[operation](inner)

    def _parts(self, size: int) -> list[int]:
        """Random sizes of the arguments: some are digits, the others share the rest."""
        draw = self.generator
        number = draw.randint(2, min(self.arguments, size))
        share = [0.0 if draw.random() < self.value_probability else draw.random() for _ in range(number)]
        whole = sum(share) or 1.0
        return [1 + int((size - number) * part / whole) for part in share]
