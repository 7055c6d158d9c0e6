"""Batches of whole graphs: nodes without padding, and what tells apart the pairs of nodes within each graph."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.data.graph import Graph
from foveate.data.graph_batch import GraphBatch
from foveate.data.graph_place import APART, GraphPlaceConfig, distances
from foveate.nn.packing import Packing


class PlacedGraph:
    """A graph with the distances of its nodes and their places, which are computed once."""

    def __init__(
        self,
        graph: Graph,
        place: GraphPlaceConfig | None = None,
        features: Float[np.ndarray, " graph_dim"] | None = None,
    ) -> None:
        """`features` are numbers about the whole graph."""
        self.graph, self.place, self.features = graph, place, features

    def __len__(self) -> int:
        return len(self.graph)

    @cached_property
    def distances(self) -> Tensor:
        """Edges on the way from node j to node i, in row i."""
        return torch.from_numpy(distances(self.graph))

    @cached_property
    def vectors(self) -> Float[np.ndarray, "nodes place_width"] | None:
        return None if self.place is None else self.place.vectors(self.graph)

    def varied(self, generator: np.random.Generator | None) -> Float[np.ndarray, "nodes place_width"] | None:
        """The places as training reads them, with what is arbitrary drawn by the generator."""
        if self.place is None or self.vectors is None or generator is None:
            return self.vectors
        return self.place.varied(self.vectors, generator)


@dataclass(frozen=True, eq=False)
class WholeGraphBatch(GraphBatch):
    """Several graphs, each to be looked at as a whole.

    >>> one, two = (Graph(features=np.ones((n, 3), np.float32), edges=np.array([[0], [1]])) for n in (2, 3))
    >>> batch = WholeGraphBatch.of_placed([PlacedGraph(one), PlacedGraph(two)])
    >>> batch.packing.lengths.tolist(), batch.distances[0].tolist()
    ([2, 3], [[0, 1, 255], [1, 0, 255], [255, 255, 255]])
    """

    lengths: Int[Tensor, " graphs"] | None = None
    """The number of nodes of each graph."""
    distances: Int[Tensor, "graphs longest longest"] | None = None
    """Edges on the way from node j to node i; 255 without a way, and between padding."""
    places: Float[Tensor, "nodes place_width"] | None = None
    graph_features: Float[Tensor, "graphs graph_dim"] | None = None

    @classmethod
    def of_placed(
        cls, graphs: Sequence[PlacedGraph], *, generator: np.random.Generator | None = None
    ) -> "WholeGraphBatch":
        """Graphs one after the other. With a `generator`, the signs of eigenvectors are drawn. Raises ValueError for
        graphs with other numbers of features.
        """
        plain = GraphBatch.of([one.graph for one in graphs])
        lengths = torch.tensor([len(one) for one in graphs])
        longest = int(lengths.max())
        away = torch.full((len(graphs), longest, longest), APART, dtype=torch.int64)
        for row, one in zip(away, graphs, strict=True):
            row[: len(one), : len(one)] = one.distances
        parts = [vectors for one in graphs if (vectors := one.varied(generator)) is not None]
        places = torch.from_numpy(np.concatenate(parts)) if parts else None
        wholes = [one.features for one in graphs if one.features is not None]
        known: dict[str, Any] = {
            name: getattr(plain, name) for name in ("features", "edges", "graph", "edge_features", "labels")
        }
        if wholes:
            known["graph_features"] = torch.from_numpy(np.stack(wholes))
        return cls(**known, lengths=lengths, distances=away, places=places)

    @cached_property
    def packing(self) -> Packing:
        """The nodes of each graph in a row of its own, and back."""
        assert self.lengths is not None
        return Packing(self.lengths, int(self.lengths.max()))
