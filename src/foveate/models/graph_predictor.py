"""A predictor of properties of whole graphs: an encoder of nodes, a read-out, an output layer."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.attention.check import require_positive, require_rates
from foveate.config.field import setting
from foveate.data.graph_place import GraphPlaceConfig
from foveate.data.whole_graph import WholeGraphBatch
from foveate.models.graph_encoder import GraphAttentionConfig, GraphConvolutionConfig, NodeMLPConfig
from foveate.models.graph_transformer import GraphTransformerConfig
from foveate.nn.dropout import dropout
from foveate.nn.linear_layer import Linear
from foveate.nn.readout import AttentionReadoutConfig, ReadoutConfig

WholeGraphEncoderConfig = GraphTransformerConfig | GraphAttentionConfig | GraphConvolutionConfig | NodeMLPConfig
"""The encoders of whole graphs that a configuration can name."""


@dataclass(frozen=True, kw_only=True)
class GraphPredictorConfig:
    """An encoder of nodes, and the read-out of their vectors."""

    encoder: WholeGraphEncoderConfig = GraphTransformerConfig()
    readout: ReadoutConfig = setting(AttentionReadoutConfig(), "attention, sum or mean")
    hidden_dim: int = setting(96, "of the vectors of nodes that are read out, and of the hidden layer behind them")
    dropout: float = setting(0.1, "on the vectors of nodes, and on the hidden layer")

    def __post_init__(self) -> None:
        require_positive(hidden_dim=self.hidden_dim)
        require_rates(dropout=self.dropout)

    @property
    def place(self) -> GraphPlaceConfig | None:
        """The places of nodes that the encoder reads."""
        return self.encoder.place if isinstance(self.encoder, GraphTransformerConfig) else None

    def build(self, width: int, outputs: int, *, edge_dim: int = 0, graph_dim: int = 0) -> "GraphPredictor":
        """The model for nodes with `width` features, edges with `edge_dim`, graphs with `graph_dim`, and so many
        properties.
        """
        return GraphPredictor(self, width, outputs, edge_dim, graph_dim)


class GraphPredictor(nn.Module):
    """y = W_2 ReLU(W_1 g + b_1) + b_2,  g = readout(h_1 … h_n),  h = encoder(graph)

    With the attention read-out, `record` shows how much of the answer each node is. If the whole graph has features d,
    LayerNorm(g) ‖ ReLU(W_d d + b_d) takes the place of g; without the norm, a sum over nodes would outweigh them.

    Reference: Yang et al. 2019, section 3.4, for features of whole molecules beside the read-out.
    """

    def __init__(
        self, config: GraphPredictorConfig, width: int, outputs: int, edge_dim: int = 0, graph_dim: int = 0
    ) -> None:
        super().__init__()
        self.dropout = config.dropout
        self.encoder: nn.Module = config.encoder.build(width, config.hidden_dim, edge_dim=edge_dim)
        self.readout: nn.Module = config.readout.build(config.hidden_dim)
        read = config.readout.width(config.hidden_dim)
        self.norm = nn.LayerNorm(read) if graph_dim else None
        self.graph = Linear(graph_dim, config.hidden_dim) if graph_dim else None
        self.hidden = Linear(read + (config.hidden_dim if graph_dim else 0), config.hidden_dim)
        self.output = Linear(config.hidden_dim, outputs)

    def forward(self, batch: WholeGraphBatch) -> Float[Tensor, "graphs outputs"]:
        """Raises ValueError for a batch without the features of graphs that the model reads."""
        nodes = dropout(self.encoder(batch), self.dropout, self.training)
        graphs = self.readout(nodes, packing=batch.packing)
        if self.graph is not None and self.norm is not None:
            if batch.graph_features is None:
                raise ValueError("This model reads features of whole graphs. Give them to PlacedGraph.")
            features = dropout(self.graph(batch.graph_features).relu(), self.dropout, self.training)
            graphs = torch.cat([self.norm(graphs), features], dim=1)
        hidden = self.hidden(graphs).relu()
        return self.output(dropout(hidden, self.dropout, self.training))

    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())
