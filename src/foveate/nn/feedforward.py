"""The position-wise feed-forward networks of a Transformer block."""

from collections.abc import Callable
from functools import partial
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import gelu, relu, silu

from foveate.nn import bfloat16
from foveate.nn.dropout import dropout
from foveate.nn.linear_layer import Linear
from foveate.nn.origin import is_plain

Activation = Literal["relu", "gelu", "silu", "gelu_tanh"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": relu,
    "gelu": gelu,
    "silu": silu,
    "gelu_tanh": partial(gelu, approximate="tanh"),
}
"""`gelu_tanh` is the older approximation of gelu that GPT-2 was trained with; they differ by up to 5e-4."""


class FeedForward(nn.Module):
    """FFN(x) = W_2 max(0, W_1 x + b_1) + b_2, the same for every position.

    Vaswani et al. 2017, equation 2; `activation` replaces max(0, ·). Dropout applies to the hidden layer.
    """

    def __init__(
        self, model_dim: int, hidden_dim: int, *, activation: Activation = "relu", dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.expand = Linear(model_dim, hidden_dim)
        self.contract = Linear(hidden_dim, model_dim)
        self.activation = activation
        self.dropout = dropout
        for layer in (self.expand, self.contract):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Float[Tensor, "*shape model_dim"]) -> Float[Tensor, "*shape model_dim"]:
        plain = is_plain(self.expand, Linear) and is_plain(self.contract, Linear)
        joined = plain and self.activation == "relu" and not (self.training and self.dropout)
        if joined and bfloat16.applies(x, self.expand.weight) and bfloat16.applies(x, self.contract.weight):
            expand, contract = ((layer.weight, layer.bias) for layer in (self.expand, self.contract))
            return bfloat16.feedforward(x, expand, contract)
        hidden = ACTIVATIONS[self.activation](self.expand(x))
        return self.contract(dropout(hidden, self.dropout, self.training))


class GatedFeedForward(nn.Module):
    """FFN(x) = W_2 (silu(W_g x) ⊙ W_1 x), without biases: SwiGLU

    W_g gates the output of W_1. There are three matrices where `FeedForward` has two, so that 2/3 of the width costs
    the same.

    Reference: Shazeer 2020, equation 6.
    """

    def __init__(self, model_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.gate = Linear(model_dim, hidden_dim, bias=False)
        self.expand = Linear(model_dim, hidden_dim, bias=False)
        self.contract = Linear(hidden_dim, model_dim, bias=False)
        for layer in (self.gate, self.expand, self.contract):
            nn.init.xavier_uniform_(layer.weight)

    def forward(self, x: Float[Tensor, "*shape model_dim"]) -> Float[Tensor, "*shape model_dim"]:
        return self.contract(silu(self.gate(x)) * self.expand(x))
