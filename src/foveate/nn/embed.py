"""From what was read to vectors: the only place where text, speech, pictures and graphs differ for a model.

A model is built from an `Input`, a small value that says what the rows of its batches hold and builds the module that
makes vectors of them. A new kind of input is one more such value: models ask nothing else of it.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from foveate.attention.check import require_positive
from foveate.nn.linear_layer import Linear
from foveate.nn.position_vector import LearnedPosition


@runtime_checkable
class Input(Protocol):
    """What the rows of a model's batches hold."""

    @property
    def width(self) -> int | None:
        """Numbers of a vector; None for ids."""

    @property
    def axes(self) -> int | None:
        """Axes of the rows' places; None where they stand in the order of the row, 0 for nodes, which edges join."""

    def build(self, dim: int, *, deviation: float | None = None) -> nn.Module:
        """What makes vectors of `dim` numbers: a module of the rows' values, side by side without padding or in a
        padded batch, and, for rows with places, of their places. `deviation` is that of initial weights where they are
        a table.
        """


@dataclass(frozen=True)
class Tokens:
    """Ids below `vocab`: each has a vector of its own."""

    vocab: int
    width: ClassVar[None] = None
    axes: ClassVar[None] = None

    def build(self, dim: int, *, deviation: float | None = None) -> nn.Embedding:
        embedding = nn.Embedding(self.vocab, dim)
        if deviation is not None:
            nn.init.normal_(embedding.weight, std=deviation)
        return embedding


@dataclass(frozen=True)
class Vectors:
    """Vectors of `width` numbers, which are projected: frames of speech, nodes of a graph, whatever was measured."""

    width: int
    axes: ClassVar[None] = None

    def __post_init__(self) -> None:
        require_positive(width=self.width)

    def build(self, dim: int, *, deviation: float | None = None) -> "VectorEmbedding":
        return VectorEmbedding(self.width, dim)


@dataclass(frozen=True)
class Patches:
    """Squares of a picture, each a vector of `size`² pixels of `channels` numbers, in `grid` rows and columns."""

    size: int
    channels: int
    grid: tuple[int, int]
    axes: ClassVar[int] = 2

    def __post_init__(self) -> None:
        rows, columns = self.grid
        require_positive(size=self.size, channels=self.channels, rows=rows, columns=columns)

    @property
    def width(self) -> int:
        """Numbers of a patch."""
        return self.size**2 * self.channels

    def build(self, dim: int, *, deviation: float | None = None) -> "PatchEmbedding":
        return PatchEmbedding(self, dim)


class VectorEmbedding(Linear):
    """x_i = W v_i + b"""

    def forward(
        self, values: Float[Tensor, "*shape width"], places: Int[Tensor, "*shape axes"] | None = None
    ) -> Float[Tensor, "*shape dim"]:
        return super().forward(values.to(self.weight.dtype))


class PatchEmbedding(nn.Module):
    """x_i = W v_i + b + r_{row(i)} + c_{column(i)}

    Dosovitskiy et al. 2021 learn a vector for each place; two tables, one for each axis, have fewer numbers to learn.

    >>> import torch
    >>> embedding = Patches(size=2, channels=3, grid=(4, 5)).build(8)
    >>> embedding(torch.zeros(7, 12), torch.tensor([[3, 4]]).expand(7, 2)).shape
    torch.Size([7, 8])
    """

    def __init__(self, patches: Patches, dim: int) -> None:
        super().__init__()
        rows, columns = patches.grid
        self.project = VectorEmbedding(patches.width, dim)
        self.row, self.column = LearnedPosition(dim, rows), LearnedPosition(dim, columns)

    def forward(self, values: Float[Tensor, "*shape width"], places: Int[Tensor, "*shape 2"]) -> Tensor:
        return self.project(values) + self.row(places[..., 0]) + self.column(places[..., 1])


def input_of(source: int | Input) -> Input:
    """What an input is where a number stands for tokens: that of different ones."""
    return Tokens(source) if isinstance(source, int) else source


def embed(
    embedding: nn.Module, values: Shaped[Tensor, "*shape"], places: Int[Tensor, "*where axes"] | None
) -> Float[Tensor, "*shape_and_dim"]:
    """The vectors of values; places are handed on where rows have them."""
    vectors: Tensor = embedding(values) if places is None else embedding(values, places)
    return vectors
