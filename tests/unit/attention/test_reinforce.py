"""REINFORCE: the mean of its estimates is the exact gradient, by enumerating every choice."""

import pytest
import torch
from torch import Tensor

from foveate.attention import Attention, Dot, Hard, Reinforce, Softmax, choices

DRAWS = 60_000


def log_likelihood(context: Tensor) -> Tensor:
    """Some log p(y|context): not linear, so that the mean of the choices is not the choice of the mean."""
    return -(context.square().sum(-1) + context[..., 0]).flatten(1).sum(-1)


@pytest.fixture(params=[2, 3], ids="{} cells".format)
def cells(request: pytest.FixtureRequest) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(request.param)
    query, key, value = (
        torch.randn(1, 1, 1, 4),
        torch.randn(1, 1, request.param, 4),
        torch.randn(1, 1, request.param, 3),
    )
    return query.double(), key.double(), value.double()


def exact(cells: tuple[Tensor, Tensor, Tensor], entropy_weight: float) -> list[Tensor]:
    """∂/∂θ of −Σ_s p(s) log p(y|s) − λ H."""
    query, key, value = (part.clone().requires_grad_() for part in cells)
    p = Attention(Dot()).explain(query, key, value).weights[0, 0, 0]
    likelihoods = torch.stack([log_likelihood(cell[None, None, None]).squeeze(0) for cell in value[0, 0]])
    loss = -(p * likelihoods).sum() + entropy_weight * (p * p.log()).sum()
    return list(torch.autograd.grad(loss, (query, key, value)))


@pytest.mark.parametrize("entropy_weight", [0.0, 0.5])
def test_the_mean_of_the_estimates_is_the_exact_gradient(
    cells: tuple[Tensor, Tensor, Tensor], entropy_weight: float
) -> None:
    query, key, value = (part.clone().requires_grad_() for part in cells)
    attention = Attention(Dot(), normaliser=Hard(mode="sample"))
    reinforce = Reinforce(entropy_weight=entropy_weight).double()
    reinforce.baseline.fill_(-2.0)
    reinforce.started.fill_(True)
    many = [part.expand(DRAWS, -1, -1, -1) for part in (query, key, value)]
    with choices() as taken:
        context = attention.run(*many)
    earned = log_likelihood(context)
    loss = (reinforce(earned, taken) - earned.sum()) / DRAWS
    gradients = torch.autograd.grad(loss, (query, key, value))
    for one, other in zip(gradients, exact(cells, entropy_weight), strict=True):
        torch.testing.assert_close(one, other, atol=0.05 * float(other.abs().max()) + 0.02, rtol=0)


def test_a_baseline_makes_the_estimates_less_noisy(cells: tuple[Tensor, Tensor, Tensor]) -> None:
    query, key, value = cells
    attention = Attention(Dot(), normaliser=Hard(mode="sample"))

    def spread(baseline: float) -> float:
        many = query.expand(5000, -1, -1, -1).clone().requires_grad_()
        reinforce = Reinforce().double()
        reinforce.baseline.fill_(baseline)
        reinforce.started.fill_(True)
        with choices() as taken:
            context = attention.run(many, key.expand(5000, -1, -1, -1), value.expand(5000, -1, -1, -1))
        (gradient,) = torch.autograd.grad(reinforce(log_likelihood(context), taken), many)
        return float(gradient.var(0).sum())

    p = Softmax()(Dot()(query, key), torch.ones(1, 1, 1, 1, dtype=torch.bool)).flatten()
    mean = sum(p[i] * log_likelihood(value[:, :, i : i + 1]) for i in range(len(p)))
    assert spread(float(mean)) < spread(float(mean) + 20)


def test_the_baseline_is_a_moving_average_of_rewards() -> None:
    reinforce = Reinforce()
    for earned, expected in ((-4.0, -4.0), (-2.0, -3.8), (0.0, -3.42)):
        reinforce(torch.tensor([earned, earned]), [])
        assert float(reinforce.baseline) == pytest.approx(expected)
    reinforce.eval()(torch.tensor([100.0]), [])
    assert float(reinforce.baseline) == pytest.approx(-3.42)
    assert set(reinforce.state_dict()) == {"baseline", "started"}  # a run resumes with it


def test_no_choice_is_reported_outside_the_block_in_evaluation_or_for_rows_that_see_nothing() -> None:
    hard, scores = Hard(mode="sample"), torch.randn(1, 1, 2, 3, requires_grad=True)
    visible = torch.tensor([[[[True, True, False], [False, False, False]]]])
    with choices() as taken:
        hard(scores, visible)
    hard(scores, visible)
    with choices() as quiet:
        hard.eval()(scores, visible)
    assert len(taken) == 1
    assert quiet == []
    assert taken[0].log_probability[0, 0, 1] == taken[0].entropy[0, 0, 1] == 0
    (gradient,) = torch.autograd.grad((taken[0].log_probability + taken[0].entropy).sum(), scores)
    assert gradient.isfinite().all()
    assert (gradient[~visible] == 0).all()


def test_some_examples_use_the_expectation_in_place_of_a_draw() -> None:
    hard, scores = Hard(mode="sample", expectation=0.5), torch.randn(4000, 1, 1, 3)
    weights = hard(scores, torch.ones(1, 1, 1, 1, dtype=torch.bool))
    drawn = (weights == 1).any(-1).flatten()
    assert 0.45 < drawn.double().mean() < 0.55
    torch.testing.assert_close(weights[~drawn], scores[~drawn].softmax(-1))
