"""Some of the edges of a large graph: those that a few nodes need, with at most so many at each node.

Reference: Hamilton, Ying and Leskovec 2017, "Inductive representation learning on large graphs", algorithm 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from foveate.data.graph import UNLABELLED, Graph
from foveate.data.graph_batch import GraphBatch, tensor_of
from foveate.data.sparse_row import SparseRows


@dataclass(frozen=True, eq=False)
class NodeBatch:
    """A graph, or a part of one, and the nodes in it whose answers count."""

    graph: GraphBatch
    targets: Int[Tensor, " targets"]
    """Places in the graph."""
    labels: Int[Tensor, " targets"]
    nodes: Int[np.ndarray, " targets"]
    """Numbers in the whole graph."""


@dataclass(frozen=True, eq=False)
class NeighbourSampler:
    """Draws, for each target, at most `fan_out[0]` of the edges by which it looks, for each node that these lead to at
    most `fan_out[1]`, and so on: as many numbers as a model has layers.

    A node whose edges are no more than the fan-out has all of them; with a large fan-out the answers of the targets are
    those in the whole graph. Features and edges keep their order.

    >>> star = Graph(features=np.eye(5, dtype=np.float32), edges=np.array([[0, 0, 0, 0], [1, 2, 3, 4]]))
    >>> batch = NeighbourSampler(star, fan_out=(2, 1)).sample(np.array([0]), np.random.default_rng(0))
    >>> len(batch.graph), batch.graph.degrees.tolist(), batch.targets.tolist()
    (3, [4, 1, 1], [0])
    """

    graph: Graph
    fan_out: Sequence[int]

    @cached_property
    def _edges(self) -> tuple[Int[np.ndarray, "2 edges"], Int[np.ndarray, " edges"], Int[np.ndarray, " nodes_and_one"]]:
        """Sources above targets, sorted by target; the number of each in the graph; the first edge of each node."""
        pairs, numbers = self.graph.edges_both_ways()
        return pairs, numbers, np.searchsorted(pairs[1], np.arange(len(self.graph) + 1))

    @cached_property
    def _degrees(self) -> Int[np.ndarray, " nodes"]:
        (source, target), *_ = self._edges
        return np.bincount(target[source != target], minlength=len(self.graph))

    def sample(self, targets: Int[np.ndarray, " targets"], generator: np.random.Generator) -> NodeBatch:
        """The part of the graph that these nodes need, with the edges that are drawn."""
        pairs, numbers, _ = self._edges
        reached = np.zeros(len(self.graph), np.bool_)
        reached[targets] = True
        frontier, chosen = np.sort(targets), [np.zeros(0, np.int64)]
        for most in self.fan_out:
            chosen.append(self._drawn(frontier, most, generator))
            sources = np.unique(pairs[0, chosen[-1]])
            frontier = sources[~reached[sources]]
            reached[frontier] = True
        nodes, edges = np.flatnonzero(reached), np.sort(np.concatenate(chosen))
        place = np.zeros(len(self.graph), np.int64)
        place[nodes] = np.arange(len(nodes))
        features = self.graph.features
        taken = features.taken(nodes) if isinstance(features, SparseRows) else features[nodes]
        between = self.graph.edge_features
        labels = np.full(len(self.graph), UNLABELLED) if self.graph.labels is None else self.graph.labels
        batch = GraphBatch(
            tensor_of([taken]),
            torch.from_numpy(place[pairs[:, edges]]),
            torch.zeros(len(nodes), dtype=torch.long),
            None if between is None else torch.from_numpy(between[numbers[edges]]),
            torch.from_numpy(labels[nodes]),
            torch.from_numpy(self._degrees[nodes]),
        )
        return NodeBatch(batch, torch.from_numpy(place[targets]), torch.from_numpy(labels[targets]), targets)

    def _drawn(
        self, nodes: Int[np.ndarray, " nodes"], most: int, generator: np.random.Generator
    ) -> Int[np.ndarray, " drawn"]:
        """At most so many of the edges into each of the nodes, without replacement."""
        _, _, first = self._edges
        counts = first[nodes + 1] - first[nodes]
        row = np.repeat(np.arange(len(nodes)), counts)
        start = np.cumsum(counts) - counts
        edges = first[nodes][row] + np.arange(len(row)) - start[row]
        order = np.lexsort((generator.random(len(edges)), row))  # the edges of each node, shuffled
        return edges[order[np.arange(len(row)) - start[row] < most]]
