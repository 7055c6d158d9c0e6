"""Luong's local attention, against the paper written out entry by entry."""

import math

import pytest
import torch
from torch import Tensor

from foveate.attention import (
    Attention,
    AttentionConfig,
    Dot,
    GeneralConfig,
    LocalMonotonicConfig,
    LocalPredictiveConfig,
    Positions,
    causal,
    padding,
)
from foveate.data.batch import Batch
from foveate.models import LuongConfig

LENGTHS = [9, 6, 1]
D = 2


@pytest.fixture
def query() -> Tensor:
    return 3 * torch.randn(3, 1, 4, 6, dtype=torch.float64)


@pytest.fixture
def memory() -> Tensor:
    hidden = torch.randn(3, 1, 9, 6, dtype=torch.float64)
    for row, length in enumerate(LENGTHS):
        hidden[row, :, length:] = torch.nan
    return hidden


@pytest.fixture
def at() -> Positions:
    return Positions.of(4, 9, key_lengths=torch.tensor(LENGTHS))


def local(**settings: object) -> Attention:
    torch.manual_seed(5)
    config = LocalPredictiveConfig(window=D, **settings)
    return config.build(query_dim=6, key_dim=6, visibility=padding(), kind="cross").double()


def by_the_paper(attention: Attention, h_t: Tensor, source: Tensor) -> tuple[Tensor, float]:
    """Equations 7–10 for one target word and one source without padding."""
    S = len(source)
    W_p, v_p = attention.centre.weight[0].T, attention.centre.vector[0]
    p_t = S / (1 + math.exp(-float(v_p @ torch.tanh(W_p @ h_t))))
    window = [s for s in range(S) if p_t - D <= s <= p_t + D]
    scores = {s: float(h_t @ attention.score.weight[0] @ source[s]) for s in window}
    total = sum(math.exp(score) for score in scores.values())
    a_t = torch.zeros(S, dtype=torch.float64)
    for s in window:
        a_t[s] = math.exp(scores[s]) / total * math.exp(-((s - p_t) ** 2) / (2 * (D / 2) ** 2))
    return a_t, p_t


@torch.no_grad()
def test_local_p_is_the_papers_equations(query: Tensor, memory: Tensor, at: Positions) -> None:
    attention = local()
    explanation = attention.explain(query, memory, memory, at=at)
    for row, length in enumerate(LENGTHS):
        source = memory[row, 0, :length]
        for time in range(4):
            a_t, p_t = by_the_paper(attention, query[row, 0, time], source)
            assert 0 <= p_t <= length
            torch.testing.assert_close(explanation.weights[row, 0, time, :length], a_t)
            torch.testing.assert_close(explanation.context[row, 0, time], a_t @ source)
    assert (explanation.weights.sum(-1) <= 1).all()
    torch.testing.assert_close(attention.run(query, memory, memory, at=at), explanation.context)


@torch.no_grad()
def test_padding_moves_no_prediction(query: Tensor, memory: Tensor, at: Positions) -> None:
    attention = local()
    together = attention.explain(query, memory, memory, at=at)
    for row, length in enumerate(LENGTHS):
        source = memory[row : row + 1, :, :length]
        alone = attention.explain(query[row : row + 1], source, source, at=Positions.of(4, length))
        torch.testing.assert_close(alone.weights[0], together.weights[row, :, :, :length])


def test_the_prediction_learns_through_the_gaussian_alone(query: Tensor, memory: Tensor, at: Positions) -> None:
    """With the window held and align held constant, ∂/∂W_p of Σ align · Gaussian is the whole gradient."""
    attention = local()
    memory = memory.nan_to_num()
    context = attention.run(query, memory, memory, at=at)
    direction = torch.randn_like(context)
    parameters = list(attention.centre.parameters())
    gradients = torch.autograd.grad((context * direction).sum(), parameters)

    centre = attention.centre(query, at)
    place = torch.arange(9)
    near = ((place - centre).abs() <= D) & (place < torch.tensor(LENGTHS)[:, None, None, None])
    align = attention.score(query, memory).masked_fill(~near, -torch.inf).softmax(-1).nan_to_num().detach()
    weights = align * torch.exp(-((place - centre) ** 2) / (2 * (D / 2) ** 2))
    expected = torch.autograd.grad(((weights @ memory) * direction).sum(), parameters)
    for one, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(one, other)
        assert (one != 0).any()


