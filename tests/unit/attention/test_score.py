"""The scores against the formulas as the lectures write them, entry by entry."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from foveate.attention import (
    Additive,
    AdditiveConfig,
    Attention,
    Cosine,
    CosineConfig,
    Dot,
    General,
    GeneralConfig,
    Location,
    LocationAware,
    LocationAwareConfig,
    LocationConfig,
    Positions,
    ScaledDot,
    Score,
    ShawRelative,
    ShawRelativeConfig,
    padding,
    window,
)
from foveate.attention.paths import BandedPath, Path, ProductPath, SDPAPath, ShortPath, TiledPath


@pytest.fixture
def query() -> Tensor:
    return torch.randn(2, 3, 4, 6, dtype=torch.float64)


@pytest.fixture
def key() -> Tensor:
    return torch.randn(2, 3, 5, 6, dtype=torch.float64)


def entry_by_entry(query: Tensor, key: Tensor, formula: object) -> Tensor:
    scores = torch.empty(*query.shape[:3], key.shape[2], dtype=query.dtype)
    for batch, head, i, j in torch.cartesian_prod(*map(torch.arange, scores.shape)).tolist():
        scores[batch, head, i, j] = formula(query[batch, head, i], key[batch, head, j], head)
    return scores


def test_dot_is_the_sum_of_products(query: Tensor, key: Tensor) -> None:
    expected = entry_by_entry(query, key, lambda q, k, head: sum(a * b for a, b in zip(q, k, strict=True)))
    torch.testing.assert_close(Dot()(query, key), expected)


def test_scaled_dot_divides_by_the_root_of_the_width_or_multiplies_by_mu(query: Tensor, key: Tensor) -> None:
    torch.testing.assert_close(ScaledDot()(query, key), Dot()(query, key) / math.sqrt(6))
    torch.testing.assert_close(ScaledDot(scale=0.3)(query, key), 0.3 * Dot()(query, key))


def test_the_variance_of_dot_products_is_the_width_and_of_scaled_ones_is_one() -> None:
    for width in (4, 64, 512):
        query, key = torch.randn(2, 1, 1, 1000, width).unbind(0)
        assert Dot()(query, key).var().item() == pytest.approx(width, rel=0.1)
        assert ScaledDot()(query, key).var().item() == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize("heads", [1, 3])
def test_general_puts_a_matrix_between(query: Tensor, heads: int) -> None:
    score = General(query_dim=6, key_dim=4, num_heads=heads).double()
    key = torch.randn(2, 3, 5, 4, dtype=torch.float64)
    expected = entry_by_entry(query, key, lambda q, k, head: q @ score.weight[head % heads] @ k)
    torch.testing.assert_close(score(query, key), expected)


@pytest.mark.parametrize("heads", [1, 3])
def test_additive_is_a_small_network_over_both(query: Tensor, heads: int) -> None:
    score = Additive(query_dim=6, key_dim=4, hidden_dim=7, num_heads=heads).double()
    key = torch.randn(2, 3, 5, 4, dtype=torch.float64)

    def formula(q: Tensor, k: Tensor, head: int) -> Tensor:
        head %= heads
        joined = torch.cat([score.query_weight[head], score.key_weight[head]])  # the slides' W[q; k]
        return score.vector[head] @ torch.tanh(torch.cat([q, k]) @ joined)

    torch.testing.assert_close(score(query, key), entry_by_entry(query, key, formula))


@pytest.mark.parametrize("learned", [False, True])
def test_cosine_is_the_angle_alone_times_beta(query: Tensor, key: Tensor, learned: bool) -> None:
    score = Cosine(beta=2.5, learned=learned, num_heads=3).double()

    def formula(q: Tensor, k: Tensor, head: int) -> Tensor:
        return 2.5 * (q @ k) / (q.norm() * k.norm())

    torch.testing.assert_close(score(query, key), entry_by_entry(query, key, formula))
    torch.testing.assert_close(score(3 * query, 0.1 * key), score(query, key))
    assert len(list(score.parameters())) == learned
    assert score.state_dict().keys() == ({"beta"} if learned else set())


def test_a_constant_strength_is_exact_again_after_a_visit_to_another_dtype() -> None:
    score, learned = Cosine(beta=3.3, num_heads=2), Cosine(beta=3.3, num_heads=2, learned=True)
    for each in (score, learned):
        each.bfloat16().float()
    assert torch.equal(score.beta, torch.full((2,), 3.3))
    assert torch.equal(learned.beta, torch.full((2,), 3.3).bfloat16().float()), "weights are rounded"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_the_cosine_with_a_vector_of_zeros_is_zero_and_has_finite_gradients(
    query: Tensor, key: Tensor, dtype: torch.dtype
) -> None:
    query, key = query.to(dtype), key.to(dtype)
    key[:, :, 2] = 0
    query.requires_grad_()
    key.requires_grad_()
    scores = Cosine().to(dtype)(query, key)
    assert (scores[..., 2] == 0).all()
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(scores.square().sum(), (query, key)))


@pytest.mark.parametrize("heads", [1, 3])
def test_location_takes_the_row_of_the_place_where_a_key_stands(query: Tensor, key: Tensor, heads: int) -> None:
    score = Location(query_dim=6, max_length=8, num_heads=heads).double()
    at = Positions.of(4, 5)
    scores = score.scores_at(query, key, replace(at, key=at.key + 2))
    for head in range(3):
        expected = query[:, head] @ score.weight[head % heads]
        torch.testing.assert_close(scores[:, head], expected[..., 2:7])


@pytest.mark.parametrize(("heads", "side"), [(1, "right"), (4, "left")])
def test_location_is_served_by_every_kernel_for_dot_products(heads: int, side: str) -> None:
    torch.manual_seed(0)
    score = Location(query_dim=16, max_length=12, num_heads=heads)
    attention = Attention(score, visibility=window(left=3, right=0) & padding())
    at = Positions.of(9, 9, key_lengths=torch.tensor([9, 4, 0]), side=side)
    query, key, value = torch.randn(3, 4, 9, 16), torch.randn(3, 2, 9, 5), torch.randn(3, 2, 9, 16)

    def outcome(path: Path | None) -> list[Tensor]:
        leaves = [query.clone().requires_grad_(), value.clone().requires_grad_()]
        inputs = (leaves[0], key, leaves[1])
        context = (
            attention.explain(*inputs, at=at).context
            if path is None
            else path.run(attention, *inputs, at=at, key_features=None, dropout=0.0)
        )
        return [context, *torch.autograd.grad(context.square().sum(), [*leaves, score.weight])]

    kernels = [ProductPath(), SDPAPath(), ShortPath(), TiledPath(tile=4), BandedPath(tile=4)]
    for path in kernels:
        assert not path.refuses(attention, query, key, at) or path.name == "short"
        for got, exact in zip(outcome(path), outcome(None), strict=True):
            torch.testing.assert_close(got, exact, atol=1e-5, rtol=1e-4)


def test_location_is_cut_to_the_length_of_each_source_and_normalised_again(query: Tensor, key: Tensor) -> None:
    attention = Attention(Location(query_dim=6, max_length=5).double(), visibility=padding())
    at = Positions.of(4, 5, key_lengths=torch.tensor([2, 5]))
    explanation = attention.explain(query, key, key, at=at)
    torch.testing.assert_close(explanation.weights.sum(-1), torch.ones(2, 3, 4, dtype=torch.float64))
    assert (explanation.weights[0, :, :, 2:] == 0).all()
    expected = (query[0] @ attention.score.weight[0])[..., :2].softmax(-1)
    torch.testing.assert_close(explanation.weights[0, :, :, :2], expected)


def test_location_refuses_a_place_past_its_last_but_not_padding_there(query: Tensor, key: Tensor) -> None:
    score = Location(query_dim=6, max_length=3).double()
    at = Positions.of(4, 5, key_lengths=torch.tensor([2, 3]))
    assert score.scores_at(query, key, at).shape == (2, 3, 4, 5)
    with pytest.raises(ValueError, match="Location") as refusal:
        score.scores_at(query, key, Positions.of(4, 5))
    assert str(refusal.value) == (
        "Location-based attention has learned to point at positions 0 to 2, but a key stands at 4. "
        "Shorten the input, or train with a larger max_length."
    )


@pytest.mark.parametrize("heads", [1, 3])
def test_location_aware_is_additive_and_sees_where_the_step_before_looked(query: Tensor, heads: int) -> None:
    score = LocationAware(query_dim=6, key_dim=4, hidden_dim=7, channels=2, width=3, num_heads=heads).double()
    torch.nn.init.normal_(score.bias)
    key, previous = torch.randn(2, 3, 5, 4, dtype=torch.float64), torch.rand(2, 3, 4, 5, dtype=torch.float64)
    scores = score.scores_at(query, key, replace(Positions.of(4, 5), previous=previous))
    for batch, h, i, j in torch.cartesian_prod(*map(torch.arange, scores.shape)).tolist():
        head = h % heads
        around = [previous[batch, h, i, j + step] if 0 <= j + step < 5 else 0.0 for step in (-1, 0, 1)]
        f = sum(score.filters[:, 0, place] * weight for place, weight in enumerate(around))
        hidden = query[batch, h, i] @ score.query_weight[head] + key[batch, h, j] @ score.key_weight[head]
        hidden = torch.tanh(hidden + f @ score.feature_weight[head] + score.bias[head])
        torch.testing.assert_close(scores[batch, h, i, j], score.vector[head] @ hidden)
    one = score.scores_at(
        query, key, replace(Positions.of(4, 5), previous=previous), key_features=score.key_features(key)
    )
    torch.testing.assert_close(one, scores)


def test_location_aware_scores_of_some_keys_are_those_of_all_of_them(query: Tensor, key: Tensor) -> None:
    score = LocationAware(query_dim=6, key_dim=6, hidden_dim=4, channels=2, width=5).double()
    at = replace(Positions.of(4, 5), previous=torch.rand(2, 3, 4, 5, dtype=torch.float64))
    part = score.scores_at(query[:, :, 1:3], key[:, :, 2:4], at.rows(slice(1, 3)).columns(slice(2, 4)))
    torch.testing.assert_close(part, score.scores_at(query, key, at)[:, :, 1:3, 2:4])


def test_location_aware_says_when_it_does_not_know_the_step_before(query: Tensor, key: Tensor) -> None:
    with pytest.raises(ValueError, match="step before") as refusal:
        LocationAware(query_dim=6, key_dim=6, hidden_dim=4).double().scores_at(query, key, Positions.of(4, 5))
    assert str(refusal.value) == (
        "Location-aware attention looks at the weights of the step before, and `at.previous` is missing. "
        "Recurrent decoders keep them; where all queries attend at once, choose another score."
    )


def test_shaws_scores_add_a_vector_for_the_distance_to_the_key(query: Tensor, key: Tensor) -> None:
    score = ShawRelative(head_dim=6, radius=2).double()
    at = Positions.of(4, 5, query_start=1)
    scores = score.scores_at(query, key, at)
    for i, j in torch.cartesian_prod(torch.arange(4), torch.arange(5)).tolist():
        a = score.vectors[max(-2, min(2, j - (i + 1))) + 2]
        expected = (query[:, :, i] * (key[:, :, j] + a)).sum(-1) / math.sqrt(6)
        torch.testing.assert_close(scores[:, :, i, j], expected)


def test_configurations_build_the_scores_of_places() -> None:
    sizes = {"query_dim": 4, "key_dim": 4, "num_heads": 2}
    assert repr(CosineConfig(beta=2.0).build(**sizes)) == "Cosine(beta=2, num_heads=2, eps=1e-08)"
    assert repr(LocationConfig(max_length=9).build(**sizes)) == "Location(query_dim=4, max_length=9, num_heads=2)"
    aware = "LocationAware(query_dim=4, key_dim=4, hidden_dim=4, num_heads=2, channels=10, width=5)"
    assert repr(LocationAwareConfig(width=5).build(**sizes)) == aware
    assert repr(ShawRelativeConfig(radius=3).build(**sizes)) == "ShawRelative(head_dim=4, radius=3)"


@pytest.mark.parametrize("config", [Dot(), ScaledDot(), GeneralConfig(), AdditiveConfig(), CosineConfig()], ids=repr)
def test_every_score_is_a_comparison_of_features(config: object, query: Tensor, key: Tensor) -> None:
    score = config.build(query_dim=6, key_dim=6, num_heads=3)
    score = score.double() if isinstance(score, torch.nn.Module) else score
    assert isinstance(score, Score)
    compared = score.compare(score.query_features(query), score.key_features(key))
    torch.testing.assert_close(score(query, key), compared)


def test_configurations_build_learned_scores_of_the_widths_at_hand() -> None:
    assert repr(GeneralConfig().build(query_dim=4, key_dim=6)) == "General(query_dim=4, key_dim=6, num_heads=1)"
    additive = "Additive(query_dim=4, key_dim=6, hidden_dim={}, num_heads=2)"
    assert repr(AdditiveConfig().build(query_dim=4, key_dim=6, num_heads=2)) == additive.format(4)
    assert repr(AdditiveConfig(hidden_dim=9).build(query_dim=4, key_dim=6, num_heads=2)) == additive.format(9)
    assert Dot().build(query_dim=4, key_dim=4) == Dot()


@pytest.mark.parametrize("config", [Dot(), ScaledDot(), CosineConfig(), ShawRelativeConfig()])
def test_dot_products_of_different_widths_are_refused_when_a_model_is_built(config: Dot) -> None:
    with pytest.raises(ValueError, match="needs queries") as refusal:
        config.build(query_dim=4, key_dim=6)
    name = type(config).__name__.removesuffix("Config")
    assert str(refusal.value) == (
        f"{name} needs queries and keys of one width, got 4 and 6. Choose equal widths, or the score "
        '"general" or "additive", which learn to join different ones.'
    )


def test_a_distance_learns_from_all_its_pairs_in_half_precision() -> None:
    """A sum of ones in bfloat16 stops at 256."""
    score, ones = ShawRelative(head_dim=1, radius=1).bfloat16(), torch.ones(1, 1, 600, 1, dtype=torch.bfloat16)
    score.scores_at(ones, ones, Positions.of(600, 600)).sum().backward()
    farther = 599 * 598 // 2 + 599
    expected = torch.tensor([farther, 600, farther]).double()
    torch.testing.assert_close(score.vectors.grad[:, 0].double(), expected, atol=1, rtol=2**-7)


class Timed:
    """A wrapper that passes every attribute on, as that of torch.compile does."""

    def __init__(self, score: ShawRelative) -> None:
        self._score = score

    def __getattr__(self, name: str) -> object:
        return getattr(self._score, name)


def test_a_wrapper_of_a_score_that_reads_positions_reads_them_too() -> None:
    score, x = ShawRelative(head_dim=4, radius=2), torch.randn(1, 1, 5, 4)
    alone = Attention(score).explain(x, x, x).context
    for wrapper in (Timed(score), torch.compile(score, backend="eager")):
        attention = Attention(wrapper)  # type: ignore[arg-type]
        assert torch.equal(attention.explain(x, x, x).context, alone)
        assert torch.allclose(attention.run(x, x, x), alone)
