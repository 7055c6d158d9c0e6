"""Weights in proportion to scores that are positive by themselves."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from foveate.attention.check import require_real
from foveate.attention.normaliser.normaliser import possible


@dataclass(frozen=True, kw_only=True)
class Proportional:
    """α_ij = e_ij / (Σ_j' e_ij' + ε) over the visible j', for scores that are nowhere negative.

    >>> Proportional()(torch.tensor([[[[1.0, 2.0, 5.0]]]]), torch.tensor([[[[True, True, False]]]])).flatten()
    tensor([0.3333, 0.6667, 0.0000])

    With ε = 0 rows sum to 1; published code adds 1e-6. A row without any score to divide by is zero.
    """

    eps: float = 0.0

    def __post_init__(self) -> None:
        require_real(eps=self.eps)
        if self.eps < 0:
            raise ValueError(f"eps={self.eps} must not be negative.")

    def __call__(
        self, scores: Float[Tensor, "batch heads query key"], visible: Bool[Tensor, "#batch #heads #query #key"]
    ) -> Float[Tensor, "batch heads query key"]:
        return self.tile(scores, visible, self.statistic(scores, visible))

    def statistic(
        self, scores: Float[Tensor, "batch heads query key"], visible: Bool[Tensor, "#batch #heads #query #key"]
    ) -> Float[Tensor, "batch heads query"]:
        """Σ_j e_ij"""
        visible = possible(scores, visible)
        precise = scores.to(torch.promote_types(scores.dtype, torch.float32))
        return torch.where(visible, precise, 0.0).sum(-1)

    def tile(
        self,
        scores: Float[Tensor, "batch heads query key"],
        visible: Bool[Tensor, "#batch #heads #query #key"],
        statistic: Float[Tensor, "batch heads query"],
        *,
        first: int = 0,
    ) -> Float[Tensor, "batch heads query key"]:
        visible = possible(scores, visible)
        total = statistic[..., None] + self.eps
        weights = torch.where(visible, scores, 0.0) / torch.where(total > 0, total, 1.0)
        return weights.to(scores.dtype)
