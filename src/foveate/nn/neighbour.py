"""Concatenated vectors of neighbouring words: the input of convolutions and of layers with a context window."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.nn.linear_layer import Linear
from foveate.nn.packing import Packing


class Neighbours(nn.Module):
    """y_i = W [x_{i−left}; …; x_i; …; x_{i+right}] + b

    This is a convolution of width left + 1 + right over tokens without padding: one matrix for all positions, and zeros
    beyond the ends of each sequence.

    >>> layer = Neighbours(1, 1, left=1, right=1)
    >>> with torch.no_grad():
    ...     _ = layer.joined.weight.copy_(torch.tensor([[100., 10., 1.]])), layer.joined.bias.zero_()
    >>> layer(torch.tensor([[1.], [2.], [3.], [4.]]), packing=Packing(torch.tensor([3, 1]), 3)).flatten().tolist()
    [12.0, 123.0, 230.0, 40.0]
    """

    def __init__(self, input_dim: int, output_dim: int, *, left: int, right: int) -> None:
        super().__init__()
        self.left, self.right = left, right
        self.joined = Linear((left + 1 + right) * input_dim, output_dim)

    def forward(self, x: Float[Tensor, "tokens input_dim"], *, packing: Packing) -> Float[Tensor, "tokens output_dim"]:
        if not self.left and not self.right:
            return self.joined(x)
        length = lengths_of_tokens(packing)
        parts = []
        for offset in range(-self.left, self.right + 1):
            place = packing.place + offset
            inside = (place >= 0) & (place < length)
            parts.append(torch.where(inside[:, None], x.roll(-offset, 0), 0.0))
        return self.joined(torch.cat(parts, dim=-1))


def lengths_of_tokens(packing: Packing) -> Tensor:
    """The length of each token's sequence."""
    return packing.lengths.repeat_interleave(packing.lengths, output_size=len(packing.index))
