"""Floats added to scores before they are normalised. A bias never hides: hiding is the visibility's business."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from foveate.attention.position import Positions

Bias = Callable[[Positions], Float[Tensor, "#batch #heads #query #key"]]
"""Anything that makes floats from positions."""


@dataclass(frozen=True)
class Alibi:
    """bias_ij = −m_h · |i − j|, with a slope m_h for each head: 2^(−8/H), 2^(−16/H), …

    Press et al. 2022, section 3. When the number of heads H is no power of two, the remaining slopes come from between
    those of the next larger power, as in the paper's code. The paper is causal; here both sides are punished alike.

    >>> Alibi(num_heads=2)(Positions.of(1, 3, query_start=2)).flatten(1)
    tensor([[-0.1250, -0.0625, -0.0000, -0.0078, -0.0039, -0.0000]])
    """

    num_heads: int

    def __call__(self, at: Positions) -> Float[Tensor, "#batch heads query key"]:
        slopes = torch.tensor(_slopes(self.num_heads), device=at.device)
        return -slopes[:, None, None] * (at.query - at.key).abs()


def _slopes(num_heads: int) -> list[float]:
    power = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * (head + 1) / power) for head in range(power)]
    return slopes + [2 ** (-4 * (2 * head + 1) / power) for head in range(num_heads - power)]


@dataclass(frozen=True, kw_only=True)
class AlibiConfig:
    """A penalty that grows with the distance, steeper in some heads than in others (Press et al. 2022)."""

    def build(self, *, num_heads: int, head_dim: int) -> Alibi:
        return Alibi(num_heads)


BiasConfig = AlibiConfig
"""The biases that a configuration can name."""
