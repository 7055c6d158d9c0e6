"""Products in bfloat16 by our own kernels: held to float64, and to torch's own error in the same precision."""

import ctypes
import inspect
from pathlib import Path

import pytest
import torch
from torch import Tensor

from foveate import native
from foveate.nn import bfloat16
from foveate.nn.feedforward import FeedForward
from foveate.nn.linear_layer import linear
from foveate.nn.loss import projected_cross_entropy

pytestmark = pytest.mark.usefixtures("registers")
SIZES = [(7, 6, 10), (33, 256, 768), (101, 64, 130), (1, 64, 1000), (517, 34, 66), (12, 1024, 64), (300, 1030, 300)]
SIZES += [(1027, 66, 258), (40, 1024, 600), (40, 1056, 600)]
"""Rows, inputs, outputs: whole tiles, what is left over on every side, and sums and columns that come in parts."""
SLACK = 1.1
"""How much larger than torch's own our error may be: roundings fall differently."""


@pytest.fixture(autouse=True)
def _small_products_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bfloat16, "TINY", 0)


def error(result: Tensor, exact: Tensor) -> float:
    return float((result.detach().double() - exact.detach()).norm() / exact.detach().norm())


def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bfloat16, "kernels", lambda: None)


def test_a_processor_with_the_instructions_gets_the_kernels() -> None:
    """A mistake in the C++ must not hide behind the way without kernels."""
    information = Path("/proc/cpuinfo")
    able = information.exists() and "avx512_bf16" in information.read_text()
    assert (bfloat16.kernels() is not None) == (able and native.load("foveate.nn", "bfloat16.cpp").library is not None)


def test_a_processor_with_tiles_uses_them() -> None:
    library = bfloat16.kernels()
    if library is not None:
        library.want_tiles(ctypes.c_int64(1))
        assert bool(library.uses_tiles()) == native.has_tiles()
        library.want_tiles(ctypes.c_int64(0))
        assert not library.uses_tiles()


