"""Softmax replaced by a function of each score alone: ReLU and sigmoid."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from foveate.attention.check import require_real
from foveate.attention.normaliser.normaliser import Rows, Scores, Visible, Weights, precise, shown


@dataclass(frozen=True)
class ReLU:
    """α_ij = max(0, e_ij) / Σ_j' max(0, e_ij'); with `normalised=False` simply max(0, e_ij).

    The lectures remark that softmax may be replaced, for example by ReLU. The weights of a row without a positive score
    are 0, like those of a row that sees nothing.

    >>> scores, visible = torch.tensor([[[[2.0, 4.0, -4.0]]]]), torch.ones(1, 1, 1, 1, dtype=torch.bool)
    >>> ReLU()(scores, visible).flatten(), ReLU(normalised=False)(scores, visible).flatten()
    (tensor([0.3333, 0.6667, 0.0000]), tensor([2., 4., 0.]))
    """

    kind: ClassVar[str] = "relu"
    normalised: bool = True

    def build(self) -> "ReLU":
        return self

    @property
    def sums_to_one(self) -> bool:
        return self.normalised

    @property
    def symbol(self) -> str:
        return "relu / Σ" if self.normalised else "relu"

    def header(self) -> dict[str, str | bool]:
        return {"kind": "relu", "normalised": self.normalised}

    def __call__(self, scores: Scores, visible: Visible) -> Weights:
        positive = shown(scores, visible).relu()
        if not self.normalised:
            return positive
        # In float16 a row of large scores would sum to infinity.
        return (positive / _divisor(precise(positive).sum(-1, keepdim=True))).to(scores.dtype)

    def statistic(self, scores: Scores, visible: Visible) -> Rows:
        """Σ_j max(0, e_ij); nothing is needed, and 0 is kept, when the weights are not normalised."""
        total = shown(precise(scores), visible).relu().sum(-1)
        return total if self.normalised else torch.zeros_like(total)

    def tile(self, scores: Scores, visible: Visible, statistic: Rows, *, first: int = 0) -> Weights:
        positive = shown(scores, visible).relu()
        return (positive / _divisor(statistic[..., None])).to(scores.dtype) if self.normalised else positive


@dataclass(frozen=True)
class Sigmoid:
    """α_ij = 1 / (1 + exp(−e_ij − b)): every key is weighed on its own, and a row need not sum to 1.

    With b = −log(number of keys) the weights of a row start near a sum of 1 (Ramapuram et al. 2025, "sigmoid
    attention"); b is a number here because the number of keys varies.

    >>> scores, visible = torch.tensor([[[[0.0, 2.0, 2.0]]]]), torch.tensor([[[[True, True, False]]]])
    >>> Sigmoid()(scores, visible).flatten()
    tensor([0.5000, 0.8808, 0.0000])
    """

    sums_to_one: ClassVar[bool] = False
    symbol: ClassVar[str] = "sigmoid"
    bias: float = 0.0

    def __post_init__(self) -> None:
        require_real(bias=self.bias)

    def build(self) -> "Sigmoid":
        return self

    def header(self) -> dict[str, str | float]:
        return {"kind": "sigmoid", "bias": self.bias}

    def __call__(self, scores: Scores, visible: Visible) -> Weights:
        return shown((shown(scores, visible) + self.bias).sigmoid(), visible)

    def statistic(self, scores: Scores, visible: Visible) -> Rows:
        """Nothing: a score gives its weight alone."""
        return torch.zeros_like(precise(scores[..., :1]).sum(-1))

    def tile(self, scores: Scores, visible: Visible, statistic: Rows, *, first: int = 0) -> Weights:
        return self(scores, visible)


def _divisor(total: torch.Tensor) -> torch.Tensor:
    return torch.where(total > 0, total, 1.0)
