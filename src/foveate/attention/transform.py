"""What happens to queries and keys before they are scored: a tuple of transforms, because papers differ in order."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.attention.position import Positions


@runtime_checkable
class Transform(Protocol):
    """Any object that changes queries and keys where they stand."""

    def query(
        self, query: Float[Tensor, "batch heads query dim"], at: Positions
    ) -> Float[Tensor, "batch heads query dim"]: ...

    def key(
        self, key: Float[Tensor, "batch kv_heads key dim"], at: Positions
    ) -> Float[Tensor, "batch kv_heads key dim"]: ...


@dataclass(frozen=True, kw_only=True)
class Rotary:
    """Turns the pair (x_2j, x_2j+1) of a vector at position p by the angle p · base^(−2j/d).

    Su et al. 2021, equation 34. The product of a turned query and a turned key depends on i − j only:

    >>> q, k = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 1, 8)
    >>> def product(i, j):
    ...     at = Positions(query=torch.full((1, 1, 1, 1), i), key=torch.full((1, 1, 1, 1), j))
    ...     return (Rotary().query(q, at) * Rotary().key(k, at)).sum()
    >>> torch.allclose(product(7, 3), product(104, 100), atol=1e-4)
    True
    """

    base: float = 10000.0

    def query(
        self, query: Float[Tensor, "batch heads query dim"], at: Positions
    ) -> Float[Tensor, "batch heads query dim"]:
        return rotated(query, at.query[..., 0], self.base)

    def key(
        self, key: Float[Tensor, "batch kv_heads key dim"], at: Positions
    ) -> Float[Tensor, "batch kv_heads key dim"]:
        return rotated(key, at.key[..., 0, :], self.base)

    def build(self, *, head_dim: int, num_heads: int) -> "Rotary":
        if head_dim % 2:
            raise ValueError(f"Rotary turns pairs: head_dim={head_dim} must be even.")
        return self


def rotated(
    x: Float[Tensor, "batch heads length dim"], position: Int[Tensor, "#batch #heads length"], base: float = 10000.0
) -> Float[Tensor, "batch heads length dim"]:
    """Each neighbouring pair of features turned by an angle proportional to the position."""
    # In float64: a float32 angle at position 10,000 is already off by half a thousandth.
    pairs = torch.arange(0, x.shape[-1], 2, device=x.device, dtype=torch.float64)
    angle = position[..., None] * base ** (-pairs / x.shape[-1])
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


TransformConfig = Rotary
"""The transforms that a configuration can name."""
