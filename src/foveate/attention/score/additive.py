"""Small networks over query and key: the score of the first attention, and those of graph attention networks."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from foveate.attention.check import require_hidden, require_one_width, require_whole
from foveate.attention.onnx import Graph, Side
from foveate.attention.score.form import PairNetwork, PairScore, project, require_made_for, uniform


class _JoinedScore(PairScore):
    """vᵀ act(W_q q + W_k k), with queries and keys of one width or two."""

    def __init__(self, *, query_dim: int, key_dim: int, hidden_dim: int, num_heads: int = 1) -> None:
        super().__init__()
        require_whole(query_dim=query_dim, key_dim=key_dim, hidden_dim=hidden_dim, num_heads=num_heads)
        self.query_weight = uniform(num_heads, query_dim, hidden_dim, fan_in=query_dim)
        self.key_weight = uniform(num_heads, key_dim, hidden_dim, fan_in=key_dim)
        self.vector = uniform(num_heads, hidden_dim, fan_in=hidden_dim)

    def query_features(self, query: Tensor) -> Tensor:
        return project(query, self.query_weight)

    def key_features(self, key: Tensor) -> Tensor:
        return project(key, self.key_weight)

    def symbol(self, head_dim: int) -> str:
        return "vᵀ tanh(W q + U k)" if self.slope is None else "aᵀ LeakyReLU(W q + U k)"

    def onnx(self, graph: Graph, x: str, *, side: Side) -> str:
        return graph.op("MatMul", x, graph.weight(self.query_weight if side == "query" else self.key_weight))

    def extra_repr(self) -> str:
        num_heads, query_dim, hidden_dim = self.query_weight.shape
        key_dim = self.key_weight.shape[1]
        return f"query_dim={query_dim}, key_dim={key_dim}, hidden_dim={hidden_dim}, num_heads={num_heads}"


class Additive(_JoinedScore):
    """score(q, k) = vᵀ tanh(W_q q + W_k k)

    Bahdanau et al. 2015, appendix A.1.2; Luong's "concat". The slides write W[q; k]; splitting W by columns gives
    the same numbers and lets the keys be projected once per sentence. Queries and keys may have different widths.

    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> score = Additive(query_dim=2, key_dim=3, hidden_dim=4)
    >>> q, k = torch.randn(1, 1, 1, 2), torch.randn(1, 1, 1, 3)
    >>> joined = torch.cat([score.query_weight, score.key_weight], dim=-2)          # the slides' W
    >>> by_slide = torch.tanh(torch.cat([q, k], -1) @ joined) @ score.vector[0]
    >>> torch.allclose(score(q, k).flatten(), by_slide.flatten())
    True
    """


class GATv2Score(_JoinedScore):
    """score(q_i, k_j) = aᵀ LeakyReLU(W_q q_i + W_k k_j)

    Bahdanau's score with LeakyReLU in place of tanh: the best neighbour depends on the query. The paper's single matrix
    over [h_i ‖ h_j] is split in two. Each node scores the node most like itself highest, which `GATScore` cannot do:
    there all nodes rank their neighbours alike.

    >>> import torch
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
        super().__init__(query_dim=query_dim, key_dim=key_dim, hidden_dim=hidden_dim, num_heads=num_heads)
        self.slope = slope


class LeakySum(PairScore):
    """score(q_i, k_j) = aᵀ LeakyReLU(q_i + k_j)

    `GATv2Score` where the projections before the attention are W_q and W_k, so that values may share W_k.

    >>> import torch
    >>> score = LeakySum(dim=2)
    >>> _ = torch.nn.init.ones_(score.vector)
    >>> score(torch.tensor([[[[1.0, -2.0]]]]), torch.tensor([[[[1.0, 1.0]]]])).item()
    1.7...

    Reference: Brody et al. 2022, equation 7.
    """

    def __init__(self, *, dim: int, num_heads: int = 1, slope: float = 0.2) -> None:
        super().__init__()
        require_whole(dim=dim, num_heads=num_heads)
        self.vector = uniform(num_heads, dim, fan_in=dim)
        self.slope = slope

    def symbol(self, head_dim: int) -> str:
        return "aᵀ LeakyReLU(q + k)"

    def onnx(self, graph: Graph, x: str, *, side: Side) -> str:
        return x

    def extra_repr(self) -> str:
        num_heads, dim = self.vector.shape
        return f"dim={dim}, num_heads={num_heads}, slope={self.slope:g}"


