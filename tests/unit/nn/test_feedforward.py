"""The position-wise network."""

import math

import pytest
import torch

from foveate.nn import FeedForward


@pytest.mark.parametrize(
    ("activation", "formula"),
    [
        ("relu", lambda x: x.clamp(min=0)),
        ("gelu", lambda x: x * (1 + torch.erf(x / math.sqrt(2))) / 2),
        ("silu", lambda x: x / (1 + torch.exp(-x))),
    ],
)
def test_the_network_is_its_formula(activation: str, formula: object) -> None:
    layer, x = FeedForward(4, 7, activation=activation), torch.randn(2, 3, 4)
    hidden = formula(x @ layer.expand.weight.T + layer.expand.bias)
    torch.testing.assert_close(layer(x), hidden @ layer.contract.weight.T + layer.contract.bias)


def test_every_position_is_computed_alike() -> None:
    layer, x = FeedForward(4, 7), torch.randn(5, 4)
    torch.testing.assert_close(layer(x)[2], layer(x[2]))


def test_dropout_falls_on_the_hidden_layer_in_training_only() -> None:
    layer, x = FeedForward(4, 7, dropout=0.5), torch.randn(5, 4)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))
