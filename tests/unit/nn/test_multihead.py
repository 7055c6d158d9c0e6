"""Multi-head attention in the lectures' general shapes."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from foveate.attention import (
    AdditiveConfig,
    AttentionConfig,
    Dot,
    GeneralConfig,
    Positions,
    ScaledDot,
    Visibility,
    causal,
    padding,
)
from foveate.nn import MultiHeadAttention, Packing
from foveate.nn.multihead import PackedKeyValue


def shapes(layer: MultiHeadAttention) -> dict[str, tuple[int, ...]]:
    return {name: tuple(parameter.shape) for name, parameter in layer.named_parameters()}


def test_everything_defaults_to_the_query_and_equal_heads_without_biases() -> None:
    layer = MultiHeadAttention(query_dim=16, num_heads=4)
    assert shapes(layer) == {
        "query.weight": (16, 16),
        "key.weight": (16, 16),
        "value.weight": (16, 16),
        "output.weight": (16, 16),
    }
    assert layer(torch.randn(2, 5, 16)).shape == (2, 5, 16)


def test_every_width_can_be_its_own() -> None:
    """W^Q: E × E_i, W^K: E_k × E_i, W^V: E_v × E_h, W^O: E_h·H × E_a, for N queries and M keys."""
    layer = MultiHeadAttention(
        query_dim=6, key_dim=7, value_dim=8, num_heads=3, head_dim=4, value_head_dim=5, output_dim=9, bias=True
    )
    assert shapes(layer) == {
        "query.weight": (12, 6),
        "query.bias": (12,),
        "key.weight": (12, 7),
        "key.bias": (12,),
        "value.weight": (15, 8),
        "value.bias": (15,),
        "output.weight": (9, 15),
        "output.bias": (9,),
    }
    query, key, value = torch.randn(2, 4, 6), torch.randn(2, 5, 7), torch.randn(2, 5, 8)
    assert layer(query, key, value).shape == (2, 4, 9)
    explanation = layer.explain(query, key, value)
    assert explanation.weights.shape == (2, 3, 4, 5)
    assert explanation.context.shape == (2, 3, 4, 5)


def test_it_is_the_formula_head_by_head() -> None:
    layer = MultiHeadAttention(query_dim=6, key_dim=7, value_dim=8, num_heads=2, head_dim=3, value_head_dim=4).double()
    query, key, value = (torch.randn(n, d, dtype=torch.float64) for n, d in ((4, 6), (5, 7), (5, 8)))
    heads = []
    for head in range(2):
        q = query @ layer.query.weight[3 * head : 3 * head + 3].T
        k = key @ layer.key.weight[3 * head : 3 * head + 3].T
        v = value @ layer.value.weight[4 * head : 4 * head + 4].T
        heads.append((q @ k.T / 3**0.5).softmax(-1) @ v)
    expected = torch.cat(heads, -1) @ layer.output.weight.T
    torch.testing.assert_close(layer(query[None], key[None], value[None])[0], expected)


def test_values_default_to_keys_and_keys_to_queries() -> None:
    layer = MultiHeadAttention(query_dim=8, num_heads=2)
    x, y, z = torch.randn(3, 1, 4, 8).unbind(0)
    torch.testing.assert_close(layer(x), layer(x, x, x))
    torch.testing.assert_close(layer(x, y), layer(x, y, y))
    torch.testing.assert_close(layer(x, value=z), layer(x, x, z))


def test_groups_of_heads_can_share_keys_and_values() -> None:
    layer = MultiHeadAttention(query_dim=8, num_heads=4, num_kv_heads=2)
    assert shapes(layer)["key.weight"] == (4, 8)
    full = MultiHeadAttention(query_dim=8, num_heads=4)
    with torch.no_grad():
        for name in ("query", "output"):
            getattr(full, name).weight.copy_(getattr(layer, name).weight)
        for name in ("key", "value"):
            shared = getattr(layer, name).weight.view(2, 2, 8).repeat_interleave(2, 0)
            getattr(full, name).weight.copy_(shared.reshape(8, 8))
    x = torch.randn(2, 5, 8)
    torch.testing.assert_close(layer(x), full(x))
    queries, memory = layer.project(x)
    assert queries.shape == (2, 4, 5, 2)
    assert memory.key.shape == memory.value.shape == (2, 2, 5, 2)


@pytest.mark.parametrize("score", [Dot(), GeneralConfig(), AdditiveConfig(hidden_dim=3)], ids=repr)
def test_heads_accept_any_score(score: object) -> None:
    layer = MultiHeadAttention(query_dim=8, num_heads=2, attention=AttentionConfig(score=score))
    x = torch.randn(2, 5, 8)
    assert layer(x).shape == (2, 5, 8)
    assert len(layer.explain(x).weights.unique()) > 10


@pytest.mark.parametrize("score", [ScaledDot(), AdditiveConfig(hidden_dim=3)], ids=["dot", "additive"])
def test_tokens_without_padding_give_what_padded_sentences_give(score: object) -> None:
    layer = MultiHeadAttention(
        query_dim=8, num_heads=2, bias=True, attention=AttentionConfig(score=score), visibility=causal() & padding()
    )
    lengths = torch.tensor([3, 5, 1])
    packing, at = Packing(lengths, 5), Positions.of(5, 5, key_lengths=lengths)
    x = torch.randn(3, 5, 8)
    padded = layer(x, at=at)
    torch.testing.assert_close(layer(packing.pack(x), at=at, packing=packing), packing.pack(padded))


def test_cross_attention_works_between_packed_sentences() -> None:
    layer = MultiHeadAttention(query_dim=8, key_dim=6, num_heads=2, visibility=padding(), kind="cross")
    query_packing, key_packing = Packing(torch.tensor([2, 4]), 4), Packing(torch.tensor([5, 3]), 5)
    query, key = torch.randn(2, 4, 8), torch.randn(2, 5, 6)
    at = Positions.of(4, 5, key_lengths=key_packing.lengths)
    packed = layer(
        query_packing.pack(query), key_packing.pack(key), at=at, packing=query_packing, key_packing=key_packing
    )
    torch.testing.assert_close(packed, query_packing.pack(layer(query, key, at=at)))


REAL = torch.tensor([[1, 1, 0, 1, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0]]).bool()[:, None, None]
PLACES = {
    "as packed": lambda lengths: Positions.of(5, 5, key_lengths=lengths),
    "later": lambda lengths: Positions.of(5, 5, query_start=2, key_lengths=lengths),
    "backwards": lambda lengths: Positions(
        torch.arange(4, -1, -1)[:, None][None, None], torch.arange(5)[None, None, None]
    ),
    "gaps": lambda lengths: replace(Positions.of(5, 5, key_lengths=lengths), real=REAL),
    "all real": lambda lengths: Positions.of(5, 5),
}


@pytest.mark.parametrize("rule", [causal(), padding()], ids=str)
@pytest.mark.parametrize("places", PLACES)
def test_positions_decide_what_packed_tokens_see(rule: Visibility, places: str) -> None:
    """Not the packing: its kernel runs only where both agree."""
    lengths = torch.tensor([3, 5, 2])
    layer, packing = MultiHeadAttention(query_dim=32, num_heads=2, visibility=rule), Packing(lengths, 5)
    x, at = packing.unpack(torch.randn(10, 32)), PLACES[places](lengths)
    packed = layer(packing.pack(x), at=at, packing=packing)
    torch.testing.assert_close(packed, packing.pack(layer(x, at=at)), rtol=1e-4, atol=1e-5)
    memory = layer.remember_tokens(packing.pack(x), packing, packing)
    assert isinstance(memory, PackedKeyValue), "the kernel is asked"
    context = layer.look_up(packing.pack(x), memory, at=at, packing=packing)
    torch.testing.assert_close(context, packed, rtol=1e-4, atol=1e-5)


def test_later_queries_look_up_what_they_see() -> None:
    """A causal rule over two packings: a query may stand beyond the keys of its sentence."""
    queries, keys = Packing(torch.tensor([4, 2]), 4), Packing(torch.tensor([2, 4]), 4)
    layer, at = MultiHeadAttention(query_dim=32, num_heads=2, visibility=causal()), Positions.of(4, 4)
    query, key = queries.unpack(torch.randn(6, 32)), keys.unpack(torch.randn(6, 32))
    memory = layer.remember_tokens(keys.pack(key), keys, queries)
    packed = layer.look_up(queries.pack(query), memory, at=at, packing=queries)
    torch.testing.assert_close(packed, queries.pack(layer(query, key, at=at)), rtol=1e-4, atol=1e-5)


def test_dropout_falls_on_weights_in_training_only() -> None:
    layer, x = MultiHeadAttention(query_dim=8, num_heads=2, dropout=0.5), torch.randn(2, 5, 8)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


def test_heads_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="divide") as refusal:
        MultiHeadAttention(query_dim=10, num_heads=4)
    assert str(refusal.value) == "query_dim=10 does not divide into num_heads=4. Pass head_dim."
    with pytest.raises(ValueError, match="divide") as refusal:
        MultiHeadAttention(query_dim=8, num_heads=4, num_kv_heads=3)
    assert str(refusal.value) == "num_kv_heads=3 does not divide num_heads=4."


def test_new_biases_are_zero_and_weights_are_bounded() -> None:
    layer = MultiHeadAttention(query_dim=8, num_heads=2, bias=True)

    def bound(weight: Tensor) -> float:
        return (6 / sum(weight.shape)) ** 0.5

    for name, parameter in layer.named_parameters():
        if name.endswith("bias"):
            assert (parameter == 0).all()
        else:
            assert parameter.abs().max() <= bound(parameter)


@pytest.mark.parametrize(
    ("make", "kind", "says"),
    [
        (
            lambda: MultiHeadAttention(query_dim=16, num_heads=4)(torch.randn(2, 5, 12)),
            ValueError,
            "A layer for vectors of 16 numbers got a tensor of shape (2, 5, 12).",
        ),
        (lambda: MultiHeadAttention(query_dim=16, num_heads=0), ValueError, "num_heads=0 must be at least 1."),
        (
            lambda: MultiHeadAttention(query_dim=16, num_heads=4, attention="linear"),
            TypeError,
            "`attention` is 'linear'. Give a configuration, such as AttentionConfig() or LinearConfig().",
        ),
    ],
)
def test_what_heads_cannot_be_made_of(unchecked: None, make: object, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind) as refusal:
        make()
    assert says in str(refusal.value)
