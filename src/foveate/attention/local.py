"""Local attention: every query looks into a window around one place, and most at its middle."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.attention.attention import Attention
from foveate.attention.bias import Gaussian
from foveate.attention.check import require_hidden, require_whole
from foveate.attention.position import Positions
from foveate.attention.score import GeneralConfig, ScoreConfig
from foveate.attention.score.score import project
from foveate.attention.visibility import Visibility, around, window
from foveate.attention.visibility.rule import require_visibility


class PredictedCentre(nn.Module):
    """p_t = S · sigmoid(vᵀ tanh(W h_t)), a real number between 0 and S, the true length of that source

    Luong et al. 2015, equation 9. S is never the padded length:

    >>> centre = PredictedCentre(query_dim=4, hidden_dim=4)
    >>> torch.nn.init.zeros_(centre.vector)
    Parameter containing:
    tensor([[0., 0., 0., 0.]], requires_grad=True)
    >>> at = Positions.of(query=1, key=9, key_lengths=torch.tensor([9, 4]))
    >>> centre(torch.randn(2, 1, 1, 4), at).flatten().tolist()
    [4.5, 2.0]
    """

    def __init__(self, *, query_dim: int, hidden_dim: int, num_heads: int = 1) -> None:
        super().__init__()
        require_whole(query_dim=query_dim, hidden_dim=hidden_dim, num_heads=num_heads)
        self.weight = nn.Parameter(torch.empty(num_heads, query_dim, hidden_dim))
        self.vector = nn.Parameter(torch.empty(num_heads, hidden_dim))
        for weight, fan_in in ((self.weight, query_dim), (self.vector, hidden_dim)):
            nn.init.uniform_(weight, -(fan_in**-0.5), fan_in**-0.5)

    def forward(
        self, query: Float[Tensor, "batch heads query query_dim"], at: Positions
    ) -> Float[Tensor, "batch heads query 1"]:
        hidden = torch.tanh(project(query, self.weight))
        place = (hidden * self.vector[:, None]).sum(-1, keepdim=True)
        # bfloat16 knows three digits: too few to point into a long source.
        return at.key_lengths * place.to(torch.promote_types(place.dtype, torch.float32)).sigmoid()

    def extra_repr(self) -> str:
        num_heads, query_dim, hidden_dim = self.weight.shape
        return f"query_dim={query_dim}, hidden_dim={hidden_dim}, num_heads={num_heads}"


@dataclass(frozen=True, kw_only=True)
class LocalMonotonicConfig:
    """α_ts = softmax over |s − t| ≤ D of score(h_t, h̄_s): the t-th query looks around the t-th key

    local-m of Luong et al. 2015, section 3.2, with p_t = t: source and target are assumed to run in step. Keys past an
    end of the source are left out, as in the paper. The paper uses it between sequences only; here a sequence may also
    look at itself, and the window joins the rules of the layer. With D ≥ n − 1 it is global attention.

    >>> from foveate.attention import everything
    >>> local = LocalMonotonicConfig(window=1).build(query_dim=4, key_dim=4, visibility=everything(), kind="cross")
    >>> print(local.visibility.picture(3, 5))
    # # . . .
    # # # . .
    . # # # .
    """

    window: int = 10
    """D, the keys on either side."""
    score: ScoreConfig = GeneralConfig()

    def __post_init__(self) -> None:
        _require_window(self.window)

    @property
    def max_length(self) -> int | None:
        """The most positions that the score has numbers for; None where there is no limit."""
        return getattr(self.score, "max_length", None)

    def build(
        self,
        *,
        query_dim: int,
        key_dim: int,
        num_heads: int = 1,
        visibility: Visibility,
        kind: Literal["self", "cross"],
    ) -> Attention:
        score = self.score.build(query_dim=query_dim, key_dim=key_dim, num_heads=num_heads)
        return Attention(score, visibility=visibility & window(left=self.window, right=self.window), kind=kind)


@dataclass(frozen=True, kw_only=True)
class LocalPredictiveConfig:
    """α_ts = softmax over |s − p_t| ≤ D of score(h_t, h̄_s), times exp(−(s − p_t)² / (2σ²)) with σ = D/2

    local-p of Luong et al. 2015, section 3.2: each query predicts where to look (`PredictedCentre`), and gives less
    weight to keys away from it. A row sums to at most 1, as published; differs from the paper with `renormalise`: the
    Gaussian is then added to the scores, and a row sums to 1. The prediction learns through the Gaussian alone: which
    keys are in the window is not differentiable.

    An untrained prediction is the middle of the source, here with equal scores:

    >>> from foveate.attention import everything
    >>> for renormalise in (False, True):
    ...     local = LocalPredictiveConfig(window=2, renormalise=renormalise).build(
    ...         query_dim=4, key_dim=4, visibility=everything(), kind="cross")
    ...     for weight in (local.centre.vector, local.score.weight):
    ...         _ = torch.nn.init.zeros_(weight)
    ...     query, key = torch.randn(1, 1, 1, 4), torch.randn(1, 1, 8, 4)
    ...     print(local.explain(query, key, key, at=Positions.of(query=1, key=8)).weights.flatten().detach())
    tensor([0.0000, 0.0000, 0.0271, 0.1213, 0.2000, 0.1213, 0.0271, 0.0000])
    tensor([0.0000, 0.0000, 0.0545, 0.2442, 0.4026, 0.2442, 0.0545, 0.0000])
    """

    window: int = 10
    """D, the keys on either side of the predicted place."""
    score: ScoreConfig = GeneralConfig()
    hidden_dim: int | None = None
    """Of the prediction; by default the query's width."""
    renormalise: bool = False
    """Whether rows sum to 1; the paper's do not."""

    def __post_init__(self) -> None:
        _require_window(self.window)
        require_hidden(self.hidden_dim)

    @property
    def max_length(self) -> int | None:
        """The most positions that the score has numbers for; None where there is no limit."""
        return getattr(self.score, "max_length", None)

    def build(
        self,
        *,
        query_dim: int,
        key_dim: int,
        num_heads: int = 1,
        visibility: Visibility,
        kind: Literal["self", "cross"],
    ) -> Attention:
        if kind == "self" and not _sees_later(visibility):
            raise ValueError(
                "local_predictive points into a sequence of known length, and a decoder's past has none: steps would "
                'not be the whole. Choose it for the encoder or for cross-attention, or "local_monotonic".'
            )
        gaussian = Gaussian(self.window / 2)
        return Attention(
            self.score.build(query_dim=query_dim, key_dim=key_dim, num_heads=num_heads),
            visibility=visibility & around(left=self.window, right=self.window),
            bias=gaussian if self.renormalise else None,
            reweight=None if self.renormalise else gaussian,
            centre=PredictedCentre(query_dim=query_dim, hidden_dim=self.hidden_dim or query_dim, num_heads=num_heads),
            kind=kind,
        )


def _require_window(width: int) -> None:
    require_whole(-math.inf, window=width)
    if width < 1:
        raise ValueError(f"window={width} must be at least 1: the Gaussian's width is half of it")


def _sees_later(visibility: Visibility) -> bool:
    require_visibility(visibility)
    return bool(visibility(Positions.of(1, 2)).expand(1, 1, 1, 2)[..., 1])
