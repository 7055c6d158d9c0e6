"""A Transformer over the nodes of whole graphs: all pairs are visible, and edges and distances are a bias."""

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn

from foveate.attention import Attention, AttentionConfig, Positions, Visibility, padding
from foveate.attention.check import require_positive
from foveate.attention.score import is_placed
from foveate.config.field import setting
from foveate.data.graph_batch import GraphBatch
from foveate.data.graph_place import APART, FARTHEST, GraphPlaceConfig, RandomWalkConfig
from foveate.data.whole_graph import WholeGraphBatch
from foveate.nn.dropout import dropout
from foveate.nn.linear_layer import Linear
from foveate.nn.packing import Packing
from foveate.nn.transformer_block import BlockConfig, EncoderBlock


@dataclass(frozen=True, kw_only=True)
class GraphTransformerConfig:
    """Transformer blocks over the nodes of a graph. `reach = 1` is message passing along edges, as in GAT."""

    kind: ClassVar[str] = "graph_transformer"
    block: BlockConfig = BlockConfig(
        model_dim=96, num_heads=8, feedforward_dim=192, norm="pre", activation="gelu", dropout=0.1
    )
    """`block.encoder_attention` configures the attention, such as its score."""
    num_layers: int = 4
    reach: int | None = setting(None, "edges across which a node sees others; 1: its neighbours; none: the whole graph")
    max_distance: int = setting(
        8, "distances up to this one have a learned number for each head; larger ones share that of the largest"
    )
    place: GraphPlaceConfig | None = setting(
        RandomWalkConfig(), "what a node knows about its place: random_walk, laplacian; none: only distances"
    )

    def __post_init__(self) -> None:
        require_positive(num_layers=self.num_layers, max_distance=self.max_distance)
        if self.reach is not None:
            require_positive(reach=self.reach)
            if self.reach >= FARTHEST:  # which stands for longer ways, too
                raise ValueError(f"reach must be less than {FARTHEST}, or none for the whole graph, got {self.reach}")
        if self.max_distance >= APART:
            raise ValueError(f"max_distance must be less than {APART}, got {self.max_distance}")
        attention = self.block.encoder_attention
        if not isinstance(attention, AttentionConfig) or attention.bias is not None or attention.transforms:
            raise ValueError(
                "block.encoder_attention must be of the kind attention, without a bias and transforms: edges and "
                "distances are the bias, and nodes have no places in a row"
            )
        if is_placed(attention.score) or attention.visibility.reads_query_position:
            raise ValueError(
                "block.encoder_attention has a score or a rule that reads places in a row, but nodes have none. "
                "Choose a score such as scaled_dot, additive or gat_v2, and set reach to hide nodes"
            )

    def build(self, width: int, output_dim: int, *, edge_dim: int = 0) -> "GraphTransformer":
        """The model for nodes with `width` features and edges with `edge_dim`."""
        return GraphTransformer(self, width, output_dim, edge_dim)


