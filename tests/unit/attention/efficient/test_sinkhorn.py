"""Sinkhorn: full attention in one block, balanced matrices, and blocks of neighbours."""

import pytest
import torch

from foveate.attention import Attention, causal, padding, window
from foveate.attention.efficient import SinkhornAttention, SinkhornConfig
from foveate.attention.efficient.sinkhorn import balanced


@pytest.mark.parametrize("rule", [padding(), causal()])
def test_one_block_is_full_attention(rule: object) -> None:
    x, value = torch.randn(2, 2, 2, 5, 4, dtype=torch.float64)
    attention = SinkhornAttention(head_dim=4, num_heads=2, block=8, visibility=rule).double()
    full = Attention(visibility=rule).explain(x, x, value)
    torch.testing.assert_close(attention.run(x, x, value), full.context)
    torch.testing.assert_close(attention.explain(x, x, value).weights, full.weights)


def test_a_sorting_that_is_a_permutation_is_attention_to_two_blocks() -> None:
    """Blocks of two; a matrix that swaps them makes four keys visible: all."""
    attention = SinkhornAttention(head_dim=2, block=2, iterations=0, temperature=1e-3).double()
    with torch.no_grad():
        attention.sorting.copy_(-torch.eye(2))  # the other block, because its summary is the opposite
    key = torch.tensor([[3.0, 0], [3, 0], [-3, 0], [-3, 0]], dtype=torch.float64)[None, None]
    query, value = torch.randn(2, 1, 1, 4, 2, dtype=torch.float64)
    explanation = attention.explain(query, key, value)
    torch.testing.assert_close(explanation.context, Attention().run(query, key, value))


def test_blocks_are_neighbours() -> None:
    """The Long Range Arena's code groups positions that lie a number of blocks apart."""
    attention = SinkhornAttention(head_dim=4, block=3, visibility=causal()).double()
    x = torch.randn(1, 1, 9, 4, dtype=torch.float64)
    weights = attention.explain(x, x, x).weights[0, 0]
    assert (weights[4, 3:5] > 0).all()
    assert (weights[2, :3] > 0).all()
    assert weights[0].tolist() == [1.0] + [0.0] * 8


def test_dividing_columns_and_rows_makes_both_sum_to_one() -> None:
    allowed = torch.ones(1, 1, 4, 4, dtype=torch.bool)
    P = balanced(torch.randn(1, 2, 4, 4, dtype=torch.float64), allowed, 60)
    torch.testing.assert_close(P.sum(-1), torch.ones_like(P[..., 0]))
    torch.testing.assert_close(P.sum(-2), torch.ones_like(P[..., 0]))


def test_no_iterations_are_a_softmax() -> None:
    logits, allowed = torch.randn(1, 1, 4, 4), torch.ones(1, 1, 4, 4, dtype=torch.bool).tril(-1)
    P = balanced(logits, allowed, 0)
    assert (P[..., 0, :] == 0).all()
    torch.testing.assert_close(P[0, 0, 2, :2], logits[0, 0, 2, :2].softmax(-1))


def test_a_causal_balance_does_not_know_later_rows() -> None:
    logits = torch.randn(1, 1, 5, 5, dtype=torch.float64)
    allowed = torch.ones(1, 1, 5, 5, dtype=torch.bool).tril(-1)
    whole = balanced(logits, allowed, 7, causal=True)
    part = balanced(logits[..., :3, :3], allowed[..., :3, :3], 7, causal=True)
    torch.testing.assert_close(part, whole[..., :3, :3])


def test_rules_that_it_cannot_honour_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Sinkhorn attention cannot honour window\(left=2, right=2\)"):
        SinkhornAttention(head_dim=4, visibility=window(left=2, right=2))
    with pytest.raises(ValueError, match="own block, which another sequence does not have"):
        SinkhornConfig().build(query_dim=4, key_dim=4, visibility=padding(), kind="cross")
    with pytest.raises(ValueError, match="temperature=0"):
        SinkhornConfig(temperature=0.0)
    x = torch.randn(1, 1, 5, 4)
    with pytest.raises(ValueError, match="2 queries and 5 keys do not say where they stand"):
        SinkhornAttention(head_dim=4).run(x[:, :, :2], x, x)


def decided(logit: float, dtype: torch.dtype) -> tuple[SinkhornAttention, torch.Tensor]:
    """Blocks of two over three keys: the last place of the mixture holds nothing but a share of e^-logit."""
    attention = SinkhornAttention(head_dim=1, block=2, iterations=0, temperature=1.0).to(dtype)
    torch.nn.init.constant_(attention.sorting, logit)
    return attention, torch.tensor([0.0, 0.0, 1.0], dtype=dtype)[None, None, :, None]


def test_gradients_are_finite_where_the_sorting_is_decided() -> None:
    """A share of e^-95 is above 0 in float32, and gradients of a division by it overflow."""
    attention, key = decided(95.0, torch.float32)
    inputs = [key.clone().requires_grad_(), key.clone().requires_grad_(), torch.randn(1, 1, 3, 2, requires_grad=True)]
    for grad in torch.autograd.grad(attention.run(*inputs).square().sum(), [*inputs, attention.sorting]):
        assert grad.isfinite().all()


def test_weights_are_finite_where_the_sorting_is_decided() -> None:
    """A weight over a share of e^-14 is above the largest number of float16."""
    attention, key = decided(14.0, torch.float16)
    value = torch.randn(1, 1, 3, 2).half()
    explanation = attention.explain(key, key, value)
    torch.testing.assert_close(explanation.weights.sum(-1), torch.ones(1, 1, 3).half(), atol=2e-3, rtol=0)
    torch.testing.assert_close(explanation.context, attention.run(key, key, value), atol=4e-3, rtol=0)
