"""Position vectors on two axes, for the patches of a picture."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import interpolate

from foveate.nn.position_vector import Sinusoid

DEVIATION = 0.02
"""The standard deviation of initial position vectors."""


class LearnedGrid(nn.Module):
    """p(r, c) = P_{rc}: one trained vector for each place of a grid

    Dosovitskiy et al. 2021, section 3.1. For pictures of another size, `resized` interpolates P on two axes, as in
    their section 3.2; without it, a place outside the grid is refused.

    >>> position = LearnedGrid(4, (2, 3))
    >>> position(torch.tensor([[0, 0], [1, 2]])).shape, position.resized((4, 6)).weight.shape
    (torch.Size([2, 4]), torch.Size([24, 4]))
    """

    def __init__(self, model_dim: int, grid: tuple[int, int]) -> None:
        super().__init__()
        self.grid = grid
        self.weight = nn.Parameter(torch.empty(grid[0] * grid[1], model_dim))
        nn.init.normal_(self.weight, std=DEVIATION)

    def forward(self, places: Int[Tensor, "*shape 2"]) -> Float[Tensor, "*shape model_dim"]:
        row, column = places[..., 0], places[..., 1]
        if places.numel() and bool(((row >= self.grid[0]) | (column >= self.grid[1])).any()):
            raise ValueError(
                f"The model has learned positions for {self.grid[0]} × {self.grid[1]} patches, but the picture has "
                f"{int(row.max()) + 1} × {int(column.max()) + 1}. Scale the picture, or interpolate the positions: "
                "model.resized(grid)."
            )
        return self.weight[row * self.grid[1] + column]

    def resized(self, grid: tuple[int, int]) -> "LearnedGrid":
        """Positions for another grid, by bicubic interpolation; unchanged for the same grid."""
        other = LearnedGrid(self.weight.shape[1], grid)
        table = self.weight.detach().T.unflatten(1, self.grid)[None]
        if grid != self.grid:
            table = interpolate(table, grid, mode="bicubic", align_corners=False)
        other.weight = nn.Parameter(table[0].flatten(1).T.contiguous(), requires_grad=self.weight.requires_grad)
        return other

    def extra_repr(self) -> str:
        return f"{self.weight.shape[1]}, grid={self.grid}"


class SinusoidalGrid(nn.Module):
    """p(r, c) = [s(r); s(c)]: sines and cosines of the row in one half of the features, of the column in the other

    A picture may have any size. Reference: He et al. 2022 (masked autoencoders), section A.1; Vaswani et al. 2017.

    >>> position = SinusoidalGrid(8)
    >>> one, other = position(torch.tensor([[3, 5], [3, 60]]))
    >>> torch.equal(one[:4], other[:4]), torch.equal(one[4:], other[4:])
    (True, False)
    """

    def __init__(self, model_dim: int, *, base: float = 10000.0) -> None:
        super().__init__()
        if model_dim % 4:
            raise ValueError(f"Sines and cosines of two axes need a model_dim that 4 divides, got {model_dim}.")
        self.axis = Sinusoid(model_dim // 2, base=base)

    def forward(self, places: Int[Tensor, "*shape 2"]) -> Float[Tensor, "*shape model_dim"]:
        return self.axis(places).flatten(-2)

    def resized(self, grid: tuple[int, int]) -> "SinusoidalGrid":
        """The same positions, which have no limit."""
        return self


class NoGridPosition(nn.Module):
    """p(r, c) = 0: only rotary transforms, biases and rules of the attention can tell places apart."""

    def __init__(self, model_dim: int) -> None:
        super().__init__()
        self.model_dim = model_dim

    def forward(self, places: Int[Tensor, "*shape 2"]) -> Float[Tensor, "*shape model_dim"]:
        return torch.zeros(*places.shape[:-1], self.model_dim, device=places.device)

    def resized(self, grid: tuple[int, int]) -> "NoGridPosition":
        """The same: there are none."""
        return self


GridPosition = LearnedGrid | SinusoidalGrid | NoGridPosition


@dataclass(frozen=True, kw_only=True)
class LearnedGridConfig:
    """A trained vector for each place of the grid."""

    kind: ClassVar[Literal["learned"]] = "learned"

    def build(self, model_dim: int, grid: tuple[int, int]) -> LearnedGrid:
        return LearnedGrid(model_dim, grid)


@dataclass(frozen=True, kw_only=True)
class SinusoidalGridConfig:
    """Fixed sine and cosine waves on two axes; any size."""

    kind: ClassVar[Literal["sinusoidal"]] = "sinusoidal"
    base: float = 10000.0

    def build(self, model_dim: int, grid: tuple[int, int]) -> SinusoidalGrid:
        return SinusoidalGrid(model_dim, base=self.base)


@dataclass(frozen=True, kw_only=True)
class NoGridPositionConfig:
    """No position vectors: rotary transforms, biases or rules of the attention express places."""

    kind: ClassVar[Literal["none"]] = "none"

    def build(self, model_dim: int, grid: tuple[int, int]) -> NoGridPosition:
        return NoGridPosition(model_dim)


GridPositionConfig = LearnedGridConfig | SinusoidalGridConfig | NoGridPositionConfig
"""The positions on two axes that a configuration can select: "learned", "sinusoidal", "none"."""
