"""The loss that never lets logits go: the same number and the same gradients as through them."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy as reference

from foveate.nn.loss import projected_cross_entropy


def example(dtype: torch.dtype = torch.float64, vocab: int = 70) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    hidden = torch.randn(9, 6, dtype=dtype, requires_grad=True)
    weight = torch.randn(vocab, 6, dtype=dtype, requires_grad=True)
    return hidden, weight, torch.randint(0, vocab, (9,))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_value_and_gradients_are_those_of_cross_entropy(smoothing: float) -> None:
    hidden, weight, target = example()
    ours = projected_cross_entropy(hidden, weight, target, label_smoothing=smoothing)
    theirs = reference(hidden @ weight.mT, target, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(ours, theirs)
    for one, other in zip(
        torch.autograd.grad(3 * ours, (hidden, weight)), torch.autograd.grad(3 * theirs, (hidden, weight)), strict=True
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("vocab", [1000, 3001])
def test_under_autocast_the_gradients_are_more_exact_than_through_logits(vocab: int) -> None:
    exact_inputs = example(vocab=vocab)
    exact = torch.autograd.grad(
        reference(exact_inputs[0] @ exact_inputs[1].mT, exact_inputs[2], label_smoothing=0.1, reduction="sum"),
        exact_inputs[:2],
    )
    hidden, weight = (tensor.detach().float().requires_grad_() for tensor in exact_inputs[:2])
    with torch.autocast("cpu", torch.bfloat16):
        ours = projected_cross_entropy(hidden, weight, exact_inputs[2], label_smoothing=0.1)
        logits = reference((hidden @ weight.mT).float(), exact_inputs[2], label_smoothing=0.1, reduction="sum")
    assert ours.dtype == torch.float32
    errors = [
        sum(float((got.double() - right).norm()) for got, right in zip(grads, exact, strict=True))
        for grads in (torch.autograd.grad(ours, (hidden, weight)), torch.autograd.grad(logits, (hidden, weight)))
    ]
    assert errors[0] < errors[1]
