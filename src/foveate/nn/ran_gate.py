"""Gates and standardisation of the Recurrent Attention Network."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import glu, layer_norm

from foveate.nn.linear_layer import Linear

Standard = Literal["standard", "published"]
EPSILON = 1e-7


class Gate(nn.Module):
    """GLU(x) = (W_a x + b_a) ⊙ σ(W_b x + b_b)

    Dauphin et al. 2017, equation 1, without the convolution.
    """

    def __init__(self, model_dim: int) -> None:
        super().__init__()
        self.linear = Linear(model_dim, 2 * model_dim)
        for part in self.linear.weight.chunk(2):
            nn.init.xavier_uniform_(part)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Float[Tensor, "*shape model_dim"]) -> Float[Tensor, "*shape model_dim"]:
        return glu(self.linear(x))


def standardised(x: Float[Tensor, "*shape dim"], kind: Standard = "standard") -> Float[Tensor, "*shape dim"]:
    """N(x) = (x − mean x) / √(mean (x − mean x)² + ε)

    "published" divides by √(mean x² + ε) instead, like the program of Li et al. 2023; unless the mean is 0, the result
    then has too small a deviation.

    >>> x = torch.tensor([1.0, 2.0, 3.0])
    >>> [round(standardised(x, kind).std(correction=0).item(), 2) for kind in ("standard", "published")]
    [1.0, 0.38]
    """
    if kind == "standard":
        return layer_norm(x, x.shape[-1:], eps=EPSILON)
    centred = x - x.mean(-1, keepdim=True)
    return centred * (x.square().mean(-1, keepdim=True) + EPSILON).rsqrt()


class Norm(nn.Module):
    """LN(x) = γ ⊙ N(x) + β, where N is `standardised`."""

    def __init__(self, model_dim: int, kind: Standard = "standard") -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(model_dim))
        self.bias = nn.Parameter(torch.zeros(model_dim))
        self.kind = kind

    def forward(self, x: Float[Tensor, "*shape model_dim"]) -> Float[Tensor, "*shape model_dim"]:
        if self.kind == "standard":
            return layer_norm(x, x.shape[-1:], self.weight, self.bias, EPSILON)
        return self.weight * standardised(x, "published") + self.bias

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, kind={self.kind!r}"
