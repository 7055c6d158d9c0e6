"""Rotary and QK-norm: what they do, and that their order is data."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from foveate.attention import Attention, Dot, GridRotary, Positions, QKNorm, QKNormConfig, Rotary, padding


@pytest.fixture
def x() -> Tensor:
    return torch.randn(2, 2, 5, 8, dtype=torch.float64)


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
@pytest.mark.parametrize("dims", [None, 4])
def test_each_pair_turns_by_its_angle(x: Tensor, layout: str, dims: int | None) -> None:
    turned = Rotary(base=100.0, dims=dims, layout=layout).query(x, Positions.of(5, 5, query_start=3))
    width = dims or 8
    for j in range(width // 2):
        first, second = (2 * j, 2 * j + 1) if layout == "interleaved" else (j, j + width // 2)
        for i in range(5):
            angle = (i + 3) * 100.0 ** (-2 * j / width)
            a, b = x[..., i, first], x[..., i, second]
            torch.testing.assert_close(turned[..., i, first], a * math.cos(angle) - b * math.sin(angle))
            torch.testing.assert_close(turned[..., i, second], a * math.sin(angle) + b * math.cos(angle))
    assert torch.equal(turned[..., width:], x[..., width:])


def test_heads_at_places_of_their_own_need_keys_of_their_own(x: Tensor) -> None:
    """A key that several heads share stands at one place."""
    places = torch.arange(5) * torch.tensor([[1], [2]])
    at = Positions(places[None, :, :, None], places[None, :, None, :])
    attention, shared = Attention(transforms=(Rotary(),)), x[:, :1]
    torch.testing.assert_close(attention.run(x, x, x, at=at), attention.explain(x, x, x, at=at).context)
    for compute in (attention.run, attention.explain):
        with pytest.raises(ValueError, match=r"places 2 heads, but 1 heads of keys are transformed"):
            compute(x, shared, shared, at=at)


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_products_of_turned_vectors_depend_on_the_distance_alone(x: Tensor, layout: str) -> None:
    attention = Attention(transforms=(Rotary(layout=layout, dims=6),))
    at = Positions.of(5, 5)
    moved = replace(at, query=at.query + 1000, key=at.key + 1000)
    one, other = (attention.explain(x, x, x, at=here).scores for here in (at, moved))
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("norm", ["l2", "rms", "layer"])
def test_lengths_do_not_matter_after_qk_norm(x: Tensor, norm: str) -> None:
    attention = Attention(transforms=(QKNorm(head_dim=8, norm=norm, eps=1e-30),)).double()
    small, large = (attention.explain(scale * x, scale * x, x).weights for scale in (0.1, 100.0))
    torch.testing.assert_close(small, large)


def test_l2_norm_with_dot_is_a_cosine_times_a_learned_number(x: Tensor) -> None:
    norm = QKNorm(head_dim=8, norm="l2", scale=7.0).double()
    scores = Attention(Dot(), transforms=(norm,)).explain(x, x, x).scores
    unit = x / x.norm(dim=-1, keepdim=True)
    torch.testing.assert_close(scores, 7.0 * unit @ unit.mT)
    (gradient,) = torch.autograd.grad(scores.sum(), norm.scale)
    torch.testing.assert_close(gradient, (unit @ unit.mT).sum())


def test_rms_and_layer_norm_are_torchs(x: Tensor) -> None:
    for norm, same in (
        ("rms", torch.nn.RMSNorm(8, eps=1e-6)),
        ("layer", torch.nn.LayerNorm(8, eps=1e-6, bias=False)),
    ):
        ours = QKNorm(head_dim=8, norm=norm)
        torch.nn.init.normal_(ours.query_weight)
        torch.nn.init.normal_(ours.key_weight)
        for weight, result in (
            (ours.query_weight, ours.query(x.float(), Positions.of(5, 5))),
            (ours.key_weight, ours.key(x.float(), Positions.of(5, 5))),
        ):
            with torch.no_grad():
                same.weight.copy_(weight)
            torch.testing.assert_close(result, same(x.float()))


def test_order_is_data(x: Tensor) -> None:
    """A norm with weights and a rotation do not commute; both orders are attentions, and each is what it says."""
    rotary, norm = Rotary(base=10.0), QKNorm(head_dim=8).double()
    torch.nn.init.uniform_(norm.query_weight, 0.5, 2.0)
    torch.nn.init.uniform_(norm.key_weight, 0.5, 2.0)
    at = Positions.of(5, 5)
    first, second = Attention(transforms=(rotary, norm)), Attention(transforms=(norm, rotary))
    assert not torch.allclose(first.explain(x, x, x).scores, second.explain(x, x, x).scores)
    by_hand = (
        (first, norm.query(rotary.query(x, at), at), norm.key(rotary.key(x, at), at)),
        (second, rotary.query(norm.query(x, at), at), rotary.key(norm.key(x, at), at)),
    )
    for attention, query, key in by_hand:
        torch.testing.assert_close(attention.explain(x, x, x).scores, query @ key.mT / math.sqrt(8))
        torch.testing.assert_close(attention.run(x, x, x), attention.explain(x, x, x).context)
        gradients = torch.autograd.grad(attention.run(x, x, x).square().sum(), list(attention.parameters()))
        assert all((gradient != 0).all() for gradient in gradients)


def test_an_even_norm_without_weights_commutes_with_rotation(x: Tensor) -> None:
    """Rotations keep lengths: order matters through the weights alone."""
    rotary, norm = Rotary(), QKNorm(head_dim=8).double()
    first, second = Attention(transforms=(rotary, norm)), Attention(transforms=(norm, rotary))
    torch.testing.assert_close(first.run(x, x, x), second.run(x, x, x))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rotary(dims=3), "dims=3 must be positive and even: features turn in pairs"),
        (
            lambda: Rotary().build(head_dim=5, num_heads=1),
            "Rotary turns pairs: head_dim=5 must be even. Or turn some features: dims.",
        ),
        (
            lambda: Rotary(dims=6).build(head_dim=4, num_heads=1),
            "Rotary turns dims=6 features, but heads are only head_dim=4 wide.",
        ),
    ],
)
def test_rotations_that_make_no_sense_are_refused(make: object, message: str) -> None:
    with pytest.raises(ValueError, match="dim") as refusal:
        make()
    assert str(refusal.value) == message


def test_configurations_build_transforms() -> None:
    assert repr(QKNormConfig(norm="l2").build(head_dim=4, num_heads=2)) == "QKNorm(head_dim=4, norm='l2', eps=1e-06)"
    assert Rotary(dims=2).build(head_dim=5, num_heads=2) == Rotary(dims=2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("norm", ["l2", "rms", "layer"])
def test_vectors_of_zeros_have_finite_gradients_and_large_ones_do_not_overflow(norm: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    transform = QKNorm(head_dim=8, norm=norm).to(dtype)
    key = torch.zeros(1, 1, 5, 8, dtype=dtype)
    key[:, :, 1] = 1e3 * torch.randn(8)
    if norm == "l2":  # at a visible zero the gradient is 1/eps, more than float16 holds
        key[:, :, 0:3:2] = 1.0
    key.requires_grad_()
    query, value = (torch.randn(1, 1, 5, 8, dtype=dtype) for _ in range(2))
    at = Positions.of(5, 5, key_lengths=torch.tensor([3]))
    attention = Attention(Dot(), transforms=[transform], visibility=padding())
    for context in (attention.run(query, key, value, at=at), attention.explain(query, key, value, at=at).context):
        gradients = torch.autograd.grad(context.sum(), [key, *transform.parameters()])
        assert all(gradient.isfinite().all() for gradient in gradients)
        assert (gradients[0][:, :, 3:] == 0).all()
    exact = transform.double().key(key.detach().double(), at)
    torch.testing.assert_close(transform.to(dtype).key(key, at).double(), exact, atol=0, rtol=2e-2)


@pytest.mark.parametrize("norm", ["l2", "rms", "layer"])
def test_what_hidden_keys_hold_does_not_reach_the_gradients_of_a_transform(norm: str) -> None:
    query, key = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 5, 8)
    attention = Attention(visibility=padding(), transforms=[QKNorm(head_dim=8, norm=norm)])
    at = Positions.of(5, 5, key_lengths=torch.tensor([5, 3]))
    gradients = []
    for hidden in (0.0, math.nan, math.inf):
        key[1, :, 3:] = hidden
        inputs = [query.requires_grad_(), key.clone().requires_grad_(), *attention.parameters()]
        context = attention.run(*inputs[:2], torch.ones(2, 2, 5, 3).cumsum(2), at=at)
        gradients.append(torch.autograd.grad(context.sum(), inputs, materialize_grads=True))
    for leaked in gradients[1:]:
        torch.testing.assert_close(leaked, gradients[0])


def test_on_a_grid_one_half_turns_by_the_row_and_the_other_by_the_column(x: Tensor) -> None:
    turned = GridRotary(columns=3, first=1, base=50.0).query(x, Positions.of(5, 5))
    for half, places in ((slice(0, 4), [0, 0, 0, 0, 1]), (slice(4, 8), [0, 0, 1, 2, 0])):
        place = torch.tensor(places)[None, None, :, None]
        at = Positions(query=place, key=place.mT)
        torch.testing.assert_close(turned[..., half], Rotary(base=50.0).query(x[..., half], at))
    assert torch.equal(turned[:, :, 0], x[:, :, 0])  # a class token does not turn


def test_products_on_a_grid_depend_on_rows_and_columns_between_the_patches(x: Tensor) -> None:
    rotary, places = GridRotary(columns=4), torch.tensor([0, 1, 5, 6, 9])
    moved = places + 4 * 7 + 1  # seven rows down and one column to the right
    scores = [
        Attention(Dot(), transforms=(rotary,))
        .explain(x, x, x, at=Positions(query=at[None, None, :, None], key=at[None, None, None]))
        .scores
        for at in (places, moved)
    ]
    torch.testing.assert_close(*scores)


def test_a_grid_turns_pairs_on_two_axes() -> None:
    with pytest.raises(ValueError, match="head_dim=6 must be a multiple of 4"):
        GridRotary(columns=4).build(head_dim=6, num_heads=1)
