"""Synthesizer by hand: rows of made-up scores, and nothing of the keys in them."""

import pytest
import torch

from foveate.attention import Positions, causal, everything, padding
from foveate.attention.efficient import SynthesizerConfig


def test_the_dense_form_is_a_network_of_the_query() -> None:
    attention = SynthesizerConfig(form="dense", max_length=6).build(
        query_dim=4, key_dim=4, num_heads=2, visibility=everything(), kind="self"
    )
    query, key, value = torch.randn(3, 1, 2, 5, 4)
    score = attention.score
    hidden = (query @ score.first_weight + score.first_bias).relu()
    scores = (hidden @ score.second_weight + score.second_bias)[..., :5]
    torch.testing.assert_close(attention.run(query, key, value), scores.softmax(-1) @ value)


def test_the_random_form_is_a_table() -> None:
    attention = SynthesizerConfig(form="random", max_length=6).build(
        query_dim=4, key_dim=4, num_heads=2, visibility=causal(), kind="self"
    )
    x = torch.randn(3, 2, 5, 4)
    hidden = torch.full((5, 5), -torch.inf).triu(1)
    expected = (attention.score.table[:, :5, :5] + hidden).softmax(-1)
    torch.testing.assert_close(attention.explain(x, x, x).weights, expected.expand(3, -1, -1, -1))


def test_the_factorised_form_is_a_product_with_fewer_numbers() -> None:
    attention = SynthesizerConfig(form="factorised", max_length=32, rank=2).build(
        query_dim=4, key_dim=4, num_heads=2, visibility=everything(), kind="self"
    )
    assert sum(parameter.numel() for parameter in attention.parameters()) == 2 * 2 * 32 * 2
    x = torch.randn(1, 2, 5, 4)
    scores = attention.explain(x, x, x).scores
    torch.testing.assert_close(scores[0], attention.score.of_query[:, :5] @ attention.score.of_key[:, :5].mT)


def test_longer_inputs_are_refused_but_padding_and_free_room_may_be_longer() -> None:
    attention = SynthesizerConfig(max_length=4).build(query_dim=4, key_dim=4, visibility=padding(), kind="self")
    x = torch.randn(1, 1, 6, 4)
    with pytest.raises(ValueError, match="built for 4 positions, but the input reaches position 5"):
        attention.run(x, x, x)
    assert attention.run(x, x, x, at=Positions.of(6, 6, key_lengths=torch.tensor([4]))).isfinite().all()
    assert attention.run(x[:, :, :1], x, x, at=Positions.of(1, 6, query_start=3)).isfinite().all()


def test_across_two_sequences_it_is_refused() -> None:
    with pytest.raises(ValueError, match="does not look at keys"):
        SynthesizerConfig().build(query_dim=4, key_dim=4, visibility=padding(), kind="cross")