class GATScore(PairScore):
    """score(q_i, k_j) = LeakyReLU(a_q · q_i + a_k · k_j)

    The paper writes aᵀ[W h_i ‖ W h_j]; here W is the projection before the attention, and a is split in two, so that
    each node is reduced to a number before edges are scored. All nodes rank their neighbours alike: with `a_q` at 9,
    the second key stays the best.

    >>> import torch
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
        self.query_vector = uniform(num_heads, dim, 1, fan_in=dim)
        self.key_vector = uniform(num_heads, dim, 1, fan_in=dim)
        self.slope = slope

    def query_features(self, query: Tensor) -> Tensor:
        return _reduced(query, self.query_vector)

    def key_features(self, key: Tensor) -> Tensor:
        return _reduced(key, self.key_vector)

    def form(self) -> PairNetwork:
        return PairNetwork(self.query_features, self.key_features, slope=self.slope)

    def symbol(self, head_dim: int) -> str:
        return "LeakyReLU(a·q + b·k)"

    def onnx(self, graph: Graph, x: str, *, side: Side) -> str:
        return graph.op("MatMul", x, graph.weight(self.query_vector if side == "query" else self.key_vector))

    def extra_repr(self) -> str:
        num_heads, dim, _ = self.query_vector.shape
        return f"dim={dim}, num_heads={num_heads}, slope={self.slope:g}"


def _reduced(x: Tensor, vector: Float[Tensor, "#heads dim 1"]) -> Float[Tensor, "batch heads length 1"]:
    """x · a with a vector per head, which takes half the time of a product of matrices with one column."""
    require_made_for(x, vector)
    return torch.einsum("bhnd,hd->bhn", x, vector[..., 0].expand(x.shape[1], -1))[..., None]


@dataclass(frozen=True, kw_only=True)
class AdditiveConfig:
    """vᵀ tanh(W_q q + W_k k) (Bahdanau et al. 2015); `hidden_dim` defaults to the query's width."""

    hidden_dim: int | None = None

    def __post_init__(self) -> None:
        require_hidden(self.hidden_dim)

    def build(self, *, query_dim: int, key_dim: int, num_heads: int = 1) -> Additive:
        hidden_dim = self.hidden_dim or query_dim
        return Additive(query_dim=query_dim, key_dim=key_dim, hidden_dim=hidden_dim, num_heads=num_heads)


@dataclass(frozen=True, kw_only=True)
class GatConfig:
    """LeakyReLU(a_q · q + a_k · k) (Veličković et al. 2018)."""

    slope: float = 0.2

    def build(self, *, query_dim: int, key_dim: int, num_heads: int = 1) -> GATScore:
        require_one_width("GAT", query_dim, key_dim, 'the score "gat_v2", which projects each side for itself')
        return GATScore(dim=query_dim, num_heads=num_heads, slope=self.slope)


@dataclass(frozen=True, kw_only=True)
class GatV2Config:
    """aᵀ LeakyReLU(W_q q + W_k k) (Brody et al. 2022); `hidden_dim` defaults to the query's width."""

    hidden_dim: int | None = None
    slope: float = 0.2

    def __post_init__(self) -> None:
        require_hidden(self.hidden_dim)

    def build(self, *, query_dim: int, key_dim: int, num_heads: int = 1) -> GATv2Score:
        sizes = {"query_dim": query_dim, "key_dim": key_dim, "num_heads": num_heads}
        return GATv2Score(**sizes, hidden_dim=self.hidden_dim or query_dim, slope=self.slope)
