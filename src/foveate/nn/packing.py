"""Packing removes padding from a batch, so that everything but attention computes on real tokens only."""

from typing import Any

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from foveate.attention.position import transformed


class Packing:
    """Converts between `batch length …` with padding and `tokens …` without.

    >>> packing = Packing(torch.tensor([2, 3]), 3)
    >>> padded = torch.arange(6.0).view(2, 3, 1)
    >>> packing.pack(padded).flatten()
    tensor([0., 1., 3., 4., 5.])
    >>> packing.unpack(packing.pack(padded)).flatten()
    tensor([0., 1., 0., 3., 4., 5.])
    """

    def __init__(self, lengths: Int[Tensor, " batch"], length: int) -> None:
        """`lengths` are the true lengths of a right-padded batch of width `length`."""
        self.lengths = lengths
        self.batch, self.length = len(lengths), length
        place = torch.arange(length, device=lengths.device)
        self.index: Int[Tensor, " tokens"] = (place < lengths[:, None]).flatten().nonzero().squeeze(1)
        """The index of each token in the flattened batch."""
        self.place: Int[Tensor, " tokens"] = self.index % length
        """Each token's position in its own sequence."""
        self.full = self.index.numel() == self.batch * length
        self.starts: Int[Tensor, " sequences_and_end"] = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
        """The index of each sequence's first token, then the total number of tokens."""

    def is_marked_by(self, real: Bool[Tensor, "#batch #heads 1 key"] | None) -> bool:
        """Whether these positions are real for every head: the tokens and no padding. None marks all positions.

        >>> packing = Packing(torch.tensor([2, 3]), 3)
        >>> packing.is_marked_by(torch.tensor([[[[True, True, False]]], [[[True, True, True]]]]))
        True
        >>> packing.is_marked_by(None)
        False
        """
        if real is None:
            return self.full
        tokens = torch.zeros(self.batch * self.length, dtype=torch.bool, device=real.device)
        tokens[self.index.to(real.device)] = True
        tokens = tokens.view(self.batch, 1, 1, self.length)
        alike = real.shape[0] in (1, self.batch) and real.shape[3] == self.length
        return alike and bool((real == tokens).all())

    def pack(self, padded: Shaped[Tensor, "batch length *dims"]) -> Shaped[Tensor, "tokens *dims"]:
        flat = padded.reshape(self.batch * self.length, *padded.shape[2:])
        if transformed():
            return flat if self.full else flat.index_select(0, self.index)
        return flat if self.full else _Pick.apply(flat, self.index)

    def unpack(self, tokens: Shaped[Tensor, "tokens *dims"]) -> Shaped[Tensor, "batch length *dims"]:
        """Padding becomes zero."""
        total = self.batch * self.length
        if transformed() and not self.full:
            flat = tokens.new_zeros(total, *tokens.shape[1:]).index_copy(0, self.index, tokens)
        else:
            flat = tokens if self.full else _Place.apply(tokens, self.index, total)
        return flat.view(self.batch, self.length, *tokens.shape[1:])


class _Pick(torch.autograd.Function):
    """Select rows by index. No row occurs twice, so the backward pass writes instead of adding."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.total = rows.shape[0]
        return rows.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        return _Place.apply(grad, index, ctx.total), None


class _Place(torch.autograd.Function):
    """Write rows at their index, zeros elsewhere."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, index: Tensor, total: int) -> Tensor:
        ctx.save_for_backward(index)
        return rows.new_zeros(total, *rows.shape[1:]).index_copy_(0, index, rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (index,) = ctx.saved_tensors
        return _Pick.apply(grad, index), None, None
