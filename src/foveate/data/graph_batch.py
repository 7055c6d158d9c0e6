"""Graphs as tensors: several graphs become one, without edges between them."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.data.graph import UNLABELLED, Graph
from foveate.data.sparse_row import SparseRows
from foveate.nn.neighbourhood import Neighbourhood
from foveate.nn.sparse_vector import SparseVectors


@dataclass(frozen=True, eq=False)
class GraphBatch:
    """The nodes of one or several graphs, and the pairs along which they look.

    >>> one = Graph(features=np.ones((2, 3), np.float32), edges=np.array([[0], [1]]))
    >>> batch = GraphBatch.of([one, one])
    >>> batch.edges.tolist(), batch.graph.tolist()
    ([[1, 0, 3, 2], [0, 1, 2, 3]], [0, 0, 1, 1])
    """

    features: Float[Tensor, "nodes width"] | SparseVectors
    edges: Int[Tensor, "2 edges"]
    """Sources above targets; both directions of undirected edges."""
    graph: Int[Tensor, " nodes"]
    """The number of each node's graph."""
    edge_features: Float[Tensor, "edges edge_width"] | None = None
    labels: Int[Tensor, " nodes"] | None = None
    """The number of each node's class; −1 for a node without a label."""
    degrees: Int[Tensor, " nodes"] | None = None
    """The number of other nodes that each node sees in the whole graph, where this is a sample of its edges."""

    @classmethod
    def of(cls, graphs: Sequence[Graph]) -> "GraphBatch":
        """Graphs one after the other. Raises ValueError for graphs with other numbers of features."""
        for name in ("width", "edge_width"):
            widths = sorted({int(getattr(graph, name)) for graph in graphs})
            if len(widths) != 1:
                kind = "edge" if name == "edge_width" else "node"
                raise ValueError(f"Graphs of a batch need as many {kind} features, but these have {widths}.")
        first = np.cumsum([0, *map(len, graphs)])
        both = [graph.edges_both_ways() for graph in graphs]
        index = np.concatenate([pairs + start for (pairs, _), start in zip(both, first, strict=False)], axis=1)
        between = [
            graph.edge_features[number]
            for graph, (_, number) in zip(graphs, both, strict=True)
            if graph.edge_features is not None
        ]
        labels = [np.full(len(graph), UNLABELLED) if graph.labels is None else graph.labels for graph in graphs]
        return cls(
            tensor_of([graph.features for graph in graphs]),
            torch.from_numpy(index),
            torch.from_numpy(np.repeat(np.arange(len(graphs)), np.diff(first))),
            torch.from_numpy(np.concatenate(between)) if between else None,
            torch.from_numpy(np.concatenate(labels)),
        )

    def __len__(self) -> int:
        """The number of nodes."""
        return len(self.graph)

    @cached_property
    def neighbourhood(self) -> Neighbourhood:
        """The edges, and what layers work out about them once."""
        return Neighbourhood(self.edges, len(self), self.edge_features, self.degrees)

    def to(self, device: torch.device | str) -> "GraphBatch":
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: part.to(device) for name, part in parts.items() if part is not None})


def tensor_of(parts: Sequence[np.ndarray | SparseRows]) -> Tensor | SparseVectors:
    """Features, one after the other."""
    sparse = [part for part in parts if isinstance(part, SparseRows)]
    if len(sparse) == len(parts):
        rows = SparseRows.join(sparse)
        pointers, columns, values = map(torch.tensor, (rows.pointers, rows.columns, rows.values))
        return SparseVectors(pointers, columns, values, rows.width)
    dense = [part.dense() if isinstance(part, SparseRows) else part for part in parts]
    return torch.from_numpy(np.concatenate(dense))