class GraphTransformer(nn.Module):
    """x_i⁰ = W_a a_i + Σ_j W_e e_ij + W_p p_i;  xˡ = Block_l(xˡ⁻¹);  h = W LayerNorm(x^L)

    a_i are the features of a node, e_ij those of its edges, p_i its place. The score of a pair has a bias u · f_ij,
    with a u for each layer and head; f_ij tells the distance, and has e_ij on edges. With `reach`, a node sees those up
    to so many edges away.

    Reference: Ying et al. 2021, "Do Transformers Really Perform Badly for Graph Representation?", equation 6, for the
    bias by distance; Dwivedi and Bresson 2021 for places. Features of edges are summed into their nodes.
    """

    blocks: nn.ModuleList

    def __init__(self, config: GraphTransformerConfig, width: int, output_dim: int, edge_dim: int = 0) -> None:
        super().__init__()
        self.config, model_dim = config, config.block.model_dim
        self.node = Linear(width, model_dim)
        self.edge = Linear(edge_dim, model_dim, bias=False) if edge_dim else None
        self.place = None if config.place is None else Linear(config.place.width, model_dim, bias=False)
        self.pair = Linear(config.max_distance + 2 + edge_dim, config.num_layers * config.block.num_heads, bias=False)
        nn.init.zeros_(self.pair.weight)
        self.blocks = nn.ModuleList(GraphBlock(config.block) for _ in range(config.num_layers))
        self.norm: nn.Module = nn.LayerNorm(model_dim) if config.block.norm == "pre" else nn.Identity()
        self.output = Linear(model_dim, output_dim)

    def forward(self, batch: GraphBatch) -> Float[Tensor, "nodes output_dim"]:
        """Raises ValueError for a batch without distances, or without the places that the model reads."""
        if not isinstance(batch, WholeGraphBatch) or batch.distances is None:
            raise ValueError(
                "A graph Transformer reads the distances of nodes, which this batch lacks. Make it with "
                "WholeGraphBatch.of_placed([PlacedGraph(graph, config.place)])."
            )
        assert isinstance(batch.features, Tensor)
        x = self.node(batch.features)
        if self.edge is not None:
            x = x.index_add(0, batch.edges[1], self.edge(batch.edge_features))
        if self.place is not None:
            if batch.places is None:
                raise ValueError(f"This model reads places by {self.config.place}. Give them to PlacedGraph.")
            x = x + self.place(batch.places)
        x = dropout(x, self.config.block.dropout, self.training)
        packing, away = batch.packing, batch.distances
        at = Positions.of(packing.length, packing.length, key_lengths=packing.lengths)
        reach = self.config.reach
        rule = padding() if reach is None else padding() & Within(away, reach)
        biases = self.pair(self._pairs(batch)).permute(0, 3, 1, 2).chunk(len(self.blocks), dim=1)
        for block, bias in zip(cast(Any, self.blocks), biases, strict=True):
            x = block.attend(x, at=at, packing=packing, rule=rule, bias=PairBias(bias))
        return cast(Tensor, self.output(self.norm(x)))

    def _pairs(self, batch: WholeGraphBatch) -> Float[Tensor, "graphs longest longest pair_dim"]:
        """f_ij: a number 1 at the distance from j to i, the last one for nodes without a way, and e_ij."""
        away, most = cast(Tensor, batch.distances), self.config.max_distance
        kind = away.clamp(max=most).masked_fill(away == APART, most + 1)
        pairs = torch.nn.functional.one_hot(kind, most + 2).to(self.pair.weight.dtype)
        if self.edge is None or batch.edge_features is None:
            return pairs
        source, target = batch.edges
        graph, starts = batch.graph[target], batch.packing.starts
        between = pairs.new_zeros(*away.shape, self.edge.in_features)
        between[graph, target - starts[graph], source - starts[graph]] = batch.edge_features
        return torch.cat([pairs, between], dim=-1)


class GraphBlock(EncoderBlock):
    """Self-attention with a bias on pairs of nodes, then a feed-forward network."""

    def attend(
        self,
        x: Float[Tensor, "nodes model_dim"],
        *,
        at: Positions,
        packing: Packing,
        rule: Visibility,
        bias: "PairBias",
    ) -> Float[Tensor, "nodes model_dim"]:
        """The block under a rule and with a bias, which change with the graphs."""
        heads = self.attention
        assert isinstance(heads.attention, Attention)
        attention = heads.attention.over(rule & heads.attention.visibility, bias=bias)

        def context(x: Tensor) -> Tensor:
            query, (key, value) = heads.project(x, packing=packing)
            rate = heads.dropout if self.training else 0.0
            joined = attention.run(query, key, value, at=at, dropout=rate).transpose(1, 2).flatten(-2)
            return cast(Tensor, heads.output(packing.pack(joined)))

        return self.feedforward_residual(self.attention_residual(x, context), self.feedforward)


@dataclass(frozen=True, eq=False, repr=False)
class Within(Visibility):
    """A node sees those from which a way of at most so many edges leads to it.

    >>> from foveate.data.graph_place import distances
    >>> import numpy as np
    >>> from foveate.data.graph import Graph
    >>> path = Graph(features=np.ones((3, 1)), edges=np.array([[0, 1], [1, 2]]))
    >>> print(Within(torch.from_numpy(distances(path))[None], 1).picture(3, 3))
    # # .
    # # #
    . # #
    """

    distances: Integer[Tensor, "graphs longest longest"]
    edges: int

    def __call__(self, at: Positions) -> Bool[Tensor, "batch 1 query key"]:
        return _of_pairs(self.distances[:, None] <= self.edges, at)

    def __repr__(self) -> str:
        return f"within({self.edges} edges)"


@dataclass(frozen=True, eq=False)
class PairBias:
    """A number for each pair of nodes of each graph, and for each head."""

    by_pair: ClassVar[bool] = True
    symbol: ClassVar[str] = "u·f"
    values: Float[Tensor, "graphs heads longest longest"]

    def __call__(self, at: Positions) -> Float[Tensor, "batch heads query key"]:
        return _of_pairs(self.values, at)


def _of_pairs(values: Tensor, at: Positions) -> Tensor:
    """The part of a square of pairs for some queries and keys."""
    query, key = at.query.flatten(), at.key.flatten()
    if len(query) < values.shape[2]:
        values = values[:, :, query]
    return values if len(key) == values.shape[3] else values[..., key]
