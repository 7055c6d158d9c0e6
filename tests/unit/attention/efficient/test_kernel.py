"""Linear attention and Performer: the published sums, the recurrence, and the way to softmax."""

import itertools
import math

import pytest
import torch

from foveate.attention import Attention, Positions, Softmax, Visibility, causal, everything, padding, window
from foveate.attention.efficient import LinearAttention, PerformerAttention, PerformerConfig, running_sum
from foveate.attention.efficient.kernel import KernelAttention, KernelPath, running_sums
from foveate.attention.efficient.linear import Elu, orthogonal_rows
from foveate.attention.normaliser import Proportional


def test_linear_attention_is_its_equation() -> None:
    query, key, value = torch.randn(3, 1, 1, 5, 4, dtype=torch.float64)
    phi = {name: torch.nn.functional.elu(x) + 1 for name, x in (("query", query), ("key", key))}
    weights = phi["query"] @ phi["key"].mT
    expected = (weights @ value) / weights.sum(-1, keepdim=True)
    torch.testing.assert_close(LinearAttention().run(query, key, value), expected)


def test_linear_attention_is_a_recurrent_network() -> None:
    """S_i = S_{i−1} + φ(k_i) v_iᵀ and z_i = z_{i−1} + φ(k_i): what a decoder may keep instead of all keys."""
    query, key, value = torch.randn(3, 70, 4, dtype=torch.float64)
    state, total, contexts = torch.zeros(4, 4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64), []
    phi_q, phi_k = (Elu().query_features(x[None, None])[0, 0] for x in (query, key))
    for q, k, v in zip(phi_q, phi_k, value, strict=True):
        state, total = state + k[:, None] * v, total + k
        contexts.append(q @ state / (q @ total))
    attention = LinearAttention(visibility=causal())
    parallel = KernelPath().run(
        attention, query[None, None], key[None, None], value[None, None], at=Positions.of(70, 70)
    )
    torch.testing.assert_close(parallel[0, 0], torch.stack(contexts))


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 64])
def test_running_sums_do_not_depend_on_how_they_are_cut(chunk: int) -> None:
    q, k, v = torch.rand(3, 2, 2, 7, 3, dtype=torch.float64)
    torch.testing.assert_close(running_sums(q, k, v, chunk), (q @ k.mT).tril() @ v)


def test_features_stay_positive_where_float32_would_round_them_away() -> None:
    small = torch.tensor([-20.0, -80.0])
    assert (torch.nn.functional.elu(small) + 1 == 0).all()
    assert (Elu().query_features(small.view(1, 1, 1, 2)) > 0).all()


def test_epsilon_takes_a_little_from_every_row() -> None:
    scores, visible = torch.ones(1, 1, 1, 4), torch.ones(1, 1, 1, 1, dtype=torch.bool)
    assert Proportional(eps=1.0)(scores, visible).sum().item() == pytest.approx(0.8)
    with pytest.raises(ValueError, match="must not be negative"):
        Proportional(eps=-1.0)


def test_performer_tends_to_softmax_as_features_grow() -> None:
    query, key, value = torch.randn(3, 1, 1, 12, 8, dtype=torch.float64) * 0.7
    exact = Attention().run(query, key, value)
    errors = []
    for num_features in (8, 128, 2048, 32768):
        attention = PerformerAttention(head_dim=8, num_features=num_features).double()
        draws = []
        for seed in range(8):
            attention.redraw(seed)
            draws.append((attention.run(query, key, value) - exact).square().mean())
        errors.append(math.sqrt(sum(map(float, draws)) / 8))
    assert all(one > 2 * other for one, other in itertools.pairwise(errors))  # 16 × features, error / 4
    assert errors[-1] < 0.02


def test_the_kernel_is_right_on_average() -> None:
    query, key = torch.randn(2, 1, 1, 1, 4, dtype=torch.float64) / 2
    attention = PerformerAttention(head_dim=4, num_features=16).double()
    kernels = []
    for seed in range(4000):
        attention.redraw(seed)
        kernels.append(attention.score(query, key).exp())
    exact = (query @ key.mT / 2).exp()
    error = torch.stack(kernels).std() / 4000**0.5
    assert (torch.stack(kernels).mean() - exact).abs() < 4 * error


def test_random_features_are_orthogonal_in_blocks_and_long_like_gaussians() -> None:
    rows = orthogonal_rows(4096, 16, torch.Generator().manual_seed(0))
    block = rows[:16] / rows[:16].norm(dim=-1, keepdim=True)
    torch.testing.assert_close(block @ block.mT, torch.eye(16), atol=1e-5, rtol=0)
    assert rows.square().sum(-1).mean().item() == pytest.approx(16, rel=0.03)


