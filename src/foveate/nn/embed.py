"""Embeds the input of a model. Only here do models treat text, speech, pictures and graphs differently.

A model is built from an `Input`, a small value that describes the rows of its batches and builds the module that
embeds them. A new kind of input is another such value, without changes in the models.
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
    """Describes the rows of a model's batches."""

    @property
    def width(self) -> int | None:
        """The number of features of a vector; None for ids."""

    @property
    def axes(self) -> int | None:
        """The number of axes of places; None if the order of the row is the place, 0 for nodes with edges."""

    def build(self, dim: int, *, deviation: float | None = None) -> nn.Module:
        """A module that computes vectors of `dim` numbers from the values of rows, packed or padded, and from their
        places if they have any. `deviation` is the standard deviation of initial weights in a table.
        """


@dataclass(frozen=True)
class Tokens:
    """Ids below `vocab`, each with its own vector."""

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
    """Vectors of `width` numbers, which are projected: frames of speech, nodes of a graph, measurements."""

    width: int
    axes: ClassVar[None] = None

    def __post_init__(self) -> None:
        require_positive(width=self.width)

    def build(self, dim: int, *, deviation: float | None = None) -> "VectorEmbedding":
        return VectorEmbedding(self.width, dim)


@dataclass(frozen=True)
class Patches:
    """Square patches of a picture in `grid` rows and columns. A patch is a vector of `size`² · `channels` numbers."""

    size: int
    channels: int
    grid: tuple[int, int]
    axes: ClassVar[int] = 2

    def __post_init__(self) -> None:
        rows, columns = self.grid
        require_positive(size=self.size, channels=self.channels, rows=rows, columns=columns)

    @property
    def width(self) -> int:
        """The number of features of a patch: those of its pixels, from left to right and from top to bottom."""
        return self.size**2 * self.channels

    @property
    def count(self) -> int:
        """The number of patches of a whole picture."""
        return self.grid[0] * self.grid[1]

    def picture(
        self, values: Float[Tensor, "*batch patches width"]
    ) -> Float[Tensor, "*batch channels height picture_width"]:
        """Whole pictures of the patches that they were cut into.

        >>> import torch
        >>> patches = Patches(size=1, channels=3, grid=(2, 2))
        >>> patches.picture(torch.arange(12.0).reshape(4, 3))[0].tolist()  # the first of three channels
        [[0.0, 3.0], [6.0, 9.0]]

        Raises ValueError for values that are not those of all patches.
        """
        if values.shape[-2:] != (self.count, self.width):
            raise ValueError(
                f"A picture of {self.grid[0]} × {self.grid[1]} patches has {self.count} rows of {self.width} numbers, "
                f"but these are {values.shape[-2]} of {values.shape[-1]}. Pass all patches, row by row."
            )
        (rows, columns), lead = self.grid, values.dim() - 2
        squares = values.unflatten(-1, (self.size, self.size, self.channels)).unflatten(-4, (rows, columns))
        order = [*range(lead), *(lead + axis for axis in (4, 0, 2, 1, 3))]
        return squares.permute(order).flatten(-4, -3).flatten(-2)

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

    Dosovitskiy et al. 2021 train a vector for each place. Two tables, one for each axis, have fewer weights.

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
    """The input; a number means tokens with a vocabulary of this size."""
    return Tokens(source) if isinstance(source, int) else source


def embed(
    embedding: nn.Module, values: Shaped[Tensor, "*shape"], places: Int[Tensor, "*where axes"] | None
) -> Float[Tensor, "*shape_and_dim"]:
    """The vectors of values, and of their places if there are any."""
    vectors: Tensor = embedding(values) if places is None else embedding(values, places)
    return vectors
