"""How well a query and a key match: e_ij = score(q_i, k_j).

A score is any callable on `(query, key)`. The ones here also say which part belongs to the key alone
(`key_features`), so that a decoder computes it once per sentence and not once per word:

    score(q, k) = compare(query_features(q), key_features(k))
"""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.attention.position import Positions


@runtime_checkable
class Score(Protocol):
    """Any callable that scores every query against every key."""

    def __call__(
        self, query: Float[Tensor, "batch heads query query_dim"], key: Float[Tensor, "batch heads key key_dim"]
    ) -> Float[Tensor, "batch heads query key"]: ...


@runtime_checkable
class FactoredScore(Score, Protocol):
    """A score whose key part can be computed once and kept."""

    def query_features(
        self, query: Float[Tensor, "batch heads query query_dim"]
    ) -> Float[Tensor, "batch heads query feature"]: ...

    def key_features(
        self, key: Float[Tensor, "batch heads key key_dim"]
    ) -> Float[Tensor, "batch heads key feature"]: ...

    def compare(
        self,
        query_features: Float[Tensor, "batch heads query feature"],
        key_features: Float[Tensor, "batch heads key feature"],
    ) -> Float[Tensor, "batch heads query key"]: ...


@runtime_checkable
class PlacedScore(Protocol):
    """A score that also depends on where queries and keys stand."""

    def scores_at(
        self,
        query: Float[Tensor, "batch heads query query_dim"],
        key: Float[Tensor, "batch heads key key_dim"],
        at: Positions,
    ) -> Float[Tensor, "batch heads query key"]: ...


@dataclass(frozen=True, kw_only=True)
class Dot:
    """score(q, k) = q · k

    Luong et al. 2015, "dot". Var(q · k) = d for unit-variance entries, which is why `ScaledDot` exists.
    """

    def factor(self, head_dim: int) -> float:
        """What multiplies q · k."""
        return 1.0

    def query_features(self, query: Float[Tensor, "batch heads query dim"]) -> Float[Tensor, "batch heads query dim"]:
        return query * self.factor(query.shape[-1])

    def key_features(self, key: Float[Tensor, "batch heads key dim"]) -> Float[Tensor, "batch heads key dim"]:
        return key

    def compare(
        self,
        query_features: Float[Tensor, "batch heads query dim"],
        key_features: Float[Tensor, "batch heads key dim"],
    ) -> Float[Tensor, "batch heads query key"]:
        return query_features @ key_features.mT

    def __call__(
        self, query: Float[Tensor, "batch heads query query_dim"], key: Float[Tensor, "batch heads key key_dim"]
    ) -> Float[Tensor, "batch heads query key"]:
        _require_equal_width(type(self).__name__, query, key)
        return self.compare(self.query_features(query), self.key_features(key))

    def build(self, *, query_dim: int, key_dim: int, num_heads: int = 1) -> "Dot":
        """Itself: there is nothing to learn."""
        if query_dim != key_dim:
            raise ValueError(
                f"{type(self).__name__} needs queries and keys of one width, got {query_dim} and {key_dim}. "
                'Choose equal widths, or the score "general" or "additive", which learn to join different ones.'
            )
        return self


@dataclass(frozen=True, kw_only=True)
class ScaledDot(Dot):
    """score(q, k) = µ q · k, with µ = 1/√d unless `scale` says otherwise

    Vaswani et al. 2017, equation 1. The Russian lecture leaves µ free and calls 1/√E the special case.

    >>> q = torch.tensor([[[[3.0, 4.0, 0.0, 0.0]]]])
    >>> ScaledDot()(q, q).item(), ScaledDot(scale=0.1)(q, q).item()
    (12.5, 2.5)
    """

    scale: float | None = None

    def factor(self, head_dim: int) -> float:
        return 1 / math.sqrt(head_dim) if self.scale is None else self.scale


class General(nn.Module):
    """score(q, k) = qᵀ W k

    Luong et al. 2015, "general" (multiplicative, bilinear). W is `query_dim × key_dim`, one per head or one for all.
    """

    def __init__(self, *, query_dim: int, key_dim: int, num_heads: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_heads, query_dim, key_dim))
        nn.init.uniform_(self.weight, -(key_dim**-0.5), key_dim**-0.5)

    def query_features(self, query: Float[Tensor, "batch heads query dim"]) -> Float[Tensor, "batch heads query dim"]:
        return query

    def key_features(self, key: Float[Tensor, "batch heads key key_dim"]) -> Float[Tensor, "batch heads key query_dim"]:
        return _project(key, self.weight.mT)

    def compare(
        self,
        query_features: Float[Tensor, "batch heads query dim"],
        key_features: Float[Tensor, "batch heads key dim"],
    ) -> Float[Tensor, "batch heads query key"]:
        return query_features @ key_features.mT

    def forward(
        self, query: Float[Tensor, "batch heads query query_dim"], key: Float[Tensor, "batch heads key key_dim"]
    ) -> Float[Tensor, "batch heads query key"]:
        return self.compare(query, self.key_features(key))

    def extra_repr(self) -> str:
        num_heads, query_dim, key_dim = self.weight.shape
        return f"query_dim={query_dim}, key_dim={key_dim}, num_heads={num_heads}"


