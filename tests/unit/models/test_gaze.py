"""The decoder of Show, Attend and Tell: its equations, its penalty, and the gradient of drawn glimpses."""

import itertools
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from foveate.attention import AdditiveConfig, AttentionConfig, HardConfig, choices, record
from foveate.data.batch import Batch
from foveate.models import GazeConfig, GazeDecoder
from foveate.models.gaze import uneven

VOCAB, WIDTH, CELLS = 7, 4, 3
FLOAT32 = {"atol": 3e-6, "rtol": 0}
"""The cross-entropy of training is computed in float32; all else here in float64."""
SMALL = GazeConfig(embedding_dim=5, hidden_dim=6, dropout=0.0)


def hard(**settings: float) -> GazeConfig:
    normaliser = HardConfig(mode="sample", **settings)
    return replace(SMALL, attention=AttentionConfig(score=AdditiveConfig(), normaliser=normaliser))


def decoder(config: GazeConfig) -> GazeDecoder:
    torch.manual_seed(3)
    model = config.build_for(WIDTH, VOCAB).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return model


@pytest.fixture
def grid() -> Batch:
    torch.manual_seed(5)
    return Batch(torch.randn(2, CELLS, WIDTH, dtype=torch.float64), torch.tensor([CELLS, 2]))


@pytest.fixture
def target() -> Batch:
    return Batch.of([[1, 5, 6, 2], [1, 4, 2]])


def test_logits_are_the_papers_equations(grid: Batch, target: Batch) -> None:
    model = decoder(SMALL)
    lstm, attention = model.cell.rnn, model.attention
    assert attention is not None

    def picture(row: int, cells: int) -> list[Tensor]:
        a = grid.features[row, :cells]
        h, c = (torch.tanh(start(a.mean(0))) for start in (model.start_hidden, model.start_cell))
        logits = []
        for token in target.ids[row, : int(target.lengths[row]) - 1]:
            word = model.target_embedding.weight[token]
            e = attention.score(h[None, None, None], a[None, None])[0, 0, 0]
            gate = torch.sigmoid(model.gate.weight[0] @ h + model.gate.bias[0])
            z = gate * (e.softmax(0)[:, None] * a).sum(0)
            gates = torch.cat([word, z]) @ lstm.weight_ih_l0.T + lstm.bias_ih_l0 + h @ lstm.weight_hh_l0.T
            i, f, g, o = (gates + lstm.bias_hh_l0).chunk(4)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            logits.append(model.output(word + model.from_hidden(h) + model.from_context(z)))
        return logits

    expected = torch.stack(picture(0, CELLS) + picture(1, 2))

    torch.testing.assert_close(model.eval()(grid, target), expected, atol=1e-10, rtol=0)


def test_the_penalty_is_added_while_training_only_and_counts_real_places_and_steps(grid: Batch, target: Batch) -> None:
    model = decoder(replace(SMALL, penalty=0.5))
    plain = decoder(replace(SMALL, penalty=0.0))
    with record(model) as recording:
        model.eval()(grid, target)
    looks = [one.weights()[:, 0] for one in recording.of_kind("cross")]
    weights = torch.cat(looks, 1)
    first, second = weights[0].sum(0), weights[1, :2, :2].sum(0)
    expected = 0.5 * (((1 - first) ** 2).sum() + ((1 - second) ** 2).sum())

    torch.testing.assert_close(model.eval().loss(grid, target), plain.eval().loss(grid, target))
    more = model.train().loss(grid, target) - plain.train().loss(grid, target)
    torch.testing.assert_close(more.double(), expected, **FLOAT32)
    (gradient,) = torch.autograd.grad(
        more,
        [
            model.attention.score.weight_query
            if hasattr(model.attention.score, "weight_query")
            else next(model.attention.parameters())
        ],
    )
    assert gradient.abs().sum() > 0


def test_captions_that_look_everywhere_once_pay_nothing() -> None:
    everywhere = torch.eye(CELLS)[None]

    assert uneven(everywhere, torch.tensor([CELLS]), torch.tensor([CELLS])) == 0
    assert uneven(everywhere, torch.tensor([CELLS]), torch.tensor([CELLS - 1])) == 1


