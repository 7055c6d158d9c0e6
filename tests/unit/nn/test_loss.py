"""Cross-entropy in nats, summed."""

import pytest
import torch

from foveate.nn.loss import Loss, cross_entropy

LOGITS = torch.tensor([[2.0, 0.0, -1.0], [0.0, 0.0, 0.0]])
TARGET = torch.tensor([0, 2])


def test_it_is_the_sum_of_negative_log_probabilities() -> None:
    expected = -LOGITS.softmax(-1)[[0, 1], TARGET].log().sum()
    torch.testing.assert_close(cross_entropy(LOGITS, TARGET), expected)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
def test_smoothing_spreads_over_the_vocabulary(smoothing: float) -> None:
    logs = LOGITS.log_softmax(-1)
    expected = -((1 - smoothing) * logs[[0, 1], TARGET] + smoothing * logs.mean(-1)).sum()
    torch.testing.assert_close(cross_entropy(LOGITS, TARGET, label_smoothing=smoothing), expected)


def test_half_precision_logits_are_summed_in_float32() -> None:
    assert cross_entropy(LOGITS.bfloat16(), TARGET).dtype == torch.float32


def test_no_tokens_lose_nothing() -> None:
    assert cross_entropy(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)) == 0


def test_a_loss_is_a_sum_and_a_count() -> None:
    loss = Loss(torch.tensor(6.0), 3)
    assert loss.total / loss.count == 2
    assert loss.metrics == {}
