"""From scores to weights."""

import torch

from foveate.attention import Normaliser, Softmax

VISIBLE = torch.tensor([[[[True, True, False], [False, False, False]]]])
SCORES = torch.tensor([[[[1.0, 3.0, 50.0], [1.0, 2.0, 3.0]]]])


def test_hidden_keys_weigh_nothing_and_an_empty_row_is_zero() -> None:
    weights = Softmax()(SCORES, VISIBLE)
    torch.testing.assert_close(weights[0, 0, 0, :2], torch.tensor([1.0, 3.0]).softmax(0))
    assert weights[0, 0, 0, 2] == 0
    assert (weights[0, 0, 1] == 0).all()


def test_scores_as_large_as_they_get_do_not_overflow() -> None:
    weights = Softmax()(SCORES * 1e30, torch.ones_like(VISIBLE))
    assert weights.isfinite().all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 1, 2))


def test_an_empty_row_has_finite_gradients() -> None:
    scores = SCORES.clone().requires_grad_()
    Softmax()(scores, VISIBLE).square().sum().backward()
    assert scores.grad.isfinite().all()
    assert (scores.grad[0, 0, 1] == 0).all()


def test_any_tile_follows_from_one_number_a_row() -> None:
    softmax = Softmax()
    statistic = softmax.statistic(SCORES, VISIBLE)
    assert statistic[0, 0, 1] == -torch.inf
    tile = softmax.tile(SCORES[..., 1:], VISIBLE[..., 1:], statistic)
    torch.testing.assert_close(tile, softmax(SCORES, VISIBLE)[..., 1:])
    assert isinstance(softmax, Normaliser)


def test_the_statistic_is_float32_at_least() -> None:
    for dtype, kept in (
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ):
        assert Softmax().statistic(SCORES.to(dtype), VISIBLE).dtype == kept
