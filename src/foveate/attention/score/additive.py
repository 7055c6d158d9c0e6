"""The score of the first attention: a small network over query and key."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.attention.check import require_hidden, require_whole
from foveate.attention.onnx import Graph, Side
from foveate.attention.score.form import PairScore
from foveate.attention.score.score import project


class Additive(PairScore):
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
        require_whole(query_dim=query_dim, key_dim=key_dim, hidden_dim=hidden_dim, num_heads=num_heads)
        self.query_weight = nn.Parameter(torch.empty(num_heads, query_dim, hidden_dim))
        self.key_weight = nn.Parameter(torch.empty(num_heads, key_dim, hidden_dim))
        self.vector = nn.Parameter(torch.empty(num_heads, hidden_dim))
        for weight, fan_in in ((self.query_weight, query_dim), (self.key_weight, key_dim), (self.vector, hidden_dim)):
            nn.init.uniform_(weight, -(fan_in**-0.5), fan_in**-0.5)

    def query_features(
        self, query: Float[Tensor, "batch heads query query_dim"]
    ) -> Float[Tensor, "batch heads query hidden_dim"]:
        return project(query, self.query_weight)

    def key_features(
        self, key: Float[Tensor, "batch heads key key_dim"]
    ) -> Float[Tensor, "batch heads key hidden_dim"]:
        return project(key, self.key_weight)

    def symbol(self, head_dim: int) -> str:
        return "vᵀ tanh(W q + U k)"

    def onnx(self, graph: Graph, x: str, *, side: Side) -> str:
        return graph.op("MatMul", x, graph.weight(self.query_weight if side == "query" else self.key_weight))

    def extra_repr(self) -> str:
        num_heads, query_dim, hidden_dim = self.query_weight.shape
        key_dim = self.key_weight.shape[1]
        return f"query_dim={query_dim}, key_dim={key_dim}, hidden_dim={hidden_dim}, num_heads={num_heads}"


@dataclass(frozen=True, kw_only=True)
class AdditiveConfig:
    """vᵀ tanh(W_q q + W_k k) (Bahdanau et al. 2015); `hidden_dim` defaults to the query's width."""

    hidden_dim: int | None = None

    def __post_init__(self) -> None:
        require_hidden(self.hidden_dim)

    def build(self, *, query_dim: int, key_dim: int, num_heads: int = 1) -> Additive:
        return Additive(
            query_dim=query_dim, key_dim=key_dim, hidden_dim=self.hidden_dim or query_dim, num_heads=num_heads
        )
