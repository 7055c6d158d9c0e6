"""From scores to weights. A hidden key weighs exactly 0; a row that sees nothing is all zeros."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor


@runtime_checkable
class Normaliser(Protocol):
    """Makes weights from scores, and can make any tile of them again from one number per row."""

    def __call__(
        self, scores: Float[Tensor, "batch heads query key"], visible: Bool[Tensor, "#batch #heads #query #key"]
    ) -> Float[Tensor, "batch heads query key"]: ...

    def statistic(
        self, scores: Float[Tensor, "batch heads query key"], visible: Bool[Tensor, "#batch #heads #query #key"]
    ) -> Float[Tensor, "batch heads query"]:
        """The number of each row that, with a score, gives its weight."""
        ...

    def tile(
        self,
        scores: Float[Tensor, "batch heads query key"],
        visible: Bool[Tensor, "#batch #heads #query #key"],
        statistic: Float[Tensor, "batch heads query"],
        *,
        first: int = 0,
    ) -> Float[Tensor, "batch heads query key"]:
        """The weights of some keys, from number `first` on, given the statistic of the whole row."""
        ...


@dataclass(frozen=True)
class Softmax:
    """α_ij = exp(e_ij) / Σ_j' exp(e_ij') over the visible j'; 0 when nothing is visible.

    The lectures print softmax([2, 4, 4]) as [0.0, 0.5, 0.5]; the true values are

    >>> Softmax()(torch.tensor([[[[2.0, 4.0, 4.0]]]]), torch.ones(1, 1, 1, 1, dtype=torch.bool)).flatten()
    tensor([0.0634, 0.4683, 0.4683])
    """

    def __call__(
        self, scores: Float[Tensor, "batch heads query key"], visible: Bool[Tensor, "#batch #heads #query #key"]
    ) -> Float[Tensor, "batch heads query key"]:
        # An empty row is filled with 0, not −∞: softmax of −∞ alone is NaN, and its gradient too.
        fill = torch.where(visible.any(-1, keepdim=True), -torch.inf, 0.0).to(scores.dtype)
        weights = torch.where(visible, scores, fill).softmax(-1)
        return torch.where(visible, weights, 0.0)

    def statistic(
        self, scores: Float[Tensor, "batch heads query key"], visible: Bool[Tensor, "#batch #heads #query #key"]
    ) -> Float[Tensor, "batch heads query"]:
        """log Σ_j exp(e_ij); −∞ for an empty row."""
        precise = scores.to(torch.promote_types(scores.dtype, torch.float32))
        return torch.where(visible, precise, -torch.inf).logsumexp(-1)

    def tile(
        self,
        scores: Float[Tensor, "batch heads query key"],
        visible: Bool[Tensor, "#batch #heads #query #key"],
        statistic: Float[Tensor, "batch heads query"],
        *,
        first: int = 0,
    ) -> Float[Tensor, "batch heads query key"]:
        return torch.where(visible, (scores - statistic[..., None]).exp(), 0.0).to(scores.dtype)


NormaliserConfig = Softmax
"""The normalisers that a configuration can name."""
