"""Position vectors, which are added to embeddings, tell a model the order of its inputs.

Every module here computes vectors from positions and from the lengths of their sequences; only `UnitInterval` uses the
lengths. The lectures compare them by five criteria, which `criterion.py` tests.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.attention.check import require_positive
from foveate.config import require_choices

TABLED = 2**16
"""Positions up to which sines are kept in a table; those of later positions, as in an endless stream, are computed."""


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
    """Positions are not limited."""
    by_place: ClassVar[bool] = True
    """Whether the vector of a position needs neither the length of the sequence nor the positions before it."""
    table: Tensor

    def __init__(
        self, model_dim: int, *, base: float = 10000.0, layout: Literal["interleaved", "blocks"] = "interleaved"
    ) -> None:
        super().__init__()
        if model_dim % 2:
            raise ValueError(f"Sinusoidal positions pair sines with cosines: model_dim={model_dim} must be even.")
        self.model_dim, self.base, self.layout = model_dim, base, layout
        self.register_buffer("table", self._rows(torch.arange(64)), persistent=False)

    def forward(
        self, position: Int[Tensor, "*shape"], length: Int[Tensor, "*#shape"] | None = None
    ) -> Float[Tensor, "*shape model_dim"]:
        longest = int(position.max()) + 1 if position.numel() else 0
        if longest > TABLED and longest > len(self.table):
            return self._rows(position).to(self.table)
        table = self.table  # which another thread may exchange for a shorter one
        if longest > len(table):
            self.table = table = self._rows(torch.arange(max(longest, 2 * len(table)))).to(table)
        return table[position]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Sinusoid":
        """As for every module; a table in another number type is made anew, so that it is not coarse for good."""
        before = self.table
        super()._apply(fn, recurse)
        if self.table.dtype != before.dtype or before.is_meta:
            self.table = self._rows(torch.arange(len(before), device=self.table.device)).to(self.table)
        return self

    def _rows(self, position: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape model_dim"]:
        # In float64: a float32 angle at position 10,000 is already off by half a thousandth.
        pairs = torch.arange(0, self.model_dim, 2, dtype=torch.float64, device=position.device)
        angle = position[..., None] * torch.exp(pairs * (-math.log(self.base) / self.model_dim))
        pair = (angle.sin().float(), angle.cos().float())
        return torch.stack(pair, -1).flatten(-2) if self.layout == "interleaved" else torch.cat(pair, -1)

    def extra_repr(self) -> str:
        return f"{self.model_dim}, base={self.base:g}, layout={self.layout!r}"


class LearnedPosition(nn.Module):
    """p(i) = P_i: one trained vector per position, up to a fixed length

    The vector of a position that no sentence reaches is never trained:

    >>> position = LearnedPosition(4, max_length=5)
    >>> position(torch.tensor([0, 1, 1])).sum().backward()
    >>> position.weight.grad[:, 0].tolist()
    [1.0, 2.0, 0.0, 0.0, 0.0]

    Vaswani et al. 2017, section 3.5, take them from Gehring et al. 2017 and report that they are as good as sinusoids.

    Raises ValueError for a position past `max_length`, which has no vector.
    """

    by_place: ClassVar[bool] = True

    def __init__(self, model_dim: int, max_length: int) -> None:
        super().__init__()
        self.max_length: int | None = max_length
        self.weight = nn.Parameter(torch.empty(max_length, model_dim))
        nn.init.normal_(self.weight, std=model_dim**-0.5)

    def forward(
        self, position: Int[Tensor, "*shape"], length: Int[Tensor, "*#shape"] | None = None
    ) -> Float[Tensor, "*shape model_dim"]:
        if position.numel() and int(position.max()) >= len(self.weight):
            raise ValueError(
                f"The model has learned positions 0 to {len(self.weight) - 1}, but the input reaches position "
                f"{int(position.max())}. Shorten the input, or train with a larger position.max_length."
            )
        return self.weight[position]

    def extra_repr(self) -> str:
        return f"{self.weight.shape[1]}, max_length={len(self.weight)}"


class NoPosition(nn.Module):
    """p(i) = 0: self-attention then treats its input as a bag of words

    Reordered words get the same contexts, reordered:

    >>> from foveate.attention import Attention
    >>> x, order = torch.randn(1, 1, 5, 4), torch.tensor([3, 0, 4, 1, 2])
    >>> here, there = (part + NoPosition(4)(torch.arange(5)) for part in (x, x[:, :, order]))
    >>> attention = Attention()
    >>> torch.allclose(attention.run(there, there, there), attention.run(here, here, here)[:, :, order], atol=1e-6)
    True
    """

    max_length: int | None = None
    by_place: ClassVar[bool] = True

    def __init__(self, model_dim: int) -> None:
        super().__init__()
        self.model_dim = model_dim

    def forward(
        self, position: Int[Tensor, "*shape"], length: Int[Tensor, "*#shape"] | None = None
    ) -> Float[Tensor, "*shape model_dim"]:
        return torch.zeros(*position.shape, self.model_dim, device=position.device)

    def extra_repr(self) -> str:
        return f"{self.model_dim}"


class PositionIndex(NoPosition):
    """p(i) = i in every feature: for large i it dominates any embedding

    Two orthogonal words become more similar the larger their position is:

    >>> for i in (0, 1, 10, 900):
    ...     one, other = torch.eye(2) + PositionIndex(2)(torch.tensor(i))
    ...     print(i, f"{torch.cosine_similarity(one, other, dim=0):.3f}")
    0 0.000
    1 0.800
    10 0.995
    900 1.000
    """

    by_place = True

    def forward(
        self, position: Int[Tensor, "*shape"], length: Int[Tensor, "*#shape"] | None = None
    ) -> Float[Tensor, "*shape model_dim"]:
        return position[..., None].expand(*position.shape, self.model_dim).to(torch.get_default_dtype())


class UnitInterval(NoPosition):
    """p(i) = i / (n − 1) in every feature, from 0 at the first word to 1 at the last of n

    A step is smaller in a longer sentence, so that "the word before" has no fixed distance.

    >>> UnitInterval(1)(torch.arange(3), torch.tensor([3])).flatten()
    tensor([0.0000, 0.5000, 1.0000])

    Raises ValueError without lengths, which a decoder does not know before it ends.
    """

    by_place = False

    def forward(
        self, position: Int[Tensor, "*shape"], length: Int[Tensor, "*#shape"] | None = None
    ) -> Float[Tensor, "*shape model_dim"]:
        if length is None:
            raise ValueError(
                "Positions between 0 and 1 need the length of the sequence, which a decoder does not know. "
                'Give the decoder other positions: target_position = { kind = "sinusoidal" }.'
            )
        return (position / (length - 1).clamp(min=1))[..., None].expand(*position.shape, self.model_dim)


class BinaryCode(NoPosition):
    """p(i)_j = bit d − 1 − j of i: the digits of i in base two, the highest first

    Neighbours differ by one digit or by all of them:

    >>> BinaryCode(4)(torch.tensor([6, 7, 8])).int().tolist()
    [[0, 1, 1, 0], [0, 1, 1, 1], [1, 0, 0, 0]]

    Raises ValueError for a position of more than d digits.
    """

    by_place = True

    def __init__(self, model_dim: int) -> None:
        super().__init__(model_dim)
        self.max_length = 2**model_dim if model_dim < 32 else None

    def forward(
        self, position: Int[Tensor, "*shape"], length: Int[Tensor, "*#shape"] | None = None
    ) -> Float[Tensor, "*shape model_dim"]:
        if self.max_length is not None and position.numel() and int(position.max()) >= self.max_length:
            raise ValueError(
                f"Position {int(position.max())} has more binary digits than the model has features "
                f"({self.model_dim}). Shorten the input, or widen the model."
            )
        digit = torch.arange(self.model_dim - 1, -1, -1, device=position.device).clamp(max=62)
        return ((position[..., None] >> digit) & 1).to(torch.get_default_dtype())


class RNNMade(NoPosition):
    """p(i) = h_{i+1} with h_{i+1} = GRU(x, h_i): the states of a recurrent network with a constant input

    The length is unlimited, but steps are sequential. The recurrent matrices start orthogonal and large: with ordinary
    initial values the state converges within about fifty steps, and all later positions have the same vector.

    >>> _ = torch.manual_seed(0)
    >>> large, ordinary = RNNMade(64), RNNMade(64)
    >>> ordinary.cell.reset_parameters()
    >>> with torch.no_grad():                                                # are late positions far apart?
    ...     [bool(torch.pdist(position(torch.arange(150, 200))).mean() > 1) for position in (large, ordinary)]
    [True, False]
    """

    by_place = False

    def __init__(self, model_dim: int) -> None:
        super().__init__(model_dim)
        self.cell = nn.GRUCell(model_dim, model_dim)
        self.input, self.start = nn.Parameter(torch.empty(model_dim)), nn.Parameter(torch.empty(model_dim))
        for weight in (self.input, self.start):
            nn.init.uniform_(weight, -1, 1)
        for part in self.cell.weight_hh.chunk(3):
            nn.init.orthogonal_(part.detach(), gain=5.0)

    def forward(
        self, position: Int[Tensor, "*shape"], length: Int[Tensor, "*#shape"] | None = None
    ) -> Float[Tensor, "*shape model_dim"]:
        states: list[Tensor] = [self.start]
        for _ in range(int(position.max()) + 1 if position.numel() else 0):
            states.append(self.cell(self.input, states[-1]))
        return torch.stack(states)[position + 1]


def first_vectors(position: nn.Module, most: int | None, count: int) -> Float[Tensor, "at_most_count model_dim"]:
    """The vectors of the first positions, of those that a model has."""
    vectors: Tensor = position(torch.arange(min(count, most or count)))
    return vectors


@dataclass(frozen=True, kw_only=True)
class SinusoidalConfig:
    """Fixed sine and cosine waves; any length."""

    base: float = 10000.0
    layout: Literal["interleaved", "blocks"] = "interleaved"

    def __post_init__(self) -> None:
        require_choices(self)

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


@dataclass(frozen=True, kw_only=True)
class NoneConfig:
    """No position vectors: only rotary transforms, biases or rules can express order."""

    def build(self, model_dim: int) -> NoPosition:
        return NoPosition(model_dim)


@dataclass(frozen=True, kw_only=True)
class IndexConfig:
    """The position number in every feature."""

    def build(self, model_dim: int) -> PositionIndex:
        return PositionIndex(model_dim)


@dataclass(frozen=True, kw_only=True)
class UnitIntervalConfig:
    """From 0 at the first word to 1 at the last; for encoders, which know the length."""

    def build(self, model_dim: int) -> UnitInterval:
        return UnitInterval(model_dim)


@dataclass(frozen=True, kw_only=True)
class BinaryConfig:
    """The binary digits of the position number."""

    def build(self, model_dim: int) -> BinaryCode:
        return BinaryCode(model_dim)


@dataclass(frozen=True, kw_only=True)
class RNNMadeConfig:
    """The states of a recurrent network with a constant input."""

    def build(self, model_dim: int) -> RNNMade:
        return RNNMade(model_dim)


PositionConfig = (
    SinusoidalConfig | LearnedConfig | NoneConfig | IndexConfig | UnitIntervalConfig | BinaryConfig | RNNMadeConfig
)
"""The kinds of positions that a configuration can select."""
