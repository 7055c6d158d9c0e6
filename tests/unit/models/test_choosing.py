"""Recurrent decoders that draw what they look at, and learn to draw well."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from foveate.attention import AttentionConfig, GeneralConfig, Hard, HardConfig
from foveate.attention.normaliser import Choice
from foveate.data.batch import Batch
from foveate.models import BahdanauConfig, LuongConfig, Seq2Seq

DRAWS = 4000


class Fixed(nn.Module):
    """Always looks at one place, and keeps the distribution that it was offered."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place, self.offered = place, None

    def forward(self, scores: Tensor, visible: Tensor) -> Tensor:
        self.offered = scores.softmax(-1)
        return nn.functional.one_hot(torch.full(scores.shape[:-1], self.place), scores.shape[-1]).to(scores.dtype)

    def statistic(self, scores: Tensor, visible: Tensor) -> Tensor:
        return torch.full(scores.shape[:-1], self.place)

    def tile(self, scores: Tensor, visible: Tensor, statistic: Tensor, *, first: int = 0) -> Tensor:
        return nn.functional.one_hot(statistic - first, scores.shape[-1]).to(scores.dtype)


def configured(mode: str) -> AttentionConfig:
    return AttentionConfig(score=GeneralConfig(), normaliser=HardConfig(mode=mode))


MODELS: dict[str, Callable[[str], Seq2Seq]] = {
    "bahdanau": lambda mode: BahdanauConfig(
        embedding_dim=4, hidden_dim=3, maxout_dim=3, attention=configured(mode), dropout=0.0
    ).build(6, 6),
    "luong fed": lambda mode: LuongConfig(embedding_dim=4, hidden_dim=4, attention=configured(mode), dropout=0.0).build(
        6, 6
    ),
    "luong parallel": lambda mode: LuongConfig(
        embedding_dim=4, hidden_dim=4, attention=configured(mode), dropout=0.0, input_feeding=False
    ).build(6, 6),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_mean_gradient_of_the_loss_is_that_of_the_expected_loss(name: str) -> None:
    model = MODELS[name]("sample").double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)
    weight = model.attention.score.weight
    source, target = Batch.of([[4, 2]]), Batch.of([[1, 5]])
    sampled = model.attention.normaliser
    expected = torch.zeros(())
    for place in range(2):
        model.attention.normaliser = fixed = Fixed(place)
        model.eval()
        nats = model.loss(source, target)
        expected = expected + fixed.offered[0, 0, 0, place] * nats
    (exact,) = torch.autograd.grad(expected, weight)

    model.attention.normaliser = sampled
    model.train()
    many = Batch.of([[4, 2]] * DRAWS), Batch.of([[1, 5]] * DRAWS)
    model.loss(*many)  # the baseline's first mean
    (gradients,) = torch.autograd.grad(model.loss(*many) / DRAWS, weight)
    torch.testing.assert_close(gradients, exact, atol=0.15 * float(exact.abs().max()), rtol=0)


class Spy(nn.Module):
    """Keeps what it is told, and adds nothing."""

    def forward(self, earned: Tensor, taken: list[Choice]) -> Tensor:
        self.earned, (self.made,) = earned, taken
        return earned.sum() * 0


@pytest.mark.parametrize("name", MODELS)
def test_a_sentence_learns_from_its_own_words_and_from_no_draw_past_its_end(name: str) -> None:
    model = MODELS[name]("sample")
    model.reinforce = spy = Spy()
    source = Batch.of([[4, 3, 2], [5, 2]])
    loss = model.loss(source, Batch.of([[1, 5, 4, 2], [1, 2]]))
    torch.testing.assert_close(-spy.earned.sum(), loss)
    assert spy.earned.shape == (2,)
    for answer in spy.made:
        assert answer.shape == (2, 1, 3)
        assert (answer[0] != 0).all()
        assert answer[1, 0, 0] != 0
        assert (answer[1, 0, 1:] == 0).all()


def test_in_evaluation_the_loss_is_the_cross_entropy_of_the_likeliest_places() -> None:
    model = MODELS["bahdanau"]("sample").eval()
    twin = MODELS["bahdanau"]("argmax").eval()
    twin.load_state_dict(model.state_dict(), strict=False)
    source, target = Batch.of([[4, 3, 2], [5, 2]]), Batch.of([[1, 5, 4, 2], [1, 2]])
    assert torch.equal(model.loss(source, target), twin.loss(source, target))
    assert twin.reinforce is None
    assert isinstance(model.attention.normaliser, Hard)
