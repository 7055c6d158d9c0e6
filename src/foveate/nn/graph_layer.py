"""Layers over the nodes of a graph: attention along its edges, and the mean over neighbours."""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.attention import Attention, Positions
from foveate.attention.check import require_choice, require_rates, require_whole
from foveate.attention.score import GATScore, PlacedScore, Score, ScoreConfig, is_placed
from foveate.attention.score.additive import GatConfig, GatV2Config, LeakySum
from foveate.nn.dropout import dropout
from foveate.nn.linear_layer import Linear
from foveate.nn.neighbourhood import Neighbourhood
from foveate.nn.sparse_vector import SparseVectors

Join = Literal["concat", "mean"]
"""The way in which heads become one vector: one after the other, or their mean."""


class GraphAttention(nn.Module):
    """x'_i = ‖_h Σ_j α_ij W_v x_j + b, over the nodes j with an edge to i; in the last layer the mean over heads h

    α_ij = softmax_j score(W_q x_i, W_k x_j) over the same edges, with dropout. The score decides the projections:

    * GAT (Veličković et al. 2018, equations 1 to 6): one projection W = W_q = W_k = W_v.
    * GATv2 (Brody et al. 2022, equation 7): W_q, and W_k = W_v, with biases as in the authors' program.
    * any other score: three projections.

    Features of edges become a bias: a number for each head, u_h · f_ij, is added to the score. Edges without features,
    such as the self-loops that the layer adds, have the bias 0.

    >>> from foveate.attention.score.additive import GatConfig
    >>> layer = GraphAttention(input_dim=5, head_dim=4, num_heads=2, score=GatConfig())
    >>> path = Neighbourhood(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    >>> layer(torch.randn(3, 5), path).shape
    torch.Size([3, 8])
    """

    def __init__(
        self,
        *,
        input_dim: int,
        head_dim: int,
        num_heads: int,
        score: ScoreConfig,
        join: Join = "concat",
        dropout: float = 0.0,
        self_loops: bool = True,
        edge_dim: int = 0,
    ) -> None:
        super().__init__()
        require_whole(input_dim=input_dim, head_dim=head_dim, num_heads=num_heads)
        require_whole(0, edge_dim=edge_dim)
        require_rates(dropout=dropout)
        require_choice("join", join, ("concat", "mean"))
        self.num_heads, self.head_dim, self.join = num_heads, head_dim, join
        self.dropout, self.self_loops = dropout, self_loops
        width, second = num_heads * head_dim, isinstance(score, GatV2Config)
        self.value = Linear(input_dim, width, bias=second)
        self.key = self.value if isinstance(score, GatConfig | GatV2Config) else Linear(input_dim, width, bias=False)
        self.query = self.value if isinstance(score, GatConfig) else Linear(input_dim, width, bias=second)
        self.attention = Attention(_score(score, head_dim, num_heads))
        self.edge = Linear(edge_dim, num_heads, bias=False) if edge_dim else None
        self.bias = nn.Parameter(torch.zeros(width if join == "concat" else head_dim))
        for projection in {self.query, self.key, self.value}:
            nn.init.xavier_uniform_(projection.weight)
            if projection.bias is not None:
                nn.init.zeros_(projection.bias)

    @property
    def output_dim(self) -> int:
        return len(self.bias)

    def forward(
        self, x: Float[Tensor, "nodes input_dim"] | SparseVectors, neighbourhood: Neighbourhood
    ) -> Float[Tensor, "nodes output_dim"]:
        query = self._heads(x, self.query)
        key = query if self.key is self.query else self._heads(x, self.key)
        value = key if self.value is self.key else self._heads(x, self.value)
        rule = neighbourhood.rule(self_loops=self.self_loops)
        attention = self.attention.over(rule, bias=self.edge_bias(neighbourhood))
        rate = self.dropout if self.training else 0.0
        context = attention.run(query, key, value, at=neighbourhood.at, dropout=rate)[0].transpose(0, 1)
        joined = context.flatten(1) if self.join == "concat" else context.mean(1)
        return joined + self.bias

    def _heads(self, x: Tensor | SparseVectors, projection: Linear) -> Float[Tensor, "1 heads nodes head_dim"]:
        if isinstance(x, SparseVectors):
            projected = x.times(projection.weight.T.contiguous())
            projected = projected if projection.bias is None else projected + projection.bias
        else:
            projected = projection(x)
        return projected.view(1, len(projected), self.num_heads, self.head_dim).transpose(1, 2)

    def edge_bias(self, neighbourhood: Neighbourhood) -> "EdgeBias | None":
        """The bias of edges by their features; None for a layer without. Raises ValueError for missing features."""
        if self.edge is None:
            return None
        if neighbourhood.features is None:
            raise ValueError(
                f"This layer was built for edges with {self.edge.in_features} features, but the graph's edges have "
                "none. Build it with edge_dim=0, or give the edges features."
            )
        return EdgeBias(neighbourhood.edges, self.edge(neighbourhood.features), neighbourhood.num_nodes)


