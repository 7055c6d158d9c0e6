"""Dropout by sixteen random bits a value."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from foveate.nn.dropout import add_dropped, add_dropped_and_norm, dropout, kernels

ONES = torch.ones(1000, 320)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_a_share_of_the_values_is_zero_and_the_rest_makes_up_for_it(rate: float) -> None:
    output = dropout(ONES, rate)
    assert (output == 0).float().mean().item() == pytest.approx(rate, abs=0.005)
    assert output.mean().item() == pytest.approx(1, abs=0.02)
    assert len(output.unique()) == 2


def test_rows_and_columns_are_dropped_independently() -> None:
    zeros = (dropout(ONES, 0.5) == 0).double()
    assert zeros.mean(0).std().item() == pytest.approx(0.5 / 1000**0.5, rel=0.2)
    assert zeros.mean(1).std().item() == pytest.approx(0.5 / 301**0.5, rel=0.2)
    neighbours = (zeros[:, 1:] * zeros[:, :-1]).mean().item()
    assert neighbours == pytest.approx(0.25, abs=0.005)


def test_the_seed_decides_and_nothing_else() -> None:
    torch.manual_seed(3)
    first = dropout(ONES, 0.3)
    torch.manual_seed(3)
    assert torch.equal(dropout(ONES, 0.3), first)
    assert not torch.equal(dropout(ONES, 0.3), first)


def test_the_gradient_passes_where_the_value_passes() -> None:
    x = torch.randn(40, 32, requires_grad=True)
    y = dropout(x, 0.4)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(y, x * gradient)


def test_a_residual_adds_what_dropout_leaves() -> None:
    x, y = torch.randn(40, 32, requires_grad=True), torch.randn(40, 32, requires_grad=True)
    added = add_dropped(x, y, 0.4)
    to_x, to_y = torch.autograd.grad(added.sum(), (x, y))
    assert (to_x == 1).all()
    torch.testing.assert_close(added, x + y * to_y)


@pytest.mark.parametrize(("rate", "training"), [(0.0, True), (0.5, False)])
def test_there_is_nothing_to_drop_outside_training(rate: float, training: bool) -> None:
    x = torch.randn(3, 4)
    assert dropout(x, rate, training) is x
    assert torch.equal(add_dropped(x, x, rate, training), 2 * x)


def test_a_rate_of_one_is_refused() -> None:
    with pytest.raises(ValueError, match="rate") as refusal:
        dropout(ONES, 1.0)
    assert str(refusal.value) == "rate is a dropout probability and must be in [0, 1), got 1.0"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_a_residual_and_its_norm_in_one_pass_are_the_two_after_one_another(rate: float, dtype: torch.dtype) -> None:
    norm = torch.nn.LayerNorm(64)
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    x, y = torch.randn(130, 64, requires_grad=True), torch.randn(130, 64).to(dtype).requires_grad_()
    torch.manual_seed(5)
    factor = add_dropped(torch.zeros(130, 64), torch.ones(130, 64).to(dtype), rate)
    torch.manual_seed(5)
    ours = add_dropped_and_norm(x, y, rate, norm, True)
    theirs = norm(x + factor * y) if kernels() else ours
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    leaves, grad = [x, y, *norm.parameters()], torch.randn(130, 64)
    gradients = (torch.autograd.grad(each, leaves, grad, retain_graph=True) for each in (ours, theirs))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_are_the_same_with_another_default_dtype(doubles: Callable[[], Any]) -> None:
    norm = torch.nn.LayerNorm(32)
    leaves = [torch.randn(70, 32, requires_grad=True), torch.randn(70, 32, requires_grad=True), *norm.parameters()]
    answers = []
    for within in (contextlib.nullcontext, doubles):
        torch.manual_seed(1)
        with within():
            added = add_dropped_and_norm(leaves[0], leaves[1], 0.3, norm, training=True)
            answers.append(torch.autograd.grad(added.square().sum(), leaves))
    for one, other in zip(*answers, strict=True):
        assert torch.equal(one, other)


def test_without_a_compiler_random_words_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foveate.nn.dropout.kernels", lambda: None)
    test_the_seed_decides_and_nothing_else()
    test_the_gradient_passes_where_the_value_passes()
    test_a_residual_adds_what_dropout_leaves()
    test_rows_and_columns_are_dropped_independently()


@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("normed", [False, True])
def test_second_derivatives_are_those_of_the_same_noise_written_out(rate: float, adds: bool, normed: bool) -> None:
    if normed and not adds:
        return
    torch.manual_seed(0)
    x, y = (torch.randn(5, 32, requires_grad=True) for _ in range(2))
    norm = torch.nn.LayerNorm(32)
    torch.nn.init.normal_(norm.weight)

    def ours(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(1)
        if normed:
            return add_dropped_and_norm(x, y, rate, norm, training=True)
        return add_dropped(x, y, rate) if adds else dropout(y, rate)

    torch.manual_seed(1)
    keep = dropout(torch.ones(5, 32), rate)

    def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total = x + y * keep if adds else y * keep
        return norm(total) if normed else total

    inputs = [y, *([x] if adds else []), *(norm.parameters() if normed else [])]
    answers = []
    for function in (ours, written):
        result = function(x * 2, y.sin())
        slopes = torch.autograd.grad(result.square().sum() + result.sin().sum(), inputs, create_graph=True)
        answers.append(torch.autograd.grad(sum(slope.square().sum() for slope in slopes), inputs))
    for one, other in zip(*answers, strict=True):
        torch.testing.assert_close(one, other, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("width", [31, 32])
def test_a_rate_next_to_one_keeps_hardly_anything(width: int) -> None:
    y = dropout(torch.ones(100, width), 0.999999)
    assert (y == 0).float().mean() > 0.99
    assert y.isfinite().all()


def test_norms_that_the_kernel_does_not_read_are_torch_s() -> None:
    x, y = torch.randn(2, 4, 32, requires_grad=True), torch.randn(2, 4, 32)
    over_two = nn.LayerNorm((4, 32))
    torch.testing.assert_close(add_dropped_and_norm(x, y, 0.0, over_two, True), over_two(x + y))
    for kind in (torch.float64, torch.bfloat16):
        with pytest.raises(RuntimeError, match="mixed dtype"):
            add_dropped_and_norm(x, y, 0.0, nn.LayerNorm(32).to(kind), True)
