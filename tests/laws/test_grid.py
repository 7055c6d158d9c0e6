"""On a grid, every path that accepts an attention computes what explain shows, with the same gradients."""

import random

import pytest
import torch
from torch import Tensor

from foveate.attention import Attention, GridGaussian, GridRotary, Positions, global_tokens, neighbourhood, padding
from foveate.attention.paths import PATHS, BandedPath, TiledPath

CUT = (*PATHS, BandedPath(tile=4), TiledPath(tile=4))
"""Small grids would be one tile each."""


def attention_of(rng: random.Random, heads: int, dim: int) -> Attention:
    columns, first = rng.randint(2, 5), rng.randint(0, 2)
    near = neighbourhood(columns=columns, reach=(rng.randint(0, 2), rng.randint(0, 2)), first=first)
    rule = rng.choice([near | global_tokens(first), near, padding()]) & padding()
    rotary = GridRotary(columns=columns, first=first, layout=rng.choice(["interleaved", "halves"]))
    bias = GridGaussian(num_heads=heads, columns=columns, first=first, focus=rng.choice([0.3, 2.0]))
    return Attention(
        visibility=rule, transforms=rng.choice([(), (rotary,)]), bias=rng.choice([None, bias, bias])
    ).double()


def outcome(attention: Attention, path: object, inputs: list[Tensor], at: Positions) -> list[Tensor]:
    """The context by a path, or by explain without one, and the gradients of all that learns."""
    inputs = [tensor.clone().requires_grad_() for tensor in inputs]
    if path is None:
        context = attention.explain(*inputs, at=at).context
    else:
        only = Attention(
            visibility=attention.visibility, transforms=attention.transforms, bias=attention.bias, paths=(path,)
        )
        context = only.run(*inputs, at=at)
    learning = [*inputs, *attention.parameters()]
    weight = torch.linspace(-1, 1, context.numel(), dtype=context.dtype).view_as(context)
    return [context, *torch.autograd.grad((weight * context).sum(), learning, materialize_grads=True)]


@pytest.mark.parametrize("seed", range(40))
def test_every_path_that_accepts_an_attention_on_a_grid_computes_what_explain_shows(seed: int) -> None:
    rng = random.Random(seed)
    torch.manual_seed(seed)
    heads, dim, length = rng.choice([1, 2]), rng.choice([4, 8]), rng.randint(1, 30)
    attention = attention_of(rng, heads, dim)
    inputs = [torch.randn(2, heads, length, dim, dtype=torch.float64) for _ in range(3)]
    at = Positions.of(length, length, key_lengths=torch.tensor([length, rng.randint(0, length)]))
    expected, accepting = outcome(attention, None, inputs, at), 0
    formula = Attention(visibility=attention.visibility, bias=attention.bias)
    for path in CUT:
        if not path.refuses(formula, inputs[0], inputs[1], at):
            accepting += 1
            for one, other in zip(outcome(attention, path, inputs, at), expected, strict=True):
                torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)
    assert accepting >= 2


def test_a_large_grid_is_computed_in_a_band() -> None:
    """Of 40 × 40 patches, each sees nine: the path leaves out the rest."""
    attention = Attention(visibility=neighbourhood(columns=40, reach=1, first=1))
    x = torch.randn(1, 1, 1601, 16)
    plan = attention.plan(x, x)
    assert plan.chosen == "banded"
    torch.testing.assert_close(attention.run(x, x, x), attention.explain(x, x, x).context, atol=1e-5, rtol=1e-5)
