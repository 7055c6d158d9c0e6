"""Pooling computes one vector from a sequence of vectors, and zeros from an empty one."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.attention import AdditiveConfig, AnyMechanismConfig, AttentionConfig, Mechanism, Positions, padding
from foveate.attention.check import require_positive
from foveate.attention.mechanism import require_no_segments, shortest
from foveate.config.field import setting
from foveate.nn.packing import Packing


class AttentionPooling(nn.Module):
    """c = Σ_i α_i h_i  with  α = softmax_i score(q, h_i)  and a query q that is learned

    The query is a trained weight; `record` shows the positions that it attends to. With the additive score,
    vᵀ tanh(W_q q + W_k h_i), it is the word attention of Yang et al. 2016, whose bias is our W_q q.

    >>> from foveate.attention import record
    >>> pooling, packing = AttentionPoolingConfig().build(4), Packing(torch.tensor([3, 2]), 3)
    >>> with record(pooling) as recording:
    ...     pooled = pooling(torch.randn(5, 4), packing=packing)
    >>> pooled.shape, recording["attention"].weights().sum(-1).flatten().round(decimals=5).tolist()
    (torch.Size([2, 4]), [1.0, 1.0])

    Reference: Yang et al. 2016, "Hierarchical Attention Networks for Document Classification", equations 5 to 7.
    """

    def __init__(self, config: "AttentionPoolingConfig", dim: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(dim) * dim**-0.5)
        built = config.attention.build(query_dim=dim, key_dim=dim, num_heads=1, visibility=padding(), kind="cross")
        assert isinstance(built, nn.Module)
        self.attention: Mechanism = built

    @property
    def max_length(self) -> int | None:
        """The length of the longest sequence that it can attend over; None without a limit."""
        return shortest(self.attention)

    def forward(self, x: Float[Tensor, "tokens dim"], *, packing: Packing) -> Float[Tensor, "batch dim"]:
        keys = packing.unpack(x)[:, None]
        query = self.query.to(x.dtype).expand(packing.batch, 1, 1, -1)
        at = Positions.of(1, packing.length, key_lengths=packing.lengths)
        return self.attention.run(query, keys, keys, at=at)[:, 0, 0]


class MeanPooling(nn.Module):
    """c = (1/n) Σ_i h_i"""

    def forward(self, x: Float[Tensor, "tokens dim"], *, packing: Packing) -> Float[Tensor, "batch dim"]:
        total = packing.unpack(x).sum(1, dtype=torch.promote_types(x.dtype, torch.float32))  # float16 ends at 65,504
        return (total / packing.lengths.clamp(min=1)[:, None]).to(x.dtype)


class MaxPooling(nn.Module):
    """c_j = max_i h_ij"""

    def forward(self, x: Float[Tensor, "tokens dim"], *, packing: Packing) -> Float[Tensor, "batch dim"]:
        if not packing.length:
            return x.new_zeros(packing.batch, x.shape[1])
        real = torch.arange(packing.length, device=x.device) < packing.lengths[:, None]
        largest = packing.unpack(x).masked_fill(~real[..., None], float("-inf")).amax(1)
        return largest.masked_fill((packing.lengths == 0)[:, None], 0.0)


class FirstPooling(nn.Module):
    """c = h_1, the vector of the begin symbol, like BERT; or c = [h_1; …; h_k], such as those of two class tokens"""

    def __init__(self, count: int = 1) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: Float[Tensor, "tokens dim"], *, packing: Packing) -> Float[Tensor, "batch pooled_dim"]:
        """Zeros for vectors that a row does not have."""
        if not len(x):
            return x.new_zeros(packing.batch, self.count * x.shape[1])
        number = torch.arange(self.count, device=x.device)
        index = (packing.starts[:-1, None] + number).clamp(max=len(x) - 1)
        missing = number >= packing.lengths[:, None]
        first = x.index_select(0, index.flatten()).unflatten(0, index.shape)
        return first.masked_fill(missing[..., None], 0.0).flatten(1)


@dataclass(frozen=True, kw_only=True)
class AttentionPoolingConfig:
    """A trained query attends to all vectors."""

    kind: ClassVar[str] = "attention"
    attention: AnyMechanismConfig = AttentionConfig(score=AdditiveConfig())

    def __post_init__(self) -> None:
        require_no_segments(attention=self.attention)

    def width(self, dim: int) -> int:
        """The number of features of a pooled vector."""
        return dim

    def build(self, dim: int) -> AttentionPooling:
        return AttentionPooling(self, dim)


@dataclass(frozen=True, kw_only=True)
class MeanPoolingConfig:
    """The mean of all vectors."""

    kind: ClassVar[str] = "mean"

    def width(self, dim: int) -> int:
        """The number of features of a pooled vector."""
        return dim

    def build(self, dim: int) -> MeanPooling:
        return MeanPooling()


@dataclass(frozen=True, kw_only=True)
class MaxPoolingConfig:
    """The greatest value of each feature."""

    kind: ClassVar[str] = "max"

    def width(self, dim: int) -> int:
        """The number of features of a pooled vector."""
        return dim

    def build(self, dim: int) -> MaxPooling:
        return MaxPooling()


@dataclass(frozen=True, kw_only=True)
class FirstPoolingConfig:
    """The first vector, after layers that have mixed the others into it."""

    kind: ClassVar[str] = "first"
    count: int = setting(1, "vectors that are joined; 2: DeiT's class token and distillation token")

    def __post_init__(self) -> None:
        require_positive(count=self.count)

    def width(self, dim: int) -> int:
        """The number of features of a pooled vector."""
        return self.count * dim

    def build(self, dim: int) -> FirstPooling:
        return FirstPooling(self.count)


PoolingConfig = AttentionPoolingConfig | MeanPoolingConfig | MaxPoolingConfig | FirstPoolingConfig
"""The poolings that a configuration can select: "attention", "mean", "max", "first"."""
