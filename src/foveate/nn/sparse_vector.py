"""Vectors that are mostly zeros, multiplied by a matrix in time linear in the other numbers."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import embedding_bag

from foveate.nn.dropout import dropout


@dataclass(frozen=True, eq=False)
class SparseVectors:
    """Rows of `width` numbers. Those of row i that are not 0 stand from `pointers[i]` to `pointers[i + 1]`.

    >>> rows = SparseVectors(torch.tensor([0, 2, 2]), torch.tensor([0, 2]), torch.tensor([1.0, 3.0]), width=3)
    >>> rows.times(torch.tensor([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])).tolist()
    [[10.0, 100.0], [0.0, 0.0]]
    """

    pointers: Int[Tensor, " rows_and_one"]
    columns: Int[Tensor, " entries"]
    values: Float[Tensor, " entries"]
    width: int

    def __len__(self) -> int:
        return len(self.pointers) - 1

    @property
    def device(self) -> torch.device:
        return self.values.device

    def times(self, matrix: Float[Tensor, "width dim"]) -> Float[Tensor, "rows dim"]:
        """X · M"""
        if not len(self.columns):
            return matrix.new_zeros(len(self), matrix.shape[1]) + 0 * matrix.sum(0)
        # Sums over a row, and backwards over a column: half precision would lose the small parts.
        precise = matrix.to(torch.promote_types(matrix.dtype, torch.float32))
        values = self.values.to(precise.dtype)
        product: Tensor = embedding_bag(
            self.columns, precise, self.pointers, mode="sum", per_sample_weights=values, include_last_offset=True
        )
        return product.to(matrix.dtype)

    def dropped(self, rate: float, training: bool) -> "SparseVectors":
        """Dropout, which leaves zeros as they are."""
        return replace(self, values=dropout(self.values, rate, training))

    def dense(self) -> Float[Tensor, "rows width"]:
        numbers = self.values.new_zeros(len(self), self.width)
        row = torch.arange(len(self), device=self.device).repeat_interleave(self.pointers.diff())
        return numbers.index_put((row, self.columns), self.values, accumulate=True)

    def to(self, device: torch.device | str) -> "SparseVectors":
        pointers, columns, values = (part.to(device) for part in (self.pointers, self.columns, self.values))
        return SparseVectors(pointers, columns, values, self.width)
