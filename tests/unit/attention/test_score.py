"""The scores against the formulas as the lectures write them, entry by entry."""

import math

import pytest
import torch
from torch import Tensor

from foveate.attention import Additive, AdditiveConfig, Dot, General, GeneralConfig, ScaledDot, Score


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


@pytest.mark.parametrize("config", [Dot(), ScaledDot(), GeneralConfig(), AdditiveConfig()], ids=repr)
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


@pytest.mark.parametrize("config", [Dot(), ScaledDot()])
def test_dot_products_of_different_widths_are_refused_when_a_model_is_built(config: Dot) -> None:
    with pytest.raises(ValueError, match="needs queries") as refusal:
        config.build(query_dim=4, key_dim=6)
    assert str(refusal.value) == (
        f"{type(config).__name__} needs queries and keys of one width, got 4 and 6. Choose equal widths, or the score "
        '"general" or "additive", which learn to join different ones.'
    )
