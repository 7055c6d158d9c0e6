"""Between softmax and a hard choice: weights that sum to 1, many of them exactly 0."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from foveate.attention.normaliser.normaliser import Rows, Scores, Visible, Weights, closed, precise


@dataclass(frozen=True)
class Sparsemax:
    """α_ij = max(0, e_ij − τ_i) with τ_i such that the row sums to 1

    The Euclidean projection of the scores onto the simplex. Reference: Martins and Astudillo 2016, algorithm 1.

    >>> scores, visible = torch.tensor([[[[2.0, 1.5, 0.2]]]]), torch.ones(1, 1, 1, 1, dtype=torch.bool)
    >>> Sparsemax()(scores, visible).flatten()
    tensor([0.7500, 0.2500, 0.0000])
    """

    def build(self) -> "Sparsemax":
        return self

    def __call__(self, scores: Scores, visible: Visible) -> Weights:
        # Below the largest score, where the 1 is not rounded away by scores in the thousands.
        below = _below_top(scores, visible)
        threshold = self._threshold(below)[..., None]
        return torch.where(visible, (below - threshold).relu(), 0.0).to(scores.dtype)

    def statistic(self, scores: Scores, visible: Visible) -> Rows:
        """τ_i = (Σ_S e_ij − 1) / |S| over the support S; ∞ for an empty row."""
        threshold = self._threshold(_below_top(scores, visible)) + _top(scores, visible)[..., 0]
        return torch.where(visible.any(-1), threshold, torch.inf)

    def tile(self, scores: Scores, visible: Visible, statistic: Rows, *, first: int = 0) -> Weights:
        return torch.where(visible, (precise(scores) - _finite(statistic)).relu(), 0.0).to(scores.dtype)

    def _threshold(self, below: Scores) -> Rows:
        with torch.no_grad():
            largest = below.sort(-1, descending=True).values
            rank = torch.arange(1, below.shape[-1] + 1, device=below.device)
            # A row with NaN compares false everywhere, and stays NaN.
            last = ((largest * rank > largest.cumsum(-1) - 1).sum(-1, keepdim=True) - 1).clamp(min=0)
            support = below >= largest.gather(-1, last)
        return (torch.where(support, below, 0.0).sum(-1) - 1) / support.sum(-1)


@dataclass(frozen=True)
class Entmax:
    """α_ij = max(0, (a − 1) e_ij − τ_i)^{1/(a−1)} with τ_i such that the row sums to 1

    `alpha` leads from softmax (towards 1) over 1.5 to sparsemax (2) and beyond. τ is found by bisection, to the last
    bit of the dtype; the gradient is the exact one. Reference: Peters et al. 2019, equation 7 and proposition 2.

    >>> scores, visible = torch.tensor([[[[2.0, 1.5, 0.2]]]]), torch.ones(1, 1, 1, 1, dtype=torch.bool)
    >>> Entmax()(scores, visible).flatten()
    tensor([0.6740, 0.3260, 0.0000])
    """

    alpha: float = 1.5

    def __post_init__(self) -> None:
        if self.alpha <= 1:
            raise ValueError(f"alpha={self.alpha} must be greater than 1; at 1 it is softmax")

    def build(self) -> "Entmax":
        return self

    def __call__(self, scores: Scores, visible: Visible) -> Weights:
        weights: Tensor = _Entmax.apply(_below_top(scores, visible), self)
        return torch.where(visible, weights, 0.0).to(scores.dtype)

    def statistic(self, scores: Scores, visible: Visible) -> Rows:
        """τ_i, between max − 1 and max of the scores times a − 1; ∞ for an empty row."""
        top = _top(scores, visible) * (self.alpha - 1)
        threshold = self.threshold(_below_top(scores, visible)) + top
        return torch.where(visible.any(-1), threshold[..., 0], torch.inf)

    def tile(self, scores: Scores, visible: Visible, statistic: Rows, *, first: int = 0) -> Weights:
        above = precise(scores) * (self.alpha - 1) - _finite(statistic)
        return torch.where(visible, self.power(above), 0.0).to(scores.dtype)

    @torch.no_grad()
    def threshold(self, below: Scores) -> Tensor:
        """τ of rows whose largest score is 0."""
        low = torch.full_like(below[..., :1], -1.0)
        high = torch.zeros_like(low)
        for _ in range(56 if below.dtype == torch.float64 else 28):
            middle = (low + high) / 2
            fits = self.power(below * (self.alpha - 1) - middle).sum(-1, keepdim=True) >= 1
            low, high = torch.where(fits, middle, low), torch.where(fits, high, middle)
        return low

    def power(self, above: Tensor) -> Tensor:
        return above.relu() ** (1 / (self.alpha - 1))


class _Entmax(torch.autograd.Function):
    """dα = s ∘ (de − (s · de) / Σ s) with s = α^{2−a} on the support."""

    @staticmethod
    def forward(ctx: Any, below: Tensor, entmax: Entmax) -> Tensor:
        weights = entmax.power(below * (entmax.alpha - 1) - entmax.threshold(below))
        ctx.save_for_backward(weights)
        ctx.alpha = entmax.alpha
        return weights

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (weights,) = ctx.saved_tensors
        support = weights > 0
        slope = torch.where(support, torch.where(support, weights, 1.0) ** (2 - ctx.alpha), 0.0)
        total = slope.sum(-1, keepdim=True)
        mean = (slope * grad).sum(-1, keepdim=True) / torch.where(total > 0, total, 1.0)
        return slope * (grad - mean), None


def _top(scores: Scores, visible: Visible) -> Tensor:
    """The largest visible score of each row, as a constant: all weights are those of scores moved by one number."""
    return closed(precise(scores.detach()), visible).amax(-1, keepdim=True)


def _below_top(scores: Scores, visible: Visible) -> Scores:
    return closed(precise(scores), visible) - _top(scores, visible)


def _finite(threshold: Rows) -> Tensor:
    return torch.where(threshold.isinf(), 0.0, threshold)[..., None]
