"""Models over the nodes of graphs: attention along edges (GAT, GATv2 and others), graph convolutions, and no edges."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import elu

from foveate.attention import GatConfig, ScoreConfig
from foveate.attention.check import require_positive, require_rates
from foveate.config.field import setting
from foveate.data.graph_batch import GraphBatch
from foveate.nn.graph_layer import GraphAttention, GraphConvolution, drop_features
from foveate.nn.linear_layer import Linear
from foveate.nn.sparse_vector import SparseVectors


@dataclass(frozen=True, kw_only=True)
class GraphAttentionConfig:
    """Attention along edges. The defaults are those of Veličković et al. 2018, section 3.3, for citations."""

    score: ScoreConfig = setting(GatConfig(), "gat, gat_v2, additive, scaled_dot …")
    num_layers: int = 2
    num_heads: int = setting(8, "of all layers but the last, which are joined one after the other")
    head_dim: int = 8
    output_heads: int = setting(1, "of the last layer, which are averaged")
    dropout: float = setting(0.6, "on the input of each layer")
    attention_dropout: float = setting(0.6, "on the weights")
    self_loops: bool = setting(True, "whether a node also sees itself")

    def __post_init__(self) -> None:
        require_positive(
            num_layers=self.num_layers,
            num_heads=self.num_heads,
            head_dim=self.head_dim,
            output_heads=self.output_heads,
        )
        require_rates(dropout=self.dropout, attention_dropout=self.attention_dropout)

    def build(self, width: int, output_dim: int, *, edge_dim: int = 0) -> "GraphAttentionEncoder":
        """The model for nodes with `width` features and edges with `edge_dim`."""
        return GraphAttentionEncoder(self, width, output_dim, edge_dim)


@dataclass(frozen=True, kw_only=True)
class _BaselineConfig:
    num_layers: int = 2
    hidden_dim: int = 16
    dropout: float = setting(0.5, "on the input of each layer")

    def __post_init__(self) -> None:
        require_positive(num_layers=self.num_layers, hidden_dim=self.hidden_dim)
        require_rates(dropout=self.dropout)


@dataclass(frozen=True, kw_only=True)
class GraphConvolutionConfig(_BaselineConfig):
    """Graph convolutions. The defaults are those of Kipf and Welling 2017, section 5.2."""

    def build(self, width: int, output_dim: int, *, edge_dim: int = 0) -> "GraphConvolutionEncoder":
        """The model for nodes with `width` features. It does not read features of edges."""
        return GraphConvolutionEncoder(self, width, output_dim)


@dataclass(frozen=True, kw_only=True)
class NodeMLPConfig(_BaselineConfig):
    """A perceptron for each node by itself, the baseline that does not know the edges."""

    def build(self, width: int, output_dim: int, *, edge_dim: int = 0) -> "NodeMLP":
        """The model for nodes with `width` features. It does not read edges."""
        return NodeMLP(self, width, output_dim)


GraphEncoderConfig = GraphAttentionConfig | GraphConvolutionConfig | NodeMLPConfig
"""The models over nodes that a configuration can name."""


class GraphAttentionEncoder(nn.Module):
    """h^{l+1} = ELU(attention over neighbours of h^l); the last layer averages its heads, without an activation

    With the score `gat` it is the GAT of Veličković et al. 2018, with `gat_v2` that of Brody et al. 2022. `record`
    shows the weights of the edges.

    >>> import numpy as np
    >>> from foveate.data.graph import Graph
    >>> graph = Graph(features=np.eye(3, dtype=np.float32), edges=np.array([[0, 1], [1, 2]]))
    >>> GraphAttentionConfig().build(3, output_dim=2)(GraphBatch.of([graph])).shape
    torch.Size([3, 2])
    """

    def __init__(self, config: GraphAttentionConfig, width: int, output_dim: int, edge_dim: int = 0) -> None:
        super().__init__()
        self.dropout = config.dropout
        widths = [width] + [config.num_heads * config.head_dim] * (config.num_layers - 1)
        last = config.num_layers - 1
        self.layers = nn.ModuleList(
            GraphAttention(
                input_dim=input_dim,
                head_dim=output_dim if number == last else config.head_dim,
                num_heads=config.output_heads if number == last else config.num_heads,
                score=config.score,
                join="mean" if number == last else "concat",
                dropout=config.attention_dropout,
                self_loops=config.self_loops,
                edge_dim=edge_dim,
            )
            for number, input_dim in enumerate(widths)
        )

    def forward(self, batch: GraphBatch) -> Float[Tensor, "nodes output_dim"]:
        x: Tensor | SparseVectors = batch.features
        for number, layer in enumerate(self.layers):
            hidden: Tensor = layer(drop_features(x, self.dropout, self.training), batch.neighbourhood)
            x = elu(hidden) if number + 1 < len(self.layers) else hidden
        assert isinstance(x, Tensor)
        return x


class GraphConvolutionEncoder(nn.Module):
    """h^{l+1} = ReLU(D^{−1/2} (A + I) D^{−1/2} h^l W^l + b^l), without an activation after the last layer

    Reference: Kipf and Welling 2017, equations 2 and 9.
    """

    def __init__(self, config: GraphConvolutionConfig, width: int, output_dim: int) -> None:
        super().__init__()
        self.dropout = config.dropout
        widths = [width, *[config.hidden_dim] * (config.num_layers - 1), output_dim]
        self.layers = nn.ModuleList(map(GraphConvolution, widths, widths[1:]))

    def forward(self, batch: GraphBatch) -> Float[Tensor, "nodes output_dim"]:
        x: Tensor | SparseVectors = batch.features
        for number, layer in enumerate(self.layers):
            hidden: Tensor = layer(drop_features(x, self.dropout, self.training), batch.neighbourhood)
            x = hidden.relu() if number + 1 < len(self.layers) else hidden
        assert isinstance(x, Tensor)
        return x


class NodeMLP(nn.Module):
    """h^{l+1} = ReLU(W^l h^l + b^l), without an activation after the last layer"""

    def __init__(self, config: NodeMLPConfig, width: int, output_dim: int) -> None:
        super().__init__()
        self.dropout = config.dropout
        widths = [width, *[config.hidden_dim] * (config.num_layers - 1), output_dim]
        layers = list(map(Linear, widths, widths[1:]))
        self.layers = nn.ModuleList(layers)
        for layer in layers:
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, batch: GraphBatch) -> Float[Tensor, "nodes output_dim"]:
        x: Tensor | SparseVectors = batch.features
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, Linear)
            x = drop_features(x, self.dropout, self.training)
            hidden = x.times(layer.weight.T.contiguous()) + layer.bias if isinstance(x, SparseVectors) else layer(x)
            x = hidden.relu() if number + 1 < len(self.layers) else hidden
        assert isinstance(x, Tensor)
        return x
