"""What tells a model the order of its inputs: position vectors added to embeddings."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.nn.limit import require_positive


class Sinusoid(nn.Module):
    """p(pos, 2j) = sin(pos · base^(−2j/d)),  p(pos, 2j+1) = cos(pos · base^(−2j/d)),  j = 0 … d/2 − 1

    Vaswani et al. 2017, section 3.5. For every shift δ there is one rotation that takes p_i to p_{i+δ} for all i.
    The Persian lectures' ω_1 … ω_{d/2} are our j = 0 … d/2 − 1 (their vector lists the frequencies from 1), and the
    example table is computed with base 100 while the formula beside it says 10000:

    >>> Sinusoid(4, base=100.0)(torch.arange(4))                  # I, am, a, Robot
    tensor([[ 0.0000,  1.0000,  0.0000,  1.0000],
            [ 0.8415,  0.5403,  0.0998,  0.9950],
            [ 0.9093, -0.4161,  0.1987,  0.9801],
            [ 0.1411, -0.9900,  0.2955,  0.9553]])

    `layout="blocks"` puts all sines before all cosines, as fairseq and Marian do.
    """

    max_length: int | None = None
    """There is a vector for every position."""
    table: Tensor

    def __init__(
        self, model_dim: int, *, base: float = 10000.0, layout: Literal["interleaved", "blocks"] = "interleaved"
    ) -> None:
        super().__init__()
        if model_dim % 2:
            raise ValueError(f"Sinusoidal positions pair sines with cosines: model_dim={model_dim} must be even.")
        self.model_dim, self.base, self.layout = model_dim, base, layout
        self.register_buffer("table", self._rows(64), persistent=False)

    def forward(self, position: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape model_dim"]:
        longest = int(position.max()) + 1 if position.numel() else 0
        if longest > len(self.table):
            self.table = self._rows(max(longest, 2 * len(self.table))).to(self.table)
        return self.table[position]

    def _rows(self, length: int) -> Float[Tensor, "length model_dim"]:
        # In float64: a float32 angle at position 10,000 is already off by half a thousandth.
        pairs = torch.arange(0, self.model_dim, 2, dtype=torch.float64)
        angle = torch.arange(length)[:, None] * torch.exp(pairs * (-math.log(self.base) / self.model_dim))
        pair = (angle.sin().float(), angle.cos().float())
        return torch.stack(pair, -1).flatten(1) if self.layout == "interleaved" else torch.cat(pair, -1)

    def extra_repr(self) -> str:
        return f"{self.model_dim}, base={self.base:g}, layout={self.layout!r}"


class LearnedPosition(nn.Module):
    """One trained vector per position: a pattern learned in training, up to a fixed length.

    Raises ValueError for a position past `max_length`: there is no vector for it, and none is made up.
    """

    def __init__(self, model_dim: int, max_length: int) -> None:
        super().__init__()
        self.max_length: int | None = max_length
        self.weight = nn.Parameter(torch.empty(max_length, model_dim))
        nn.init.normal_(self.weight, std=model_dim**-0.5)

    def forward(self, position: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape model_dim"]:
        if position.numel() and int(position.max()) >= len(self.weight):
            raise ValueError(
                f"The model has learned positions 0 to {len(self.weight) - 1}, but the input reaches position "
                f"{int(position.max())}. Shorten the input, or train with a larger position.max_length."
            )
        return self.weight[position]


@dataclass(frozen=True, kw_only=True)
class SinusoidalConfig:
    """Fixed sine and cosine waves; any length."""

    base: float = 10000.0
    layout: Literal["interleaved", "blocks"] = "interleaved"

    def build(self, model_dim: int) -> Sinusoid:
        return Sinusoid(model_dim, base=self.base, layout=self.layout)


@dataclass(frozen=True, kw_only=True)
class LearnedConfig:
    """Trained vectors, up to `max_length` positions."""

    max_length: int = 512

    def __post_init__(self) -> None:
        require_positive(max_length=self.max_length)

    def build(self, model_dim: int) -> LearnedPosition:
        return LearnedPosition(model_dim, self.max_length)


PositionConfig = SinusoidalConfig | LearnedConfig
