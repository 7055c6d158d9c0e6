"""Cross-entropy in nats, summed."""

import pytest
import torch

from foveate.nn.loss import Loss, cross_entropy, mixed_cross_entropy

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


def test_double_precision_stays() -> None:
    logits, shares = LOGITS.double().log_softmax(-1) * 1.1, torch.tensor([0.25, 1.0], dtype=torch.float64)
    exact = -logits.log_softmax(-1)[[0, 1], TARGET]
    torch.testing.assert_close(cross_entropy(logits, TARGET), exact.sum(), rtol=0, atol=1e-15)
    mixed = mixed_cross_entropy(logits, TARGET, TARGET, shares)
    torch.testing.assert_close(mixed, exact.sum(), rtol=0, atol=1e-15)


def test_no_tokens_lose_nothing() -> None:
    assert cross_entropy(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)) == 0


def test_a_loss_is_a_sum_and_a_count() -> None:
    loss = Loss(torch.tensor(6.0), 3)
    assert loss.total / loss.count == 2
    assert loss.metrics == {}


def test_a_blended_example_has_the_loss_of_the_mixture_of_its_labels() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(7, 5, generator=generator)
    own, other = (torch.randint(5, (7,), generator=generator) for _ in range(2))
    shares = torch.rand(7, generator=generator)
    one_hot = torch.nn.functional.one_hot
    target = shares[:, None] * one_hot(own, 5) + (1 - shares[:, None]) * one_hot(other, 5)
    for smoothing in (0.0, 0.1):
        expected = torch.nn.functional.cross_entropy(logits, target, label_smoothing=smoothing, reduction="sum")
        loss = mixed_cross_entropy(logits, own, other, shares, label_smoothing=smoothing)
        torch.testing.assert_close(loss, expected)
    whole = mixed_cross_entropy(logits, own, other, torch.ones(7))
    torch.testing.assert_close(whole, cross_entropy(logits, own))


def test_the_mixed_loss_sums_in_float32() -> None:
    logits, label = torch.zeros(4096, 8, dtype=torch.bfloat16), torch.zeros(4096, dtype=torch.long)
    loss = mixed_cross_entropy(logits, label, label, torch.full((4096,), 0.3))
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, 4096 * torch.tensor(8.0).log())
