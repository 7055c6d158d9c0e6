"""The cost of a layer, computed from the objects: arithmetic, steps that wait for one another, and the longest path.

The three columns of the lectures' table (Vaswani et al. 2017, table 1): per layer, how much is computed, how much of it
cannot run at the same time, and how many operations lie between two positions that influence one another.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from foveate.attention import Positions, Visibility, everything, window


@dataclass(frozen=True)
class Complexity:
    """One row of the table, for sequences of one length."""

    flops: float
    """Multiplications and additions of one layer."""
    steps: int
    """Operations that have to wait for one another."""
    path: int | float
    """Operations between the two positions farthest apart: layers, and in a recurrence also its steps."""


def self_attention(length: int, dim: int, visibility: Visibility | None = None) -> Complexity:
    """Attention of a sequence to itself: a product for the score and one for the context of each visible pair.

    >>> self_attention(length=64, dim=8)
    Complexity(flops=131072.0, steps=1, path=1)
    >>> from foveate.attention import window
    >>> self_attention(length=64, dim=8, visibility=window(left=8, right=8)).path
    8
    """
    rule = everything() if visibility is None else visibility
    at = Positions.of(length, length)
    return Complexity(4.0 * rule.pairs(at) * dim, 1, longest_path(rule, length))


def recurrence(length: int, dim: int) -> Complexity:
    """h_t = f(W x_t + U h_{t−1}): two products with a matrix at each step, and each step waits for the last.

    >>> recurrence(length=64, dim=8)
    Complexity(flops=16384.0, steps=64, path=63)
    """
    return Complexity(4.0 * length * dim * dim, length, max(length - 1, 0))


def convolution(length: int, dim: int, kernel: int, *, dilated: bool = False) -> Complexity:
    """Each output is made from `kernel` neighbours by as many matrices; `dilated` layers widen `kernel` times each.

    >>> convolution(length=64, dim=8, kernel=3).path, convolution(length=64, dim=8, kernel=3, dilated=True).path
    (63, 4)
    """
    if kernel < 2:
        raise ValueError(f"A convolution of kernel={kernel} joins no two positions: at least 2 are needed.")
    flops = 2.0 * kernel * length * dim * dim
    if dilated:
        return Complexity(flops, 1, _layers_to_span(length, kernel))
    left, right = kernel // 2, (kernel - 1) // 2
    if kernel == 2:
        return Complexity(flops, 1, max(length - 1, 0))
    return Complexity(flops, 1, longest_path(window(left=left, right=right), length))


def table(length: int, dim: int, *, kernel: int = 3, neighbourhood: int = 8) -> dict[str, Complexity]:
    """The four rows of the lectures' table.

    >>> for name, row in table(length=512, dim=64).items():
    ...     print(f"{name:26} {row.flops / 1e6:6.1f} million, {row.steps:3} steps, path {row.path}")
    self-attention               67.1 million,   1 steps, path 1
    recurrent                     8.4 million, 512 steps, path 511
    convolution                  12.6 million,   1 steps, path 511
    restricted self-attention     2.2 million,   1 steps, path 64

    Reference: Vaswani et al. 2017, table 1.
    """
    near = window(left=neighbourhood, right=neighbourhood)
    return {
        "self-attention": self_attention(length, dim),
        "recurrent": recurrence(length, dim),
        "convolution": convolution(length, dim, kernel),
        "restricted self-attention": self_attention(length, dim, near),
    }


def longest_path(visibility: Visibility, length: int) -> int | float:
    """Layers after which every position has received from all that can reach it: the largest distance in the graph.

    In one layer a position receives from those that it sees. Pairs that no number of layers
    connects (the future, under `causal()`) do not count; infinite if there are no others.

    >>> from foveate.attention import causal, window
    >>> longest_path(everything(), 9), longest_path(causal(), 9), longest_path(window(left=2, right=2), 9)
    (1, 1, 4)
    """
    visible = visibility(Positions.of(length, length)).expand(1, 1, length, length)[0, 0]
    alone = torch.eye(length, dtype=torch.bool)
    powers = [visible | alone]  # connected within 1, 2, 4, 8 … layers
    while not torch.equal(farther := _joined(powers[-1], powers[-1]), powers[-1]):
        powers.append(farther)
    if torch.equal(powers[-1], alone):
        return math.inf if length > 1 else 0
    connected, layers = alone, 0
    for exponent, power in reversed(list(enumerate(powers))):
        if not torch.equal(farther := _joined(connected, power), powers[-1]):
            connected, layers = farther, layers + 2**exponent
    return layers + 1


def _joined(one: Bool[Tensor, "length length"], other: Bool[Tensor, "length length"]) -> Bool[Tensor, "length length"]:
    """The pairs that the edges of one and then of the other connect."""
    return one.float() @ other.float() > 0


def _layers_to_span(length: int, kernel: int) -> int:
    """The number of layers that connect both ends of a sequence."""
    layers, reach = 0, 1
    while reach < length:
        layers, reach = layers + 1, reach * kernel
    return layers
