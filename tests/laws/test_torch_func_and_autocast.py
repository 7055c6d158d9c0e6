"""torch.func and autocast: every path computes the context of `explain`, and in its number type, or is not chosen."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import functional_call, grad, jvp, vjp, vmap
from torch.utils.flop_counter import FlopCounterMode

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
from foveate.data.batch import Batch
from foveate.models import BahdanauConfig, GPTConfig, RecurrentLanguageModelConfig, TransformerConfig
from foveate.nn import BlockConfig
from foveate.nn.dropout import add_dropped, dropout
from foveate.nn.loss import projected_cross_entropy

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
IN_TORCH = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
"""torch's own rules of forward differentiation."""


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


@IN_TORCH
@pytest.mark.parametrize(("positions", "dim"), SIZES[:2])
@pytest.mark.parametrize("name", NAMES)
def test_every_path_has_the_derivatives_of_the_reference_in_both_directions(
    name: str, positions: int, dim: int
) -> None:
    """The backward pass of `vjp` runs outside of what torch.func transforms, the forward one beside the numbers."""
    attention, x, at = case(name, positions, dim)
    x, along = x

    def defined(part: Tensor) -> Tensor:
        return attention.explain(part, part, part, at=at).context

    def every(part: Tensor) -> dict[str, Tensor]:
        return contexts(attention, part, at)

    tangent, (slope,) = jvp(defined, (x,), (along,))[1], vjp(defined, x)[1](along)
    with forward_ad.dual_level():
        beside = {path: forward_ad.unpack_dual(got) for path, got in every(forward_ad.make_dual(x, along)).items()}
    tangents = [*jvp(every, (x,), (along,))[1].items(), *((path, dual.tangent) for path, dual in beside.items())]
    for path, got in tangents:
        torch.testing.assert_close(got, tangent, **SAME, msg=lambda message, path=path: f"{path}: {message}")
    results, back = vjp(every, x)
    (slopes,) = back(dict.fromkeys(results, along))
    torch.testing.assert_close(slopes / len(results), slope, **SAME)


@IN_TORCH
def test_torch_func_makes_a_choice_of_its_own_after_one_while_operations_were_counted() -> None:
    attention, x, _ = case("dot", 40, 16)
    with FlopCounterMode(display=False):
        attention.run(x[0], x[0], x[0])
    expected = jvp(lambda part: attention.explain(part, part, part).context, (x[0],), (x[1],))
    got = jvp(lambda part: attention.run(part, part, part), (x[0],), (x[1],))
    torch.testing.assert_close(got, expected, **SAME)


BLOCK = BlockConfig(model_dim=32, num_heads=2, feedforward_dim=32)
SOURCE, TARGET = Batch.of([[3, 4, 5], [6, 7]]), Batch.of([[1, 4, 5], [1, 7]])
MODELS: dict[str, tuple[Any, tuple[int, ...], tuple[Batch, ...]]] = {
    "transformer": (TransformerConfig(block=BLOCK, encoder_layers=1, decoder_layers=1), (9, 9), (SOURCE, TARGET)),
    "gpt": (GPTConfig(block=BLOCK, num_layers=1), (9,), (SOURCE,)),
    "bahdanau": (BahdanauConfig(hidden_dim=8, embedding_dim=8, maxout_dim=8), (9, 9), (SOURCE, TARGET)),
    "lstm": (RecurrentLanguageModelConfig(hidden_dim=8, embedding_dim=8, cell="lstm"), (9,), (SOURCE,)),
}


@IN_TORCH
@pytest.mark.parametrize("name", MODELS)
def test_models_are_functions_of_their_weights_for_torch_func(name: str) -> None:
    config, sizes, batches = MODELS[name]
    torch.manual_seed(0)
    model = config.build(*sizes).eval()
    own = dict(model.named_parameters())
    weights = {name: weight.detach() for name, weight in own.items()}
    along = {name: 0.1 * torch.randn_like(weight) for name, weight in own.items()}

    def run(parameters: dict[str, Tensor]) -> Tensor:
        return functional_call(model, parameters, batches)

    logits = model(*batches)
    share = torch.randn_like(logits)
    slopes = dict(zip(own, torch.autograd.grad((logits * share).sum(), list(own.values())), strict=True))
    torch.testing.assert_close(vjp(run, weights)[1](share)[0], slopes, **SAME)
    torch.testing.assert_close(grad(lambda parameters: (run(parameters) * share).sum())(weights), slopes, **SAME)
    change = sum(((slopes[name] * along[name]).sum() for name in own), torch.zeros(()))
    torch.testing.assert_close((jvp(run, (weights,), (along,))[1] * share).sum(), change, rtol=1e-3, atol=1e-3)
    if name in ("transformer", "gpt"):  # torch does not map recurrent layers
        two = vmap(run)({name: torch.stack([weights[name], weights[name] + along[name]]) for name in own})
        torch.testing.assert_close(two[0], logits.detach(), **SAME)


def test_losses_and_dropout_of_training_are_functions_for_torch_func() -> None:
    hidden, weight, target = torch.randn(9, 32), torch.randn(20, 32), torch.randint(20, (9,))
    learning = hidden.clone().requires_grad_()
    (slope,) = torch.autograd.grad(projected_cross_entropy(learning, weight, target), learning)
    torch.testing.assert_close(grad(lambda x: projected_cross_entropy(x, weight, target))(hidden), slope, **SAME)
    for drop in (lambda x: dropout(x, 0.5), lambda x: add_dropped(x, x, 0.5) - x):
        kept = grad(lambda x, drop=drop: drop(x).sum())(hidden)
        assert set(kept.unique().tolist()) == {0.0, 2.0}


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
