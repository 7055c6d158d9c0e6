"""Scores of graph attention networks, and what lets a score run over edges alone."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.attention.check import require_hidden, require_whole
from foveate.attention.onnx import Graph, Side
from foveate.attention.score.form import PairNetwork, PairScore
from foveate.attention.score.score import FactoredScore, project


@runtime_checkable
class EdgeScore(FactoredScore, Protocol):
    """A score that can also compare rows in pairs: the two ends of each edge."""

    def pairs(
        self,
        query_features: Float[Tensor, "batch heads edges query_feature"],
        key_features: Float[Tensor, "batch heads edges key_feature"],
    ) -> Float[Tensor, "batch heads edges"]: ...


class GATScore(PairScore):
    """score(q_i, k_j) = LeakyReLU(a_q · q_i + a_k · k_j)

    The paper writes aᵀ[W h_i ‖ W h_j]; here W is the projection before the attention, and a is split in two, so that
    each node is reduced to a number before edges are scored. All nodes rank their neighbours alike: with `a_q` at 9,
    the second key stays the best.

    >>> score = GATScore(dim=1)
    >>> with torch.no_grad():
    ...     _ = score.query_vector.fill_(9.0), score.key_vector.fill_(1.0)
    >>> score(torch.tensor([[[[0.0], [1.0]]]]), torch.tensor([[[[1.0], [2.0], [-20.0]]]]))[0, 0].tolist()
    [[1.0, 2.0, -4.0], [10.0, 11.0, -2.2...]]

    Reference: Veličković et al. 2018, equation 3.
    """

    def __init__(self, *, dim: int, num_heads: int = 1, slope: float = 0.2) -> None:
        super().__init__()
        require_whole(dim=dim, num_heads=num_heads)
        self.query_vector = nn.Parameter(torch.empty(num_heads, dim, 1))
        self.key_vector = nn.Parameter(torch.empty(num_heads, dim, 1))
        self.slope = slope
        for vector in (self.query_vector, self.key_vector):
            nn.init.uniform_(vector, -(dim**-0.5), dim**-0.5)

    def query_features(self, query: Float[Tensor, "batch heads query dim"]) -> Float[Tensor, "batch heads query 1"]:
        return project(query, self.query_vector)

    def key_features(self, key: Float[Tensor, "batch heads key dim"]) -> Float[Tensor, "batch heads key 1"]:
        return project(key, self.key_vector)

    def form(self) -> PairNetwork:
        return PairNetwork(self.query_features, self.key_features, slope=self.slope)

    def symbol(self, head_dim: int) -> str:
        return "LeakyReLU(a·q + b·k)"

    def onnx(self, graph: Graph, x: str, *, side: Side) -> str:
        return graph.op("MatMul", x, graph.weight(self.query_vector if side == "query" else self.key_vector))

    def extra_repr(self) -> str:
        num_heads, dim, _ = self.query_vector.shape
        return f"dim={dim}, num_heads={num_heads}, slope={self.slope:g}"


class GATv2Score(PairScore):
    """score(q_i, k_j) = aᵀ LeakyReLU(W_q q_i + W_k k_j)

    Bahdanau's score with LeakyReLU in place of tanh: the best neighbour depends on the query. The paper's single matrix
    over [h_i ‖ h_j] is split in two. Each node scores the node most like itself highest, which `GATScore` cannot do:
    there all nodes rank their neighbours alike.

    >>> score = GATv2Score(query_dim=1, key_dim=1, hidden_dim=2)
    >>> with torch.no_grad():
    ...     _ = score.query_weight.copy_(torch.tensor([1.0, -1.0])), score.key_weight.copy_(torch.tensor([-1.0, 1.0]))
    ...     _ = score.vector.fill_(-1.25)                                          # −|q − k|
    >>> nodes = torch.tensor([[[[0.0], [1.0], [5.0]]]])
    >>> score(nodes, nodes)[0, 0].abs().tolist()
    [[0.0, 1.0, 5.0], [1.0, 0.0, 4.0], [5.0, 4.0, 0.0]]

    Reference: Brody et al. 2022, equation 7.
    """

    def __init__(
        self, *, query_dim: int, key_dim: int, hidden_dim: int, num_heads: int = 1, slope: float = 0.2
    ) -> None:
        super().__init__()
        require_whole(query_dim=query_dim, key_dim=key_dim, hidden_dim=hidden_dim, num_heads=num_heads)
        self.query_weight = nn.Parameter(torch.empty(num_heads, query_dim, hidden_dim))
        self.key_weight = nn.Parameter(torch.empty(num_heads, key_dim, hidden_dim))
        self.vector = nn.Parameter(torch.empty(num_heads, hidden_dim))
        self.slope = slope
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
        return "aᵀ LeakyReLU(W q + U k)"

    def onnx(self, graph: Graph, x: str, *, side: Side) -> str:
        return graph.op("MatMul", x, graph.weight(self.query_weight if side == "query" else self.key_weight))

    def extra_repr(self) -> str:
        num_heads, query_dim, hidden_dim = self.query_weight.shape
        key_dim = self.key_weight.shape[1]
        return f"query_dim={query_dim}, key_dim={key_dim}, hidden_dim={hidden_dim}, num_heads={num_heads}"


@dataclass(frozen=True, kw_only=True)
class GatConfig:
    """LeakyReLU(a_q · q + a_k · k) (Veličković et al. 2018)."""

    slope: float = 0.2

    def build(self, *, query_dim: int, key_dim: int, num_heads: int = 1) -> GATScore:
        if query_dim != key_dim:
            raise ValueError(
                f"GAT scores nodes of one kind: query_dim={query_dim} and key_dim={key_dim} must be equal. "
                'Choose equal widths, or the score "gat_v2", which projects each side for itself.'
            )
        return GATScore(dim=query_dim, num_heads=num_heads, slope=self.slope)


@dataclass(frozen=True, kw_only=True)
class GatV2Config:
    """aᵀ LeakyReLU(W_q q + W_k k) (Brody et al. 2022); `hidden_dim` defaults to the query's width."""

    hidden_dim: int | None = None
    slope: float = 0.2

    def __post_init__(self) -> None:
        require_hidden(self.hidden_dim)

    def build(self, *, query_dim: int, key_dim: int, num_heads: int = 1) -> GATv2Score:
        hidden = self.hidden_dim or query_dim
        return GATv2Score(
            query_dim=query_dim, key_dim=key_dim, hidden_dim=hidden, num_heads=num_heads, slope=self.slope
        )
