"""Biases entry by entry. T5's own numbers are in tests/parity/test_attention_huggingface.py."""

import math
from dataclasses import replace

import pytest
import torch

from foveate.attention import (
    Alibi,
    Attention,
    Gaussian,
    GridGaussian,
    GridGaussianConfig,
    Positions,
    RelativeBuckets,
    RelativeBucketsConfig,
    causal,
    predicate,
)


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


def test_a_window_on_two_axes_stands_at_its_offset() -> None:
    bias = GridGaussian(num_heads=2, columns=3, first=1, focus=0.5, offset=[[0, 1], [-1, 0.5]]).double()
    values = bias(Positions.of(7, 7))[0]
    for head, i, j in torch.cartesian_prod(torch.arange(2), torch.arange(7), torch.arange(7)).tolist():
        (row, column), (key_row, key_column) = (divmod(place - 1, 3) for place in (i, j))
        down, right = [(0, 1), (-1, 0.5)][head]
        away = (key_row - row - down) ** 2 + (key_column - column - right) ** 2
        assert values[head, i, j].item() == pytest.approx(-0.5 * away if i and j else 0.0)


OFFSETS = torch.cartesian_prod(torch.arange(-1, 2), torch.arange(-1, 2))


@pytest.mark.parametrize("path", ["rule", "bias"])
def test_a_convolution_is_an_attention_with_a_head_for_each_place_of_its_kernel(path: str) -> None:
    """With a rule that shows one patch, what lies outside counts as zero; with a sharp bias, all that has a patch."""
    torch.manual_seed(0)
    rows, columns = 4, 5
    picture, kernel = torch.randn(2, 3, rows, columns), torch.randn(6, 3, 3, 3)

    def one_away(at: Positions) -> torch.Tensor:
        down, right = OFFSETS[:, :1, None].mT, OFFSETS[:, 1:, None].mT
        same_row = at.key // columns == at.query // columns + down
        return same_row & (at.key % columns == at.query % columns + right)

    window = GridGaussian(num_heads=9, columns=columns, focus=60.0, offset=OFFSETS.tolist())
    attention = Attention(visibility=predicate(one_away)) if path == "rule" else Attention(bias=window)
    pixels = picture.flatten(2).mT[:, None].expand(-1, 9, -1, -1)
    nothing = torch.zeros(2, 9, rows * columns, 1)
    output = torch.einsum("bhnc,dch->bdn", attention.run(nothing, nothing, pixels), kernel.flatten(2))
    output, expected = output.unflatten(2, (rows, columns)), torch.nn.functional.conv2d(picture, kernel, padding=1)
    inner = (..., slice(None), slice(None)) if path == "rule" else (..., slice(1, -1), slice(1, -1))
    torch.testing.assert_close(output[inner], expected[inner], atol=1e-5, rtol=1e-5)
    if path == "bias":
        assert not torch.allclose(output, expected, atol=1e-2)


def test_a_window_on_two_axes_is_learnt() -> None:
    """From the pictures alone, a head finds the neighbour that a shifted copy was taken from."""
    torch.manual_seed(1)
    attention = Attention(bias=GridGaussian(num_heads=1, columns=6, focus=0.5, offset=[[0.0, 0.0]]))
    optimiser = torch.optim.Adam(attention.parameters(), lr=0.05)
    for _ in range(150):
        picture = torch.randn(8, 1, 6, 6)
        pixels, target = picture.flatten(2).mT[:, None], picture.roll((-1, 1), (2, 3))[..., :-1, 1:]
        context = attention.run(0 * pixels, 0 * pixels, pixels)[:, 0].mT.unflatten(2, (6, 6))
        loss = (context[..., :-1, 1:] - target).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert attention.bias.offset.detach()[0].tolist() == pytest.approx([1.0, -1.0], abs=0.1)
    assert loss < 0.05


def test_a_window_on_two_axes_needs_a_grid_and_an_offset_for_each_head() -> None:
    with pytest.raises(ValueError, match="columns=0 must be at least 1"):
        GridGaussianConfig(columns=0)
    with pytest.raises(ValueError, match=r"offset has shape \(1, 2\): give rows and columns for each of 3"):
        GridGaussian(num_heads=3, columns=4, offset=[[0.0, 1.0]])
