"""The read-out of a graph: one vector from the vectors of its nodes."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.attention import AdditiveConfig, AttentionConfig, Positions, padding
from foveate.attention.check import require_positive
from foveate.config.field import setting
from foveate.nn.linear_layer import Linear
from foveate.nn.packing import Packing


class AttentionReadout(nn.Module):
    """g = ‖_h Σ_i α_ih W_h x_i  with  α_h = softmax_i score(q_h, W_h x_i)  and queries q_h that are learned

    `record` shows α: how much of the graph's vector is each node's, for each head. With `total`, Σ_i W' x_i follows:
    weights that sum to 1 cannot count.

    Reference: Yang et al. 2016, equations 5 to 7, with several heads.
    """

    def __init__(self, config: "AttentionReadoutConfig", dim: int) -> None:
        super().__init__()
        if dim % config.num_heads:
            raise ValueError(f"num_heads={config.num_heads} of the read-out does not divide the width {dim}.")
        self.num_heads, head_dim = config.num_heads, dim // config.num_heads
        self.query = nn.Parameter(torch.randn(config.num_heads, head_dim) * head_dim**-0.5)
        self.value = Linear(dim, dim)
        self.attention = config.attention.build(
            query_dim=head_dim, key_dim=head_dim, num_heads=config.num_heads, visibility=padding(), kind="cross"
        )
        self.total = Linear(dim, dim) if config.total else None

    def forward(self, x: Float[Tensor, "nodes dim"], *, packing: Packing) -> Float[Tensor, "graphs readout_dim"]:
        keys = packing.unpack(self.value(x)).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        query = self.query.to(x.dtype)[:, None].expand(packing.batch, -1, -1, -1)
        at = Positions.of(1, packing.length, key_lengths=packing.lengths)
        context = self.attention.run(query, keys, keys, at=at)[:, :, 0].flatten(1)
        return context if self.total is None else torch.cat([context, _sum(self.total(x), packing)], dim=1)


class SumReadout(nn.Module):
    """g = Σ_i x_i"""

    def forward(self, x: Float[Tensor, "nodes dim"], *, packing: Packing) -> Float[Tensor, "graphs dim"]:
        return _sum(x, packing)


class MeanReadout(nn.Module):
    """g = (1/n) Σ_i x_i"""

    def forward(self, x: Float[Tensor, "nodes dim"], *, packing: Packing) -> Float[Tensor, "graphs dim"]:
        precise = x.to(torch.promote_types(x.dtype, torch.float32))  # float16 ends at 65,504
        return (_sum(precise, packing) / packing.lengths.clamp(min=1)[:, None]).to(x.dtype)


@dataclass(frozen=True, kw_only=True)
class AttentionReadoutConfig:
    """Learned queries attend to the nodes."""

    kind: ClassVar[str] = "attention"
    num_heads: int = 4
    total: bool = setting(True, "whether the sum of all nodes stands beside what the heads read")
    attention: AttentionConfig = AttentionConfig(score=AdditiveConfig())

    def __post_init__(self) -> None:
        require_positive(num_heads=self.num_heads)

    def width(self, dim: int) -> int:
        """The number of features of a graph."""
        return 2 * dim if self.total else dim

    def build(self, dim: int) -> AttentionReadout:
        return AttentionReadout(self, dim)


@dataclass(frozen=True, kw_only=True)
class SumReadoutConfig:
    """The sum of all nodes."""

    kind: ClassVar[str] = "sum"

    def width(self, dim: int) -> int:
        """The number of features of a graph."""
        return dim

    def build(self, dim: int) -> SumReadout:
        return SumReadout()


@dataclass(frozen=True, kw_only=True)
class MeanReadoutConfig:
    """The mean of all nodes."""

    kind: ClassVar[str] = "mean"

    def width(self, dim: int) -> int:
        """The number of features of a graph."""
        return dim

    def build(self, dim: int) -> MeanReadout:
        return MeanReadout()


ReadoutConfig = AttentionReadoutConfig | SumReadoutConfig | MeanReadoutConfig
"""The read-outs that a configuration can select: "attention", "sum", "mean"."""


def _sum(x: Float[Tensor, "nodes dim"], packing: Packing) -> Float[Tensor, "graphs dim"]:
    return packing.unpack(x).sum(1)
