"""Short sequences in one kernel that reads only what is seen."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from foveate import native
from foveate.attention import (
    AdditiveConfig,
    Attention,
    Positions,
    Visibility,
    block,
    causal,
    everything,
    padding,
    prefix,
    window,
)
from foveate.attention.paths import ShortPath

KERNEL = native.load("foveate.attention.paths", "short.cpp").library is not None
PATH = ShortPath()
RULES = [
    everything(),
    causal(),
    padding(),
    causal() & padding(),
    window(left=3, right=2),
    window(left=2, right=0) & padding(),
    prefix(3),
]
SIZES = [(2, 3, 1, 5, 16), (2, 4, 7, 7, 32), (1, 2, 3, 40, 64), (3, 2, 33, 17, 48), (2, 2, 20, 20, 256)]


def inputs(size: tuple[int, ...], dtype: torch.dtype = torch.float32) -> tuple[list[Tensor], Positions]:
    batch, heads, queries, keys, dim = size
    torch.manual_seed(0)
    drawn = [torch.randn(batch, heads, length, dim, dtype=dtype) for length in (queries, keys, keys)]
    at = Positions.of(queries, keys, query_start=max(keys - queries, 0))
    return drawn, replace(at, real=Positions.of(queries, keys, key_lengths=torch.arange(batch) * 3).real)


def _run(attention: Attention, tensors: list[Tensor], at: Positions) -> Tensor:
    """By the kernel where there is one; without a compiler, which `refuses` says, what is left has to hold as well."""
    return PATH.run(attention, *tensors, at=at) if KERNEL else attention.run(*tensors, at=at)


def outcome(attention: Attention, tensors: list[Tensor], at: Positions, *, explained: bool = False) -> list[Tensor]:
    tensors = [tensor.detach().requires_grad_() for tensor in tensors]
    context = attention.explain(*tensors, at=at).context if explained else _run(attention, tensors, at)
    direction = torch.cos(torch.arange(context.numel())).view(context.shape).to(context.dtype)
    return [context.detach(), *torch.autograd.grad((context * direction).sum(), tensors)]


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_it_computes_what_explain_shows(rule: Visibility, size: tuple[int, ...], dtype: torch.dtype) -> None:
    tensors, at = inputs(size, dtype)
    attention = Attention(visibility=rule)
    exact = outcome(attention, [tensor.double() for tensor in tensors], at, explained=True)
    for mine, truth in zip(outcome(attention, tensors, at), exact, strict=True):
        tolerance = {torch.float32: 1e-5, torch.bfloat16: 1e-2}[dtype] * max(1.0, float(truth.abs().max()))
        torch.testing.assert_close(mine.double(), truth, atol=tolerance, rtol=0)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_what_lies_between_other_numbers_is_read_as_well(rule: Visibility) -> None:
    """Projections leave queries, keys and values of all heads beside each other."""
    attention, at = Attention(visibility=rule), inputs((2, 4, 9, 9, 16))[1]
    joined = torch.randn(2, 9, 3 * 4 * 16)
    views = [part.unflatten(-1, (4, 16)).transpose(1, 2) for part in joined.split(64, dim=-1)]
    for mine, other in zip(
        outcome(attention, views, at), outcome(attention, [view.contiguous() for view in views], at), strict=True
    ):
        assert torch.equal(mine, other)


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), 3e38])
def test_what_some_queries_do_not_see_does_not_reach_them(poison: float) -> None:
    (query, key, value), at = inputs((1, 2, 6, 6, 16))
    at = replace(at, real=None)
    attention = Attention(visibility=causal())
    clean = _run(attention, [query, key, value], at)
    key[:, :, 4], value[:, :, 4] = poison, poison
    dirty = _run(attention, [query, key, value], at)
    assert torch.equal(clean[:, :, :4], dirty[:, :, :4])
    assert not dirty[:, :, 4:].isfinite().all()


def test_padding_with_gaps_is_left_to_another_way() -> None:
    (query, key, value), at = inputs((1, 2, 6, 6, 16))
    at = replace(at, real=torch.tensor([True, False, True, True, False, True])[None, None, None])
    attention = Attention(visibility=padding() & causal())
    expected = attention.explain(query, key, value, at=at).context
    torch.testing.assert_close(_run(attention, [query, key, value], at), expected)


def test_it_says_what_it_does_not_do() -> None:
    x, at = torch.zeros(1, 1, 4, 16), Positions.of(4, 4)
    assert PATH.refuses(Attention(), x, x, at) == ([] if KERNEL else ["needs a C++ compiler"])
    additive = Attention(AdditiveConfig(hidden_dim=4).build(query_dim=16, key_dim=16))
    assert PATH.refuses(additive, x, x, at)[0] == "Additive is not a dot product"
    assert PATH.refuses(Attention(visibility=block(2)), x, x, at)[0] == "block(2) leaves gaps"
    assert "of 16, 32, … 256 numbers, not of 8" in PATH.refuses(Attention(), x[..., :8], x[..., :8], at)[0]
    assert "up to 512 keys, not for 600" in PATH.refuses(Attention(), x, torch.zeros(1, 1, 600, 16), at)[0]
    assert "not for torch.float64" in PATH.refuses(Attention(), x.double(), x.double(), at)[0]


@pytest.mark.parametrize(
    ("rule", "pairs"), [(everything(), 400), (causal(), 210), (window(left=3, right=0), 74), (padding(), 200)], ids=str
)
def test_what_is_hidden_costs_nothing(rule: Visibility, pairs: int) -> None:
    """Of 20 × 20 pairs: all; a triangle; 4 for each query but the first three; half, for lengths of 5 and 15."""
    x, at = torch.zeros(2, 3, 20, 16), Positions.of(20, 20, key_lengths=torch.tensor([5, 15]))
    assert PATH.cost(Attention(visibility=rule), x, x, at).flops == pytest.approx(4 * 16 * 2 * 3 * pairs)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own
def test_a_tangent_is_not_lost() -> None:
    x = torch.randn(1, 1, 5, 16)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        with pytest.raises((NotImplementedError, RuntimeError)):
            PATH.run(Attention(), dual, x, x, at=Positions.of(5, 5))
