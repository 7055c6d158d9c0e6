"""Reformer: full attention in one bucket, the paper's rounds, and chunks that nobody's future moves."""

import pytest
import torch

from foveate.attention import Attention, Positions, causal, padding
from foveate.attention.efficient import ReformerAttention, ReformerConfig
from foveate.attention.efficient.reformer import HashedPath, SharedDot
from foveate.nn.multihead import MultiHeadAttention


def fast(attention: ReformerAttention, x: torch.Tensor, value: torch.Tensor, at: Positions) -> torch.Tensor:
    query, key, at = attention._placed(x, x, value, at)
    path = HashedPath()
    assert path.refuses(attention, query, key, at) == []
    return path.run(attention, query, key, value, at=at)


@pytest.mark.parametrize("rule", [padding(), causal() & padding()])
def test_one_bucket_and_one_chunk_are_softmax_over_all_other_keys(rule: object) -> None:
    x, value = torch.randn(2, 2, 2, 7, 4, dtype=torch.float64)
    at = Positions.of(7, 7, key_lengths=torch.tensor([7, 5]))
    attention = ReformerAttention(head_dim=4, buckets=1, rounds=1, chunk=7, visibility=rule).double()
    full = Attention(SharedDot(), visibility=rule).explain(x, x, value, at=at)
    for length, row in ((7, 0), (5, 1)):  # a padded position looks at nobody
        torch.testing.assert_close(fast(attention, x, value, at)[row, :, :length], full.context[row, :, :length])
    alone = full.weights[0, :, 0, 0]
    assert (alone == (1 if rule != padding() else 0)).all()
    assert (full.weights[0, :, 1:].diagonal(1, -2, -1) == 0).all()


def test_a_query_sees_the_keys_of_its_bucket() -> None:
    attention = ReformerAttention(head_dim=8, buckets=4, rounds=1, chunk=64).double()
    x = torch.randn(1, 1, 20, 8, dtype=torch.float64)
    turned = x[0, 0] @ attention.rotation[0]
    bucket = torch.cat([turned, -turned], -1).argmax(-1)
    expected = bucket[:, None] == bucket
    assert torch.equal(attention.explain(x, x, x).visible[0, 0], expected)


def test_rounds_are_merged_as_in_the_paper() -> None:
    """o_i = Σ_r exp(z_i^r − z_i) o_i^r with log N_ij taken from every score (appendix A)."""
    rounds = 3
    attention = ReformerAttention(head_dim=4, buckets=4, rounds=rounds, chunk=32).double()
    x, value = torch.randn(2, 1, 1, 12, 4, dtype=torch.float64)
    calls = []
    for index in range(rounds):
        single = ReformerAttention(head_dim=4, buckets=4, rounds=1, chunk=32).double()
        single.rotation.copy_(attention.rotation[index : index + 1])
        calls.append(single.explain(x, x, value).visible)
    times = torch.stack(calls).sum(0)
    unit = torch.nn.functional.normalize(x, dim=-1)
    scores = x @ unit.mT / 2 - 1e5 * torch.eye(12, dtype=torch.float64)
    parts = []
    for visible in calls:
        masked = (scores - times.clamp(min=1).log()).masked_fill(~visible, -torch.inf)
        parts.append((masked.logsumexp(-1), masked.softmax(-1) @ value))
    whole = torch.stack([z for z, _ in parts]).logsumexp(0)
    expected = sum((z - whole).exp()[..., None] * o for z, o in parts)
    torch.testing.assert_close(attention.run(x, x, value), expected)
    torch.testing.assert_close(fast(attention, x, value, Positions.of(12, 12)), expected)


def test_more_rounds_see_more() -> None:
    x = torch.randn(1, 1, 64, 8)
    result = [
        int(ReformerAttention(head_dim=8, buckets=8, rounds=rounds, chunk=8).explain(x, x, x).visible.sum())
        for rounds in (1, 2, 4)
    ]
    assert result[0] < result[1] < result[2]


def test_a_later_token_does_not_move_the_chunks_of_earlier_ones() -> None:
    """In the paper, chunks are cut from the whole sorted sequence, so a later token in a lower bucket shifts them."""
    attention = ReformerAttention(head_dim=4, buckets=2, rounds=1, chunk=2, visibility=causal()).double()
    x = torch.randn(1, 1, 12, 4, dtype=torch.float64)
    before = attention.explain(x, x, x).visible[..., :6, :6]
    for sign in (1.0, -1.0):
        changed = x.clone()
        changed[:, :, 6:] = sign * attention.rotation[0, :, 0].double()
        assert torch.equal(attention.explain(changed, changed, x).visible[..., :6, :6], before)


def test_the_seed_decides_and_hashes_are_kept_with_the_weights() -> None:
    one, other = (ReformerAttention(head_dim=4, seed=2) for _ in range(2))
    assert torch.equal(one.rotation, other.rotation)
    other.redraw(3)
    assert not torch.equal(one.rotation, other.rotation)
    assert "rotation" in one.state_dict()


def test_long_sequences_are_sorted_and_cost_grows_linearly() -> None:
    attention = ReformerAttention(head_dim=8, buckets=16, rounds=1, chunk=16, visibility=causal())
    flops = []
    for length in (2048, 4096):
        x = torch.randn(1, 1, length, 8)
        plan = attention.plan(x, x)
        assert plan.chosen == "hashed"
        flops.append(next(path.flops for path in plan.paths if path.name == "hashed"))
    assert flops[1] == pytest.approx(2 * flops[0])


def test_different_queries_and_keys_are_hashed_apart_and_left_to_the_reference() -> None:
    attention = ReformerAttention(head_dim=4, buckets=4, rounds=1, chunk=4)
    query, key = torch.randn(2, 1, 1, 8, 4)
    assert "they are not one tensor" in str(attention.plan(query, key))


def test_cross_attention_and_odd_buckets_are_refused() -> None:
    with pytest.raises(ValueError, match="it is self-attention"):
        ReformerConfig().build(query_dim=4, key_dim=4, visibility=padding(), kind="cross")
    with pytest.raises(ValueError, match="buckets=3 must be even"):
        ReformerConfig(buckets=3)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32])
def test_padding_has_finite_gradients_in_every_precision(kind: torch.dtype) -> None:
    layer = MultiHeadAttention(
        query_dim=32, num_heads=2, attention=ReformerConfig(chunk=4, buckets=4), visibility=padding()
    ).to(kind)
    y = layer(torch.randn(2, 20, 32).to(kind), at=Positions.of(20, 20, key_lengths=torch.tensor([20, 12])))
    y[0].float().sum().backward()
    assert layer.query.weight.grad is not None
    assert layer.query.weight.grad.isfinite().all()


@pytest.mark.parametrize(("batch", "length"), [(0, 500), (2, 0)])
def test_nothing_to_sort_has_no_context(batch: int, length: int) -> None:
    x = torch.zeros(batch, 1, length, 8)
    attention = ReformerAttention(head_dim=8, chunk=4)
    assert attention.run(x, x, x).shape == x.shape
    assert HashedPath().refuses(attention, *attention._placed(x, x, x, None)) == ["there are no queries or no keys"]
