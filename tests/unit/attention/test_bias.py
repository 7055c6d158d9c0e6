"""Biases entry by entry. T5's own numbers are in tests/parity/test_attention_huggingface.py."""

import math
from dataclasses import replace

import pytest
import torch

from foveate.attention import Alibi, Attention, Gaussian, Positions, RelativeBuckets, RelativeBucketsConfig, causal


def test_alibi_is_a_slope_for_each_head_times_the_distance() -> None:
    bias = Alibi(num_heads=4)(Positions.of(3, 5, query_start=2))
    for head, i, j in torch.cartesian_prod(torch.arange(4), torch.arange(3), torch.arange(5)).tolist():
        assert bias[0, head, i, j].item() == pytest.approx(-(2 ** (-8 * (head + 1) / 4)) * abs(i + 2 - j))


def test_slopes_for_other_numbers_of_heads_than_powers_of_two_lie_between_those_of_the_next_power() -> None:
    slopes = -Alibi(num_heads=6)(Positions.of(1, 1, query_start=1)).flatten()
    assert slopes.tolist() == pytest.approx([2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3])


def test_a_gaussian_stands_where_the_query_looks_or_where_it_is() -> None:
    at = Positions.of(2, 6, query_start=1)
    for here, centres in ((at, [1.0, 2.0]), (replace(at, centre=torch.tensor([[[[0.5], [4.25]]]])), [0.5, 4.25])):
        bias = Gaussian(sigma=1.5)(here)[0, 0]
        for row, centre in zip(bias.tolist(), centres, strict=True):
            assert row == pytest.approx([-((j - centre) ** 2) / (2 * 1.5**2) for j in range(6)])


def test_near_distances_have_a_bucket_each_and_far_ones_share() -> None:
    bias = RelativeBuckets(num_heads=1, num_buckets=32, max_distance=128)
    before, after = bias.bucket(-torch.arange(300)), bias.bucket(torch.arange(300))
    assert before[:8].tolist() == list(range(8))
    assert after[1:8].tolist() == list(range(17, 24))
    assert (before.diff() >= 0).all()
    assert (after[1:].diff() >= 0).all()
    assert (before[-1], after[-1]) == (15, 31)
    assert (before[128:] == 15).all()
    assert (RelativeBuckets(num_heads=1, bidirectional=False).bucket(torch.arange(1, 9)) == 0).all()


def test_buckets_are_looked_up_for_every_head_also_where_positions_differ_by_head() -> None:
    bias, at = RelativeBuckets(num_heads=2, num_buckets=8, max_distance=20), Positions.of(3, 5)
    plain = bias(at)
    assert plain.shape == (1, 2, 3, 5)
    assert plain[0, 1, 2, 0] == bias.weight[bias.bucket(torch.tensor(-2)), 1]
    torch.testing.assert_close(bias(replace(at, key=at.key.expand(1, 2, 1, 5))), plain)


def test_buckets_learn_on_every_path() -> None:
    attention = Attention(
        bias=RelativeBuckets(num_heads=2, num_buckets=6, max_distance=9), visibility=causal()
    ).double()
    x, at = torch.randn(2, 2, 6, 4, dtype=torch.float64), Positions.of(6, 6)
    gradients = []
    for path in attention.paths:
        if not path.refuses(attention, x, x, at):
            context = path.run(attention, x, x, x, at=at, key_features=None, dropout=0.0)
            gradients += torch.autograd.grad(context.square().sum(), attention.bias.weight)
    assert len(gradients) > 1
    for gradient in gradients[1:]:
        torch.testing.assert_close(gradient, gradients[0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_buckets": 3}, "num_buckets=3 must be at least 4, and even for two sides"),
        ({"max_distance": 8}, "max_distance=8 must exceed 8, the distances that have a bucket each"),
    ],
)
def test_buckets_that_make_no_sense_are_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match="must") as refusal:
        RelativeBucketsConfig(**settings)
    assert str(refusal.value) == message


def test_weights_times_a_gaussian_are_in_proportion_to_those_with_it_as_bias() -> None:
    """Weights times exp(bias), divided by their sum, are the weights of scores plus bias."""
    x = torch.randn(1, 1, 5, 4, dtype=torch.float64)
    after = Attention(reweight=Gaussian(sigma=1.0)).explain(x, x, x).weights
    before = Attention(bias=Gaussian(sigma=1.0)).explain(x, x, x).weights
    torch.testing.assert_close(after / after.sum(-1, keepdim=True), before)
    assert (after.sum(-1) < 1).all()
    assert math.isclose(float(before.sum()), 5.0)


def test_a_bucket_learns_from_all_its_pairs_in_half_precision() -> None:
    """A sum of ones in bfloat16 stops at 256."""
    bias = RelativeBuckets(num_heads=1, num_buckets=8).bfloat16()
    at = Positions.of(600, 600)
    bias(at).sum().backward()
    pairs = bias.bucket(at.key - at.query).flatten().bincount(minlength=8)
    torch.testing.assert_close(bias.weight.grad[:, 0].double(), pairs.double(), atol=1, rtol=2**-8)
