"""The edges of a graph as layers need them: rules for attention, and what paths work out about them, once for all."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.attention import Positions, Visibility, edges


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """Pairs of nodes, a source that is looked at above the target that looks.

    >>> path = Neighbourhood(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    >>> print(path.rule(self_loops=True).picture(3, 3))
    # # .
    # # #
    . # #
    """

    edges: Int[Tensor, "2 edges"]
    num_nodes: int
    features: Float[Tensor, "edges edge_width"] | None = None
    degrees: Int[Tensor, " num_nodes"] | None = None
    """The number of other nodes that each node sees in the whole graph, where these are some of the edges."""

    def rule(self, *, self_loops: bool) -> Visibility:
        """The rule by which a node sees its neighbours, and itself with `self_loops`."""
        return self._looped if self_loops else self._plain

    @cached_property
    def _plain(self) -> Visibility:
        return edges(self.edges)

    @cached_property
    def _looped(self) -> Visibility:
        return edges(self.edges, self_loops=True)

    @cached_property
    def at(self) -> Positions:
        """The places of nodes, which keep what paths work out about the edges."""
        with torch.inference_mode(False):  # training may use them later
            return Positions.of(self.num_nodes, self.num_nodes, device=self.edges.device)

    @cached_property
    def normalised(self) -> tuple[Int[Tensor, "2 all_edges"], Float[Tensor, " all_edges"]]:
        """Edges with a self-loop for each node, and 1 / √(d_i d_j) for each, with the number d of edges into a node.

        Of a sample, d is that of the whole graph, and edges count for those that were not drawn: the expected sum is
        that over all edges.

        Reference: Kipf and Welling 2017, equation 2.
        """
        with torch.inference_mode(False):  # training may use them later
            loops = torch.arange(self.num_nodes, device=self.edges.device)
            own = self.edges[:, self.edges[0] != self.edges[1]]
            drawn = own[1].bincount(minlength=self.num_nodes)
            all_edges = drawn if self.degrees is None else self.degrees
            degree = all_edges.float() + 1
            weights = (degree[own[0]] * degree[own[1]]).rsqrt() * (all_edges / drawn)[own[1]]
            return torch.cat([own, torch.stack([loops, loops])], dim=1), torch.cat([weights, 1 / degree])

    def to(self, device: torch.device | str) -> "Neighbourhood":
        features = None if self.features is None else self.features.to(device)
        degrees = None if self.degrees is None else self.degrees.to(device)
        return Neighbourhood(self.edges.to(device), self.num_nodes, features, degrees)