def test_the_seed_decides_and_redrawing_changes_the_features_in_place() -> None:
    one, other = (PerformerAttention(head_dim=4, num_features=8, seed=3) for _ in range(2))
    assert torch.equal(one.score.projection, other.score.projection)
    other.redraw(4)
    assert not torch.equal(one.score.projection, other.score.projection)
    assert "score.projection" in one.state_dict()


def test_large_vectors_neither_overflow_nor_vanish() -> None:
    query, key, value = torch.randn(3, 1, 2, 70, 64)
    attention = PerformerAttention(head_dim=64, num_features=32, visibility=causal())
    at = Positions.of(70, 70)
    for size in (1.0, 30.0):
        explanation = attention.explain(size * query, size * key, value)
        context = KernelPath().run(attention, size * query, size * key, value, at=at)
        assert explanation.context.isfinite().all()
        assert context.isfinite().all()
    assert (explanation.weights.sum(-1) - 1).abs().max() < 1e-5


def test_the_fast_form_refuses_rules_that_it_cannot_sum_and_the_materialised_form_computes() -> None:
    attention, x = LinearAttention(visibility=window(left=2, right=0)), torch.randn(1, 1, 6, 4)
    plan = attention.plan(x, x)
    assert plan.chosen == "materialised"
    assert "kernel refused: window(left=2, right=0) is not a sum over all keys, or over all earlier ones" in str(plan)
    later = LinearAttention(visibility=causal()).plan(x[:, :, :3], x, at=Positions.of(3, 6, query_start=3))
    assert "running sums need query i and key i in one place" in str(later)


def test_a_temperature_is_honoured_or_refused() -> None:
    """softmax(log κ / T) is κ^(1/T) over its sum, which is not a product of features."""
    favor, x = PerformerAttention(head_dim=4, num_features=8).score, torch.randn(1, 1, 6, 4)
    attention = KernelAttention(favor, Softmax(temperature=0.5))
    assert "kernel refused: Softmax(temperature=0.5) does not divide by the row's sum" in str(attention.plan(x, x))
    torch.testing.assert_close(attention.run(x, x, x), attention.explain(x, x, x).context)
    assert running_sum(KernelAttention(favor, Softmax(temperature=0.5), visibility=causal()), x, x) is None


@pytest.mark.parametrize("rule", [everything(), causal()])
def test_long_and_short_keys_beside_each_other_stay_exact(rule: Visibility) -> None:
    """A key 30 times as long has features exp(−100) times as large, which float32 rounds to 0 beside the others."""
    attention = PerformerAttention(head_dim=64, num_features=32, visibility=rule)
    query, key, value = torch.randn(3, 2, 2, 20, 64)
    key[:, :, :5] *= 30.0
    query[:, :, ::2] *= 20.0
    exact = attention.double().explain(query.double(), key.double(), value.double()).context
    attention.float()
    path = KernelPath().run(attention, query, key, value, at=Positions.of(20, 20))
    eager = attention.explain(query, key, value).context
    assert (path - exact).abs().max() <= 2 * (eager - exact).abs().max() + 1e-5


def test_long_sequences_take_the_fast_form_and_its_cost_grows_linearly() -> None:
    attention = PerformerAttention(head_dim=16, num_features=32, visibility=causal() & padding())
    flops = []
    for length in (2048, 4096):
        x = torch.randn(1, 1, length, 16)
        plan = attention.plan(x, x)
        assert plan.chosen == "kernel"
        flops.append(next(path.flops for path in plan.paths if path.name == "kernel"))
    assert flops[1] == pytest.approx(2 * flops[0])


def test_shared_keys_serve_groups_of_heads() -> None:
    query, key = torch.randn(2, 4, 5, 8, dtype=torch.float64), torch.randn(2, 2, 5, 8, dtype=torch.float64)
    attention = PerformerAttention(head_dim=8, num_features=8, visibility=causal()).double()
    whole = attention.run(query, key.repeat_interleave(2, 1), key.repeat_interleave(2, 1))
    torch.testing.assert_close(attention.run(query, key, key), whole)


def test_key_features_can_be_kept() -> None:
    query, key = torch.randn(2, 1, 2, 5, 8, dtype=torch.float64)
    for attention in (LinearAttention(), PerformerAttention(head_dim=8, num_features=8).double()):
        one = attention.run(query, key, key, key_features=attention.key_features(key))
        torch.testing.assert_close(one, attention.run(query, key, key))


def test_no_features_are_refused() -> None:
    with pytest.raises(ValueError, match="num_features=0 must be at least 1"):
        PerformerConfig(num_features=0)