@torch.no_grad()
def test_renormalised_rows_sum_to_one_and_keep_their_proportions(query: Tensor, memory: Tensor, at: Positions) -> None:
    published, ours = local(), local(renormalise=True)
    plain = published.explain(query, memory, memory, at=at).weights
    again = ours.explain(query, memory, memory, at=at).weights
    torch.testing.assert_close(plain / plain.sum(-1, keepdim=True), again)
    torch.testing.assert_close(again.sum(-1), torch.ones(3, 1, 4, dtype=torch.float64))


@torch.no_grad()
def test_local_m_looks_around_the_place_of_the_word(query: Tensor, memory: Tensor, at: Positions) -> None:
    config = LocalMonotonicConfig(window=D, score=Dot())
    attention = config.build(query_dim=6, key_dim=6, visibility=padding(), kind="cross")
    explanation = attention.explain(query, memory, memory, at=at)
    for row, length in enumerate(LENGTHS):
        for time in range(4):
            window = [s for s in range(length) if time - D <= s <= time + D]
            expected = torch.zeros(9, dtype=torch.float64)
            if window:
                scores = torch.stack([query[row, 0, time] @ memory[row, 0, s] for s in window])
                expected[window] = scores.softmax(-1)
            torch.testing.assert_close(explanation.weights[row, 0, time], expected)


@torch.no_grad()
def test_local_m_with_a_window_as_long_as_the_source_is_global(query: Tensor, memory: Tensor, at: Positions) -> None:
    sizes = {"query_dim": 6, "key_dim": 6, "visibility": padding(), "kind": "cross"}
    wide = LocalMonotonicConfig(window=9, score=Dot()).build(**sizes)
    everywhere = AttentionConfig(score=Dot()).build(**sizes)
    torch.testing.assert_close(
        wide.run(query, memory, memory, at=at), everywhere.run(query, memory, memory, at=at), atol=0, rtol=0
    )


@torch.no_grad()
def test_each_head_predicts_its_own_place() -> None:
    config = LocalPredictiveConfig(window=D, hidden_dim=5)
    attention = config.build(query_dim=4, key_dim=4, num_heads=3, visibility=padding(), kind="cross")
    x = torch.randn(2, 3, 7, 4)
    centre = attention.centre(x, Positions.of(7, 7))
    for head in range(3):
        hidden = torch.tanh(x[:, head] @ attention.centre.weight[head])
        torch.testing.assert_close(centre[:, head, :, 0], 7 * (hidden @ attention.centre.vector[head]).sigmoid())


def test_a_decoders_own_past_has_no_length_to_point_into() -> None:
    with pytest.raises(ValueError, match="local_predictive") as refusal:
        LocalPredictiveConfig().build(query_dim=4, key_dim=4, visibility=causal(), kind="self")
    assert str(refusal.value) == (
        "local_predictive points into a sequence of known length, and a decoder's past has none: steps would not be "
        'the whole. Choose it for the encoder or for cross-attention, or "local_monotonic".'
    )
    LocalPredictiveConfig().build(query_dim=4, key_dim=4, visibility=padding(), kind="self")


def test_across_sequences_the_rule_may_hold_the_lengths_of_a_batch() -> None:
    sizes = {"query_dim": 4, "key_dim": 4, "visibility": padding([3, 1]), "kind": "cross"}
    assert LocalPredictiveConfig().build(**sizes).run(*torch.randn(3, 2, 1, 3, 4)).shape == (2, 1, 3, 4)


def test_a_window_of_nothing_is_refused() -> None:
    for config in (LocalMonotonicConfig, LocalPredictiveConfig):
        with pytest.raises(ValueError, match="window=0 must be at least 1"):
            config(window=0)


@pytest.mark.parametrize("attention", [LocalMonotonicConfig(window=1), LocalPredictiveConfig(window=1)])
def test_one_step_of_training_changes_every_weight(attention: object) -> None:
    model = LuongConfig(embedding_dim=4, hidden_dim=6, attention=attention, dropout=0.0).build(9, 9)
    before = {name: parameter.clone() for name, parameter in model.attention.named_parameters()}
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    source, target = Batch.of([[4, 5, 6, 7, 8, 2], [5, 2]]), Batch.of([[1, 5, 4, 2], [1, 6, 2]])
    first = model.loss(source, target)
    first.backward()
    optimiser.step()
    assert all(not torch.equal(parameter, before[name]) for name, parameter in model.attention.named_parameters())
    assert model.loss(source, target) < first
    assert GeneralConfig() == attention.score
