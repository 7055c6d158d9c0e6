"""Linformer: a softmax over mixtures, which is full attention when nothing is mixed."""

import pytest
import torch

from foveate.attention import Attention, Positions, causal, everything, padding
from foveate.attention.efficient import LinformerAttention, LinformerConfig


def unmixed(length: int) -> LinformerAttention:
    attention = LinformerAttention(max_length=length, projected_length=length).double()
    with torch.no_grad():
        for mixing in (attention.key_mixing, attention.value_mixing):
            mixing.copy_(torch.eye(length))
    return attention


def test_with_the_identity_it_is_full_attention() -> None:
    query, key, value = torch.randn(3, 2, 2, 6, 4, dtype=torch.float64)
    explanation, full = unmixed(6).explain(query, key, value), Attention().explain(query, key, value)
    torch.testing.assert_close(explanation.weights, full.weights)
    torch.testing.assert_close(explanation.context, full.context)
    torch.testing.assert_close(unmixed(6).run(query, key, value), full.context)


def test_it_is_its_equation() -> None:
    attention = LinformerAttention(max_length=9, projected_length=3, num_heads=2, share="none").double()
    query, key, value = torch.randn(3, 1, 2, 7, 4, dtype=torch.float64)
    keys, values = (
        mixing[:, :, :7] @ x for mixing, x in ((attention.key_mixing, key), (attention.value_mixing, value))
    )
    expected = (query @ keys.mT / 2).softmax(-1) @ values
    torch.testing.assert_close(attention.run(query, key, value), expected)


@pytest.mark.parametrize(("share", "numbers"), [("none", 4 * 2), ("heads", 2), ("key_value", 1)])
def test_sharing_saves_mixings(share: str, numbers: int) -> None:
    attention = LinformerAttention(max_length=5, projected_length=3, num_heads=4, share=share)
    assert sum(parameter.numel() for parameter in attention.parameters()) == 15 * numbers


def test_rules_that_compare_positions_are_refused_with_a_way_out() -> None:
    with pytest.raises(ValueError, match=r"Linformer cannot honour causal\(\): each of its keys is a mixture of all"):
        LinformerConfig().build(query_dim=4, key_dim=4, visibility=causal() & padding(), kind="self")


def test_a_longer_sequence_is_refused_but_longer_padding_is_not() -> None:
    attention = LinformerAttention(max_length=4, projected_length=2, visibility=padding())
    x = torch.randn(1, 1, 6, 8)
    with pytest.raises(ValueError, match="built for 4 positions, but a key stands at position 5"):
        attention.run(x, x, x)
    at = Positions.of(6, 6, key_lengths=torch.tensor([4]))
    torch.testing.assert_close(attention.run(x, x, x, at=at)[:, :, :4], attention.run(*[x[:, :, :4]] * 3))


def test_an_example_without_keys_sees_nothing() -> None:
    attention = LinformerAttention(max_length=4, projected_length=2, visibility=padding())
    x = torch.randn(2, 1, 3, 8)
    explanation = attention.explain(x, x, x, at=Positions.of(3, 3, key_lengths=torch.tensor([0, 2])))
    assert (explanation.weights[0] == 0).all()
    assert (explanation.context[0] == 0).all()
    assert (explanation.weights[1] > 0).all()


def test_cost_does_not_grow_with_the_square_of_the_length() -> None:
    attention = LinformerAttention(max_length=4096, projected_length=16, visibility=everything())
    flops = []
    for length in (1024, 4096):
        x = torch.randn(1, 1, length, 8)
        plan = attention.plan(x, x)
        flops.append(next(path.flops for path in plan.paths if path.name == plan.chosen))
    assert flops[1] == pytest.approx(4 * flops[0], rel=0.01)
