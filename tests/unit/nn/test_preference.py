"""Log-probabilities of whole texts, and the loss that makes some more probable than others."""

import math

import torch

from foveate.nn.loss import Predictions
from foveate.nn.preference import log_probabilities, preference


def test_a_text_has_the_sum_of_its_tokens_log_probabilities() -> None:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.tensor([4, 1, 6, 3])
    tokens = torch.randint(0, 5, (14,), generator=generator)
    logits = 3 * torch.randn(14, 5, generator=generator, dtype=torch.float64)
    each = logits.log_softmax(-1)[torch.arange(14), tokens].split(lengths.tolist())
    expected = torch.stack([each[text].sum() for text in (3, 0, 2, 3)])
    sums = log_probabilities(Predictions(logits), tokens, lengths, torch.tensor([3, 0, 2, 3]))
    torch.testing.assert_close(sums, expected)


def test_from_vectors_and_a_matrix_it_is_the_same() -> None:
    generator = torch.Generator().manual_seed(1)
    vectors = torch.randn(6, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(5, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    tokens, lengths, texts = torch.tensor([0, 4, 2, 1, 3, 3]), torch.tensor([2, 1, 3]), torch.tensor([2, 0])
    from_vectors = log_probabilities(Predictions(vectors, weight), tokens, lengths, texts)
    torch.testing.assert_close(
        from_vectors, log_probabilities(Predictions(vectors @ weight.mT), tokens, lengths, texts)
    )
    assert torch.autograd.gradcheck(
        lambda vectors, weight: log_probabilities(Predictions(vectors, weight), tokens, lengths, texts),
        (vectors, weight),
    )


def test_half_precision_is_summed_in_float32() -> None:
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(500, 7, generator=generator).bfloat16()
    tokens = torch.randint(0, 7, (500,), generator=generator)
    sums = log_probabilities(Predictions(logits), tokens, torch.tensor([500]), torch.tensor([0]))
    exact = log_probabilities(Predictions(logits.double()), tokens, torch.tensor([500]), torch.tensor([0]))
    assert sums.dtype == torch.float32
    torch.testing.assert_close(sums.double(), exact, rtol=1e-5, atol=0)


def test_no_texts_have_no_sums() -> None:
    nothing = torch.tensor([], dtype=torch.int64)
    sums = log_probabilities(Predictions(torch.zeros(2, 3)), torch.tensor([0, 1]), torch.tensor([2]), nothing)
    assert sums.shape == (0,)


def test_the_loss_of_a_pair_is_minus_the_log_of_a_sigmoid() -> None:
    better, worse = torch.tensor([-3.0, -20.0, -1000.0]), torch.tensor([-5.0, -4.0, -1.0])
    ratio = [math.exp(0.5 * (a - b)) for a, b in ((-3, -5), (-20, -4))]
    expected = [-math.log(value / (1 + value)) for value in ratio]
    torch.testing.assert_close(preference(better, worse, 0.5), torch.tensor([*expected, 499.5]))
