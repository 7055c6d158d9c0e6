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


def test_a_frequent_answer_learns_from_all_its_tokens_in_half_precision() -> None:
    """A sum in bfloat16 would stop growing after some hundred tokens."""
    torch.manual_seed(0)
    hidden, weight = torch.ones(900, 4).bfloat16(), (0.1 * torch.randn(5, 4)).bfloat16().requires_grad_()
    target = torch.zeros(900, dtype=torch.long)
    exact = weight.detach().double().requires_grad_()
    reference(hidden.double() @ exact.mT, target, reduction="sum").backward()
    projected_cross_entropy(hidden, weight, target).backward()
    assert (weight.grad.double() - exact.grad).abs().max() <= 2**-6 * exact.grad.abs().max()


def test_second_derivatives_are_those_of_the_plain_loss() -> None:
    torch.manual_seed(0)
    hidden, weight = torch.randn(7, 4, requires_grad=True), torch.randn(5, 4, requires_grad=True)
    target = torch.randint(0, 5, (7,))
    answers = []
    for loss in (
        projected_cross_entropy(hidden, weight, target, label_smoothing=0.1),
        reference(hidden @ weight.mT, target, label_smoothing=0.1, reduction="sum"),
    ):
        slopes = torch.autograd.grad(loss, (hidden, weight), create_graph=True)
        answers.append(torch.autograd.grad(sum(slope.square().sum() for slope in slopes), (hidden, weight)))
    for one, other in zip(*answers, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