@pytest.mark.parametrize(("rows", "inputs", "outputs"), SIZES)
def test_a_product_and_its_gradients_err_no_more_than_torch_does(
    rows: int, inputs: int, outputs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(rows)
    leaves = [torch.randn(*shape, requires_grad=True) for shape in ((rows, inputs), (outputs, inputs), (outputs,))]
    grad = torch.randn(rows, outputs).bfloat16()

    def with_gradients() -> list[Tensor]:
        with torch.autocast("cpu", torch.bfloat16):
            y = linear(*leaves)
        return [y, *torch.autograd.grad(y, leaves, grad)]

    x, weight, bias = (leaf.double() for leaf in leaves)
    light = grad.double()
    exact = [x @ weight.mT + bias, light @ weight, light.mT @ x, light.sum(0)]
    ours = with_gradients()
    without_kernels(monkeypatch)
    for mine, theirs, truth in zip(ours, with_gradients(), exact, strict=True):
        assert mine.dtype == theirs.dtype
        assert error(mine, truth) <= SLACK * error(theirs, truth) + 1e-7


def test_a_feed_forward_network_errs_no_more_than_torch_does(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    network = FeedForward(64, 130)
    x, grad = torch.randn(37, 64, requires_grad=True), torch.randn(37, 64)
    leaves = [x, *network.parameters()]

    def gradients(network: FeedForward, x: Tensor, leaves: list[Tensor]) -> tuple[Tensor, ...]:
        return torch.autograd.grad(network(x), leaves, grad.to(network(x).dtype))

    with torch.autocast("cpu", torch.bfloat16):
        ours = gradients(network, x, leaves)
        without_kernels(monkeypatch)
        theirs = gradients(network, x, leaves)
    twin = FeedForward(64, 130).double()
    twin.load_state_dict(network.state_dict())
    wide = x.detach().double().requires_grad_()
    exact = gradients(twin, wide, [wide, *twin.parameters()])
    for mine, other, truth in zip(ours, theirs, exact, strict=True):
        assert error(mine, truth) <= SLACK * error(other, truth)


@pytest.mark.parametrize("vocab", [100, 1002])
def test_the_joint_loss_errs_no_more_with_kernels_than_without(vocab: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    hidden, weight = torch.randn(45, 32, requires_grad=True), torch.randn(vocab, 32, requires_grad=True)
    target = torch.randint(vocab, (45,))

    def with_gradients(hidden: Tensor, weight: Tensor) -> list[Tensor]:
        loss = projected_cross_entropy(hidden, weight, target, label_smoothing=0.1)
        return [loss, *torch.autograd.grad(loss, (hidden, weight))]

    exact = with_gradients(hidden.double(), weight.double())
    with torch.autocast("cpu", torch.bfloat16):
        ours = with_gradients(hidden, weight)
        without_kernels(monkeypatch)
        theirs = with_gradients(hidden, weight)
    for mine, other, truth in zip(ours, theirs, exact, strict=True):
        assert error(mine, truth) <= SLACK * error(other, truth) + 1e-5


def test_nan_and_infinity_reach_the_result_and_no_other_row() -> None:
    x, weight = torch.ones(3, 64), torch.ones(64, 64, requires_grad=True)
    x[0, 5], x[1, 5] = torch.nan, torch.inf
    with torch.autocast("cpu", torch.bfloat16):
        y = linear(x, weight)
    assert y[0].isnan().all()
    assert y[1].isinf().all()
    assert (y[2] == 64).all()


def test_only_training_under_autocast_on_a_cpu_takes_the_kernels() -> None:
    x, weight = torch.randn(4, 8), torch.randn(6, 8, requires_grad=True)
    assert not bfloat16.applies(x, weight)
    with torch.autocast("cpu", torch.bfloat16):
        assert bfloat16.applies(x, weight) == (bfloat16.kernels() is not None)
        assert not bfloat16.applies(x.double(), weight.double())
        assert not bfloat16.applies(x[:, :7], weight[:, :7])
        with torch.no_grad():
            assert not bfloat16.applies(x, weight)


def test_a_single_vector_is_a_row_without_its_axis() -> None:
    x, network = torch.randn(64), FeedForward(64, 96)
    with torch.autocast("cpu", torch.bfloat16):
        for layer in (network.expand, network):
            assert torch.equal(layer(x), layer(x[None])[0])


def test_vectors_of_another_width_are_refused_in_words() -> None:
    """The kernel would read behind them, and users have no checker of shapes as tests do."""
    if bfloat16.kernels() is not None:
        with pytest.raises(ValueError, match="for vectors of 6 numbers got vectors of 4"):
            inspect.unwrap(bfloat16.product)(torch.zeros(3, 4, dtype=torch.bfloat16), torch.zeros(8, 6), None)


def test_nan_passes_a_relu_and_its_gate() -> None:
    """A ReLU that hides NaN would hide that training has gone wrong."""
    if bfloat16.kernels() is None:
        return
    x, weight, bias = torch.randn(40, 64).bfloat16(), torch.randn(130, 64), torch.randn(130)
    x[3, 7] = torch.nan
    hidden = bfloat16.product(x, weight, bias, relu=True)
    assert hidden[3].isnan().all()
    assert hidden[4:].isfinite().all()
    gradient = bfloat16.to_inputs(torch.ones(40, 64).bfloat16(), weight.mT.contiguous(), torch.bfloat16, gate=hidden)
    assert gradient[3].all()
    assert torch.equal(gradient[4:] != 0, hidden[4:] != 0)


@pytest.mark.parametrize("kind", ["linear", "feedforward"])
@pytest.mark.parametrize("light", [False, True])
def test_second_derivatives_err_as_little_as_bfloat16_rounds(kind: str, light: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(9, 32, requires_grad=True)
    shapes = ((16, 32), (16,), (8, 16), (8,)) if kind == "feedforward" else ((16, 32), (16,))
    weights = [(0.3 * torch.randn(shape)).requires_grad_() for shape in shapes]

    def result(x: Tensor) -> Tensor:
        if kind == "linear":
            return linear(x, *weights)
        if bfloat16.applies(x, weights[0]) and bfloat16.applies(x[:, :16], weights[2]):
            return bfloat16.feedforward(x, (weights[0], weights[1]), (weights[2], weights[3]))
        return linear(linear(x, *weights[:2]).relu(), *weights[2:])

    answers = []
    for half in (True, False):
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            y = result((2 * x).bfloat16() if light and half else 2 * x)
        slopes = torch.autograd.grad(y.float().sin().sum(), [x, *weights], create_graph=True)
        penalty = sum(slope.square().sum() for slope in slopes)
        answers.append(torch.autograd.grad(penalty, [x, *weights]))
    for one, other in zip(*answers, strict=True):
        assert error(one, other) <= 0.05
