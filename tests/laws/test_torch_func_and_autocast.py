"""torch.func and autocast: every path computes the context of `explain`, and in its number type, or is not chosen."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import grad, vmap

from foveate.attention import (
    AdditiveConfig,
    Alibi,
    Attention,
    CosineConfig,
    Entmax,
    GeneralConfig,
    Positions,
    RelativeBuckets,
    ReLU,
    Rotary,
    Sigmoid,
    Softmax,
    Sparsemax,
    causal,
    edges,
    padding,
    window,
)
from foveate.attention.paths import PATHS, BandedPath, TiledPath

HEADS = 2
CUT = (*PATHS, BandedPath(tile=16), TiledPath(tile=16))
SIZES = [(6, 16), (40, 16), (300, 64), (600, 16)]
"""Positions and numbers of a head: what one call of torch, products, tiles and blocks of queries are chosen for."""
SAME = {"rtol": 1e-4, "atol": 2e-4}


def attentions(positions: int, dim: int) -> dict[str, Attention]:
    torch.manual_seed(0)
    sides = {"query_dim": dim, "key_dim": dim}
    ring = torch.stack([torch.arange(positions), (torch.arange(positions) + 1) % positions])
    return {
        "dot": Attention(),
        "causal": Attention(visibility=causal()),
        "padding": Attention(visibility=padding()),
        "window": Attention(visibility=window(left=8, right=8)),
        "sigmoid": Attention(visibility=window(left=8, right=8), normaliser=Sigmoid()),
        "temperature": Attention(normaliser=Softmax(temperature=2.0)),
        "sparsemax": Attention(normaliser=Sparsemax()),
        "entmax": Attention(normaliser=Entmax()),
        "relu": Attention(normaliser=ReLU()),
        "learned bias": Attention(bias=RelativeBuckets(num_heads=HEADS)),
        "alibi": Attention(bias=Alibi(num_heads=HEADS)),
        "rotary": Attention(transforms=(Rotary(),)),
        "general": Attention(GeneralConfig().build(**sides)),
        "cosine": Attention(CosineConfig().build(**sides)),
        "additive": Attention(AdditiveConfig(hidden_dim=5).build(**sides), visibility=causal()),
        "edges": Attention(visibility=edges(ring)),
    }


NAMES = list(attentions(6, 16))


def case(name: str, positions: int, dim: int) -> tuple[Attention, Tensor, Positions]:
    attention = attentions(positions, dim)[name]
    lengths = torch.tensor([positions - 2]) if name == "padding" else None
    return attention, torch.randn(2, 1, HEADS, positions, dim), Positions.of(positions, positions, key_lengths=lengths)


def contexts(attention: Attention, x: Tensor, at: Positions) -> dict[str, Tensor]:
    """The context of every path that accepts, and of the one that is chosen."""
    query, key, places = attention._placed(x, x, x, at)
    results = {"run": attention.run(x, x, x, at=at)}
    for path in CUT:
        if not path.refuses(attention, query, key, places):
            options: dict[str, Any] = {"at": places, "key_features": None, "dropout": 0.0}
            results[f"{path.name} {getattr(path, 'tile', '')}"] = path.run(attention, query, key, x, **options)
    return results


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # torch maps its kernel one example at a time
@pytest.mark.parametrize(("positions", "dim"), SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_every_path_can_be_transformed_by_torch_func(name: str, positions: int, dim: int) -> None:
    attention, x, at = case(name, positions, dim)
    attention.requires_grad_(False)
    leaf = x[0].clone().requires_grad_()
    context = attention.explain(leaf, leaf, leaf, at=at).context
    (slope,) = torch.autograd.grad(context.square().sum(), leaf)

    def loss(part: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        results = contexts(attention, part, at)
        return sum((each.square().sum() for each in results.values()), torch.zeros(())), results

    slopes, results = grad(loss, has_aux=True)(x[0])
    for path, got in results.items():
        torch.testing.assert_close(got, context, **SAME, msg=lambda message, path=path: f"{path}: {message}")
    torch.testing.assert_close(slopes / len(results), slope, **SAME)
    for path, got in vmap(lambda part: contexts(attention, part, at))(x).items():
        torch.testing.assert_close(got[0], context, **SAME, msg=lambda message, path=path: f"{path}: {message}")


@pytest.mark.parametrize("queries", [1, 4, 5, 40])
@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_under_autocast_every_path_answers_in_the_type_of_the_reference(name: str, queries: int) -> None:
    attention, x, at = case(name, 40, 16)
    at = at.rows(slice(40 - queries, 40))
    query, key = x[0][:, :, 40 - queries :], x[0]
    for poison in (0.0, torch.inf):
        value = key.clone()
        value[:, :, 39] += poison  # what is not finite takes ways of its own
        with torch.autocast("cpu", dtype=torch.bfloat16):
            expected = attention.explain(query, key, value, at=at).context
            assert attention.run(query, key, value, at=at).dtype == expected.dtype
            placed = attention._placed(query, key, value, at)
            for path in CUT:
                if not path.refuses(attention, placed[0], placed[1], placed[2]):
                    options: dict[str, Any] = {"at": placed[2], "key_features": None, "dropout": 0.0}
                    got = path.run(attention, placed[0], placed[1], value, **options)
                    assert got.dtype == expected.dtype, path.name


@pytest.mark.parametrize("kind", [torch.float32, torch.float16])
@torch.no_grad()
def test_tiles_without_keys_have_the_type_of_the_others_under_autocast(kind: torch.dtype) -> None:
    attention = Attention(visibility=window(left=8, right=8), normaliser=Sigmoid())
    at, query, key = Positions.of(1200, 600), torch.randn(1, 1, 1200, 16).to(kind), torch.randn(1, 1, 600, 16).to(kind)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = attention.explain(query, key, key, at=at).context
        got = attention.run(query, key, key, at=at)
    assert got.dtype == expected.dtype
    torch.testing.assert_close(got, expected, rtol=2e-2, atol=2e-2)
