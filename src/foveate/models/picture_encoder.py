"""Encoders of pictures embed patches by themselves. Their output is a grid of vectors."""

from abc import ABC, abstractmethod
from typing import NoReturn

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.data.batch import Batch
from foveate.nn.embed import Input, Patches
from foveate.nn.packing import Packing


class PictureEncoder(nn.Module, ABC):
    """h_{11} … h_{RC} = encode(picture)

    The output has a vector for each place of `grid`, row by row, after `class_tokens` vectors that belong to no place.
    Any pooling and any attention to a grid can read it. The other pictures of a batch do not affect the result of a
    model in evaluation mode.
    """

    patches: Patches
    output_dim: int
    grid: tuple[int, int]
    """Rows and columns of the output."""
    class_tokens: int = 0
    max_length: int | None = None

    @property
    def standard(self) -> Int[Tensor, "patches 2"]:
        """Row and column of each patch of a whole picture."""
        return grid_places(self.patches.grid)

    @abstractmethod
    def encode(self, batch: Batch) -> tuple[Float[Tensor, "tokens output_dim"], Packing]:
        """The vectors of each picture, and their packing."""

    def places(self) -> Int[Tensor, "places 2"]:
        """Row and column of each vector of the grid."""
        return grid_places(self.grid)


def grid_places(grid: tuple[int, int]) -> Int[Tensor, "places 2"]:
    """Row and column of each place, row by row.

    >>> grid_places((2, 2)).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    return torch.cartesian_prod(*map(torch.arange, grid)).reshape(-1, 2)


def patches_of(source: int | Input, model: str) -> Patches:
    """The patches that a model of pictures reads. Raises ValueError for another input."""
    return source if isinstance(source, Patches) else _refuse(source, model)


def _refuse(source: object, model: str) -> NoReturn:
    raise ValueError(
        f"{model} reads the patches of pictures, and this input is {source}. Choose another encoder, such as "
        '"transformer", or build the model for Patches(...)'
    )