class EdgeBias:
    """bias_ij = b_e for the edge e from node j to node i, and 0 where there is no edge

    >>> bias = EdgeBias(torch.tensor([[0], [1]]), torch.tensor([[2.5]]), num_nodes=2)
    >>> bias(Positions.of(2, 2))[0, 0].tolist()
    [[0.0, 0.0], [2.5, 0.0]]
    """

    by_pair = True

    def __init__(self, edges: Int[Tensor, "2 edges"], numbers: Float[Tensor, "edges heads"], num_nodes: int) -> None:
        code, order = (edges[1] * num_nodes + edges[0]).sort()
        self._codes, self._nodes = torch.cat([code, code.new_full((1,), num_nodes**2)]), num_nodes
        self._numbers = torch.cat([numbers[order], numbers.new_zeros(1, numbers.shape[1])])

    def __call__(self, at: Positions) -> Float[Tensor, "#batch heads query key"]:
        code = at.query * self._nodes + at.key
        place = torch.searchsorted(self._codes, code[:, 0])
        place = torch.where(self._codes[place] == code[:, 0], place, len(self._codes) - 1)
        return self._numbers[place].permute(0, 3, 1, 2)


class GraphConvolution(nn.Module):
    """x'_i = Σ_j W x_j / √(d_i d_j) + b, over the neighbours j of i and i itself; d is the number of edges into a node

    Reference: Kipf and Welling 2017, equation 2.

    >>> layer = GraphConvolution(2, 3)
    >>> layer(torch.ones(4, 2), Neighbourhood(torch.tensor([[0, 1], [1, 0]]), num_nodes=4)).shape
    torch.Size([4, 3])
    """

    def __init__(self, input_dim: int, output_dim: int) -> None:
        super().__init__()
        self.project = Linear(input_dim, output_dim, bias=False)
        nn.init.xavier_uniform_(self.project.weight)
        self.bias = nn.Parameter(torch.zeros(output_dim))

    def forward(
        self, x: Float[Tensor, "nodes input_dim"] | SparseVectors, neighbourhood: Neighbourhood
    ) -> Float[Tensor, "nodes output_dim"]:
        projected = x.times(self.project.weight.T) if isinstance(x, SparseVectors) else self.project(x)
        (source, target), weights = neighbourhood.normalised
        # Sums over a node's edges, both ways: half precision would lose the small ones.
        precise = projected.to(torch.promote_types(projected.dtype, torch.float32))
        messages = precise[source] * weights[:, None].to(precise.dtype)
        return torch.zeros_like(precise).index_add(0, target, messages).to(projected.dtype) + self.bias


def drop_features(
    x: Float[Tensor, "nodes width"] | SparseVectors, rate: float, training: bool
) -> Float[Tensor, "nodes width"] | SparseVectors:
    """Dropout on features, dense or sparse."""
    return x.dropped(rate, training) if isinstance(x, SparseVectors) else dropout(x, rate, training)


def _score(config: ScoreConfig, head_dim: int, num_heads: int) -> Score | PlacedScore:
    """The score, with initial vectors as published (Glorot and Bengio 2010)."""
    vectors: list[Tensor]
    score: Score
    if isinstance(config, GatConfig):
        score = static = GATScore(dim=head_dim, num_heads=num_heads, slope=config.slope)
        vectors = [static.query_vector, static.key_vector]
    elif isinstance(config, GatV2Config):
        if config.hidden_dim not in (None, head_dim):
            raise ValueError(
                f"the score gat_v2 of a graph layer is as wide as its heads, {head_dim}, and hidden_dim is "
                f"{config.hidden_dim}. Leave hidden_dim out."
            )
        score = dynamic = LeakySum(dim=head_dim, num_heads=num_heads, slope=config.slope)
        vectors = [dynamic.vector]
    else:
        other = config.build(query_dim=head_dim, key_dim=head_dim, num_heads=num_heads)
        if is_placed(other):
            raise ValueError(
                f"{type(other).__name__} depends on places in a sequence, but nodes have none. Choose another score, "
                "such as gat, gat_v2, additive or scaled_dot."
            )
        return other
    bound = (6 / (head_dim + 1)) ** 0.5
    for vector in vectors:
        nn.init.uniform_(vector, -bound, bound)
    return score
