"""The places of nodes in a graph as numbers: distances, random walks and eigenvectors of the Laplacian."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, UInt8

from foveate.config.field import setting
from foveate.data.graph import Graph

APART = 255
"""In place of the distance of nodes without a path between them."""
FARTHEST = 254
"""The largest distance that is told from larger ones."""


def distances(graph: Graph) -> UInt8[np.ndarray, "nodes nodes"]:
    """The number of edges on the shortest path from node j to node i, in row i; at most 254, and 255 without a path.

    >>> distances(Graph(features=np.ones((4, 1)), edges=np.array([[0, 1], [1, 2]]))).tolist()
    [[0, 1, 2, 255], [1, 0, 1, 255], [2, 1, 0, 255], [255, 255, 255, 0]]
    """
    adjacent = _adjacent(graph)
    away = np.full((len(graph), len(graph)), APART, np.uint8)
    reached = np.eye(len(graph), dtype=np.float32)
    np.fill_diagonal(away, 0)
    for distance in range(1, len(graph)):
        farther = ((adjacent @ reached + reached) > 0).astype(np.float32)
        new = farther > reached
        if not new.any():
            break
        away[new] = min(distance, FARTHEST)
        reached = farther
    return away


@dataclass(frozen=True, kw_only=True)
class RandomWalkConfig:
    """p_i = [R_ii, (R²)_ii, …, (R^k)_ii] with R = A D⁻¹: the chance that a random walk is back after 1 to k steps

    The order of nodes does not change them. Reference: Dwivedi et al. 2022, "Graph Neural Networks with Learnable
    Structural and Positional Representations", equation 5.

    >>> triangle = Graph(features=np.ones((3, 1)), edges=np.array([[0, 0, 1], [1, 2, 2]]))
    >>> RandomWalkConfig(steps=3).vectors(triangle)[0].tolist()
    [0.0, 0.5, 0.25]
    """

    kind: ClassVar[str] = "random_walk"
    steps: int = setting(16, "numbers of steps after which a walk may be back")

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, got {self.steps}")

    @property
    def width(self) -> int:
        """The number of numbers for each node."""
        return self.steps

    def vectors(self, graph: Graph) -> Float[np.ndarray, "nodes width"]:
        adjacent = _adjacent(graph)
        walk = adjacent / np.maximum(adjacent.sum(0), 1)
        power, back = np.eye(len(graph), dtype=np.float32), []
        for _ in range(self.steps):
            power = power @ walk
            back.append(np.diag(power))
        return np.stack(back, axis=1).astype(np.float32)

    def varied(
        self, vectors: Float[np.ndarray, "nodes width"], generator: np.random.Generator
    ) -> Float[np.ndarray, "nodes width"]:
        """The same vectors: nothing about them is arbitrary."""
        return vectors


@dataclass(frozen=True, kw_only=True)
class LaplacianConfig:
    """The eigenvectors of I − D^{−1/2} A D^{−1/2} with the smallest eigenvalues but the first

    An eigenvector's sign is arbitrary: training draws it in each step, and predictions take that with which the number
    of the largest size is positive. Where several vectors have one eigenvalue, or several numbers one size, the order
    of nodes decides. Smaller graphs are filled up with zeros.

    Reference: Dwivedi and Bresson 2021, "A Generalization of Transformer Networks to Graphs", section 2.2.
    """

    kind: ClassVar[str] = "laplacian"
    count: int = setting(8, "eigenvectors")

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"count must be at least 1, got {self.count}")

    @property
    def width(self) -> int:
        """The number of numbers for each node."""
        return self.count

    def vectors(self, graph: Graph) -> Float[np.ndarray, "nodes width"]:
        adjacent = np.maximum(_adjacent(graph), _adjacent(graph).T)
        scale = 1 / np.sqrt(np.maximum(adjacent.sum(0), 1))
        laplacian = np.eye(len(graph)) - scale[:, None] * adjacent * scale
        lowest = np.linalg.eigh(laplacian)[1][:, 1 : self.count + 1]
        largest = np.abs(lowest).argmax(0) if lowest.size else np.zeros(0, np.int64)
        signs = np.sign(lowest[largest, np.arange(lowest.shape[1])])
        vectors = np.zeros((len(graph), self.count), np.float32)
        vectors[:, : lowest.shape[1]] = lowest * signs
        return vectors

    def varied(
        self, vectors: Float[np.ndarray, "nodes width"], generator: np.random.Generator
    ) -> Float[np.ndarray, "nodes width"]:
        """The same vectors with random signs."""
        return vectors * generator.choice(np.array([-1, 1], np.float32), size=vectors.shape[1])


GraphPlaceConfig = RandomWalkConfig | LaplacianConfig
"""The places of nodes that a configuration can select: "random_walk", "laplacian"."""


def _adjacent(graph: Graph) -> Float[np.ndarray, "nodes nodes"]:
    """1 in row i and column j for an edge j → i to another node."""
    matrix = np.zeros((len(graph), len(graph)), np.float32)
    source, target = graph.messages()
    matrix[target, source] = 1
    np.fill_diagonal(matrix, 0)
    return matrix
