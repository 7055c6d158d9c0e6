"""Unlikelihood in nats, summed, of tokens that would repeat an n-gram of their text by mistake."""

import math

import pytest
import torch

from foveate.nn.loss import Predictions
from foveate.nn.packing import Packing
from foveate.nn.unlikelihood import Repetition, repetitions, unlikelihood


def defined(texts: list[list[int]], ngram: int) -> set[tuple[int, int]]:
    """Candidates by the words of the definition."""
    pairs, row = set(), 0
    for text in texts:
        for t, right in enumerate(text):
            context = text[max(t - ngram + 1, 0) : t]
            for i in range(ngram - 1, t):
                if text[i - ngram + 1 : i] == context and text[i] != right:
                    pairs.add((row + t, text[i]))
        row += len(text)
    return pairs


@pytest.mark.parametrize("ngram", [1, 2, 3, 4])
def test_candidates_are_those_of_the_definition(ngram: int) -> None:
    generator = torch.Generator().manual_seed(ngram)
    lengths = torch.randint(1, 13, (30,), generator=generator)
    ids = torch.randint(1, 4, (30, 12), generator=generator)
    ids[torch.arange(12) >= lengths[:, None]] = 0
    texts = [row[:length].tolist() for row, length in zip(ids, lengths, strict=True)]
    candidates = repetitions(ids, lengths, ngram)
    pairs = list(zip(candidates.rows.tolist(), candidates.tokens.tolist(), strict=True))
    assert pairs == sorted(defined(texts, ngram))
    assert pairs


def test_an_n_gram_longer_than_every_text_has_no_candidates() -> None:
    candidates = repetitions(torch.tensor([[5, 5, 5]]), torch.tensor([3]), 7)
    assert len(candidates.rows) == 0
    logits = torch.zeros(3, 6, requires_grad=True)
    loss = unlikelihood(Predictions(logits), candidates)
    loss.backward()
    assert loss == 0
    assert logits.grad is not None
    assert not logits.grad.any()


def test_an_n_gram_has_a_token_at_least() -> None:
    with pytest.raises(ValueError, match="ngram must be at least 1, got 0"):
        repetitions(torch.tensor([[5, 5]]), torch.tensor([2]), 0)


def test_it_is_the_sum_of_negative_logs_of_the_other_tokens_probability() -> None:
    generator = torch.Generator().manual_seed(0)
    ids, lengths = torch.randint(1, 5, (6, 9), generator=generator), torch.tensor([9, 1, 5, 9, 7, 2])
    logits = torch.randn(int(lengths.sum()), 5, generator=generator, dtype=torch.float64) * 4
    candidates = repetitions(ids, lengths, 2)
    share = logits.softmax(-1)[candidates.rows, candidates.tokens]
    assert share.max() > 0.9
    assert share.min() < 0.01
    torch.testing.assert_close(unlikelihood(Predictions(logits), candidates), -(1 - share).log().sum())
    logits.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: unlikelihood(Predictions(x), candidates), (logits,))
    assert torch.autograd.gradgradcheck(lambda x: unlikelihood(Predictions(x), candidates), (logits,))


def test_rows_are_those_of_packed_logits() -> None:
    ids, lengths = torch.tensor([[5, 6, 0, 0, 0, 0], [7, 8, 9, 7, 8, 1]]), torch.tensor([2, 6])
    candidates = repetitions(ids, lengths, 3)
    assert candidates.tokens.tolist() == [9]
    assert Packing(lengths, 6).pack(ids)[candidates.rows].tolist() == [1]


def test_a_certain_candidate_has_a_finite_loss_and_a_gradient() -> None:
    logits = torch.tensor([[200.0, 0.0, 0.0]], requires_grad=True)
    loss = unlikelihood(Predictions(logits), Repetition(torch.tensor([0]), torch.tensor([0])))
    assert loss.item() == pytest.approx(200 - math.log(2))
    loss.backward()
    torch.testing.assert_close(logits.grad, torch.tensor([[1.0, -0.5, -0.5]]))


def test_half_precision_logits_are_summed_in_float32() -> None:
    logits = torch.randn(1, 8, generator=torch.Generator().manual_seed(1)).bfloat16()
    candidates = Repetition(torch.tensor([0, 0]), torch.tensor([2, 5]))
    loss = unlikelihood(Predictions(logits), candidates)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, unlikelihood(Predictions(logits.float()), candidates), rtol=0, atol=0)