class Additive(nn.Module):
    """score(q, k) = vᵀ tanh(W_q q + W_k k)

    Bahdanau et al. 2015, appendix A.1.2; Luong's "concat". The slides write W[q; k]; splitting W by columns gives
    the same numbers and lets the keys be projected once per sentence. Queries and keys may have different widths.

    >>> _ = torch.manual_seed(0)
    >>> score = Additive(query_dim=2, key_dim=3, hidden_dim=4)
    >>> q, k = torch.randn(1, 1, 1, 2), torch.randn(1, 1, 1, 3)
    >>> joined = torch.cat([score.query_weight, score.key_weight], dim=-2)          # the slides' W
    >>> by_slide = torch.tanh(torch.cat([q, k], -1) @ joined) @ score.vector[0]
    >>> torch.allclose(score(q, k).flatten(), by_slide.flatten())
    True
    """

    def __init__(self, *, query_dim: int, key_dim: int, hidden_dim: int, num_heads: int = 1) -> None:
        super().__init__()
        self.query_weight = nn.Parameter(torch.empty(num_heads, query_dim, hidden_dim))
        self.key_weight = nn.Parameter(torch.empty(num_heads, key_dim, hidden_dim))
        self.vector = nn.Parameter(torch.empty(num_heads, hidden_dim))
        for weight, fan_in in ((self.query_weight, query_dim), (self.key_weight, key_dim), (self.vector, hidden_dim)):
            nn.init.uniform_(weight, -(fan_in**-0.5), fan_in**-0.5)

    def query_features(
        self, query: Float[Tensor, "batch heads query query_dim"]
    ) -> Float[Tensor, "batch heads query hidden_dim"]:
        return _project(query, self.query_weight)

    def key_features(
        self, key: Float[Tensor, "batch heads key key_dim"]
    ) -> Float[Tensor, "batch heads key hidden_dim"]:
        return _project(key, self.key_weight)

    def compare(
        self,
        query_features: Float[Tensor, "batch heads query hidden_dim"],
        key_features: Float[Tensor, "batch heads key hidden_dim"],
    ) -> Float[Tensor, "batch heads query key"]:
        hidden = torch.tanh(query_features[..., :, None, :] + key_features[..., None, :, :])
        vector = self.vector.to(hidden.dtype)
        if len(vector) == 1:
            return hidden @ vector[0]
        return (hidden * vector[:, None, None, :]).sum(-1)

    def forward(
        self, query: Float[Tensor, "batch heads query query_dim"], key: Float[Tensor, "batch heads key key_dim"]
    ) -> Float[Tensor, "batch heads query key"]:
        return self.compare(self.query_features(query), self.key_features(key))

    def extra_repr(self) -> str:
        num_heads, query_dim, hidden_dim = self.query_weight.shape
        key_dim = self.key_weight.shape[1]
        return f"query_dim={query_dim}, key_dim={key_dim}, hidden_dim={hidden_dim}, num_heads={num_heads}"


@dataclass(frozen=True, kw_only=True)
class GeneralConfig:
    """qᵀ W k (Luong et al. 2015)."""

    def build(self, *, query_dim: int, key_dim: int, num_heads: int = 1) -> General:
        return General(query_dim=query_dim, key_dim=key_dim, num_heads=num_heads)


@dataclass(frozen=True, kw_only=True)
class AdditiveConfig:
    """vᵀ tanh(W_q q + W_k k) (Bahdanau et al. 2015); `hidden_dim` defaults to the query's width."""

    hidden_dim: int | None = None

    def build(self, *, query_dim: int, key_dim: int, num_heads: int = 1) -> Additive:
        return Additive(
            query_dim=query_dim, key_dim=key_dim, hidden_dim=self.hidden_dim or query_dim, num_heads=num_heads
        )


ScoreConfig = Dot | ScaledDot | GeneralConfig | AdditiveConfig
"""The scores that a configuration can name: "dot", "scaled_dot", "general", "additive"."""


def _project(x: Tensor, weight: Tensor) -> Tensor:
    """x · W with a matrix per head; one matrix for all heads makes one product instead of one per example."""
    return x @ (weight.reshape(weight.shape[-2:]) if weight.shape[0] == 1 else weight)


def _require_equal_width(name: str, query: Tensor, key: Tensor) -> None:
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"{name} needs queries and keys of one width, got {query.shape[-1]} and {key.shape[-1]}. "
            "Project one of them, or use General or Additive, which join different widths."
        )