def test_without_attention_the_order_of_places_does_not_matter_and_nothing_is_recorded(
    grid: Batch, target: Batch
) -> None:
    model = decoder(replace(SMALL, attention=None)).eval()
    turned = Batch(grid.features[:1].flip(1), grid.lengths[:1])
    first = Batch(target.ids[:1], target.lengths[:1])

    with record(model) as recording:
        logits = model(turned, first)

    assert not recording.of_kind("cross")
    torch.testing.assert_close(logits, model(Batch(grid.features[:1], grid.lengths[:1]), first), atol=1e-12, rtol=0)


@pytest.mark.parametrize("entropy_weight", [0.0, 0.3])
@pytest.mark.parametrize("baseline", [0.0, -4.0])
def test_the_expected_gradient_of_drawn_glimpses_is_the_exact_gradient(
    entropy_weight: float, baseline: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All 3² glimpses of a caption of one word and its end: the mean over them, weighted by their probabilities."""
    model = decoder(hard(entropy_weight=entropy_weight)).train()
    assert model.reinforce is not None
    source = Batch(torch.randn(1, CELLS, WIDTH, dtype=torch.float64), torch.tensor([CELLS]))
    target = Batch.of([[1, 5, 2]])
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    plan: list[int] = []
    monkeypatch.setattr(Tensor, "multinomial", lambda self, number: torch.tensor([[plan.pop(0)]]))

    exact, expected = torch.zeros((), dtype=torch.float64), [torch.zeros_like(one) for one in parameters]
    total = 0.0
    for glimpses in itertools.product(range(CELLS), repeat=2):
        plan.extend(glimpses)
        with choices() as taken:
            logits = model(source, target)
        log_probability = torch.stack([one.log_probability.sum() for one in taken]).sum()
        entropy = torch.stack([one.entropy.sum() for one in taken]).sum()
        loss = torch.nn.functional.cross_entropy(logits, model.predicted(target), reduction="sum")
        # The paper's estimate has the gradient of the entropy along each draw, not that of the draws' probabilities.
        exact = exact + log_probability.exp() * loss - log_probability.exp().detach() * entropy_weight * entropy
        plan.extend(glimpses)
        model.reinforce.baseline.fill_(baseline)
        model.reinforce.started.fill_(True)
        estimate = torch.autograd.grad(model.loss(source, target), parameters, allow_unused=True)
        probability = float(log_probability.detach().exp())
        total += probability
        for one, gradient in zip(expected, estimate, strict=True):
            if gradient is not None:
                one += probability * gradient

    assert total == pytest.approx(1)
    for one, other in zip(expected, torch.autograd.grad(exact, parameters, allow_unused=True), strict=True):
        torch.testing.assert_close(one, torch.zeros_like(one) if other is None else other, **FLOAT32)


def test_an_example_that_uses_the_expectation_does_so_for_its_whole_caption(monkeypatch: pytest.MonkeyPatch) -> None:
    model = decoder(hard(expectation=0.5)).train()
    rows = 40
    source = Batch(torch.randn(rows, CELLS, WIDTH, dtype=torch.float64), torch.full((rows,), CELLS))
    target = Batch.of([[1, 5, 6, 4, 2]] * rows)

    with choices() as taken:
        model(source, target)

    soft = torch.stack([one.log_probability[:, 0, 0] == 0 for one in taken])
    assert (soft == soft[0]).all()
    assert 5 < int(soft[0].sum()) < 35


def test_the_baseline_follows_training_and_is_stored_with_the_model(grid: Batch, target: Batch) -> None:
    model = decoder(hard())
    model.train().loss(grid, target)

    assert float(model.state_dict()["reinforce.baseline"]) < 0
    other = decoder(hard())
    other.load_state_dict(model.state_dict())
    assert other.reinforce.baseline == model.reinforce.baseline


def test_a_penalty_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="penalty must be at least 0"):
        GazeConfig(penalty=-1.0)
