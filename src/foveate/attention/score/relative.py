"""Scores that know how far apart query and key stand."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.attention.check import require_equal_width, require_whole, require_width
from foveate.attention.position import Positions


class ShawRelative(nn.Module):
    """score(q_i, k_j) = q_i · (k_j + a_{clip(j − i)}) / √d

    Shaw et al. 2018, equation 4, with one trained vector a for each distance from −`radius` to `radius`, shared by
    the heads; whatever is farther away counts as `radius` away. The product with the 2 · `radius` + 1 vectors is
    made once and gathered: nothing of size query × key × dim exists. The paper's second term, vectors added to the
    *values* (equation 3), is left out: the context would no longer be Σ α v, and the paper finds it of little use
    beside the first (its table 4).

    >>> score = ShawRelative(head_dim=4, radius=2)
    >>> q, k = torch.randn(1, 1, 1, 4), torch.zeros(1, 1, 6, 4)
    >>> first = score.scores_at(q, k, Positions.of(query=1, key=6)).flatten()
    >>> bool((first[2:] == first[2]).all()), bool(first[0] == first[1])
    (True, False)
    """

    def __init__(self, *, head_dim: int, radius: int) -> None:
        super().__init__()
        require_whole(head_dim=head_dim)
        require_whole(0, radius=radius)
        self.radius = radius
        self.vectors = nn.Parameter(torch.empty(2 * radius + 1, head_dim))
        nn.init.normal_(self.vectors, std=head_dim**-0.5)

    def scores_at(
        self,
        query: Float[Tensor, "batch heads query dim"],
        key: Float[Tensor, "batch heads key dim"],
        at: Positions,
    ) -> Float[Tensor, "batch heads query key"]:
        require_equal_width("ShawRelative", query, key)
        require_width(query, self.vectors.shape[-1])
        scaled = query * query.shape[-1] ** -0.5
        distance = (at.key - at.query).clamp(-self.radius, self.radius) + self.radius
        by_distance = scaled @ self.vectors.mT
        # All that is far away takes the same number, whose gradient half precision would lose most of.
        precise = by_distance.to(torch.promote_types(by_distance.dtype, torch.float32))
        gathered = precise.gather(-1, distance.expand(*query.shape[:-1], -1))
        return scaled @ key.mT + gathered.to(by_distance.dtype)

    def symbol(self, head_dim: int) -> str:
        return f"q·(k + a_{{j−i}}) / √{head_dim}"

    def extra_repr(self) -> str:
        return f"head_dim={self.vectors.shape[1]}, radius={self.radius}"


@dataclass(frozen=True, kw_only=True)
class ShawRelativeConfig:
    """q · (k + a_{j−i}) / √d with trained vectors for distances (Shaw et al. 2018)."""

    radius: int = 16
    """Distances beyond it are not told apart."""

    def __post_init__(self) -> None:
        if self.radius < 0:
            raise ValueError(f"radius={self.radius} must not be negative")

    def build(self, *, query_dim: int, key_dim: int, num_heads: int = 1) -> ShawRelative:
        if query_dim != key_dim:
            raise ValueError(
                f"ShawRelative needs queries and keys of one width, got {query_dim} and {key_dim}. "
                'Choose equal widths, or the score "general" or "additive", which learn to join different ones.'
            )
        return ShawRelative(head_dim=query_dim, radius=self.radius)
