"""The CTC loss is the sum over all paths, which small lattices allow to enumerate."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from foveate.errors import DataError
from foveate.nn.ctc_loss import ctc_loss, ctc_losses, frames_needed, without_ends

TEXTS = [[], [1], [2, 1], [2, 2], [1, 2, 1]]


def collapsed(path: tuple[int, ...]) -> list[int]:
    return [label for label, _ in itertools.groupby(path) if label]


def enumerated(logits: Tensor, text: list[int]) -> Tensor:
    """−log of the sum over all paths of one row."""
    scores = logits.log_softmax(-1)
    frames, vocab = logits.shape
    paths = [path for path in itertools.product(range(vocab), repeat=frames) if collapsed(path) == text]
    return -torch.stack([scores[range(frames), path].sum() for path in paths]).logsumexp(0)


def batch(texts: list[list[int]]) -> tuple[Tensor, Tensor]:
    return torch.tensor(list(itertools.chain(*texts)), dtype=torch.int64), torch.tensor([len(text) for text in texts])


def test_it_is_the_sum_over_all_paths() -> None:
    logits = torch.randn(5, 4, 3, dtype=torch.float64)
    lengths = torch.tensor([3, 2, 2, 3, 4])
    expected = [enumerated(row[:length], text) for row, length, text in zip(logits, lengths, TEXTS, strict=True)]
    losses = ctc_losses(logits, lengths, *batch(TEXTS))
    torch.testing.assert_close(losses, torch.stack(expected))
    torch.testing.assert_close(ctc_loss(logits, lengths, *batch(TEXTS)), torch.stack(expected).sum())


@pytest.mark.parametrize("normalised", [False, True])
def test_its_gradient_is_that_of_the_sum_over_all_paths(normalised: bool) -> None:
    logits = torch.randn(5, 4, 3, dtype=torch.float64)
    logits = (logits.log_softmax(-1) if normalised else logits).requires_grad_()
    lengths = torch.tensor([3, 2, 3, 3, 4])
    losses = [enumerated(row[:length], text) for row, length, text in zip(logits, lengths, TEXTS, strict=True)]
    (expected,) = torch.autograd.grad(torch.stack(losses).sum(), logits)
    (gradient,) = torch.autograd.grad(ctc_loss(logits, lengths, *batch(TEXTS)), logits)
    torch.testing.assert_close(gradient, expected)
    assert torch.autograd.gradcheck(lambda x: ctc_losses(x, lengths, *batch(TEXTS)), logits)


def test_padding_and_the_other_rows_have_no_influence() -> None:
    lengths = torch.tensor([3, 7, 5])
    logits = torch.randn(3, 7, 4)
    for row, length in enumerate(lengths):
        logits[row, length:] = math.nan
    texts = [[2, 3], [1, 1, 1], []]
    logits.requires_grad_()
    losses = ctc_losses(logits, lengths, *batch(texts))
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    for row, length in enumerate(lengths.tolist()):
        alone = logits[row : row + 1, :length].detach().requires_grad_()
        loss = ctc_loss(alone, lengths[row : row + 1], *batch(texts[row : row + 1]))
        (own,) = torch.autograd.grad(loss, alone)
        assert torch.equal(loss, losses[row])
        assert torch.equal(own[0], gradient[row, :length])
        assert bool((gradient[row, length:] == 0).all())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sums_of_half_precision_are_those_of_float32(dtype: torch.dtype) -> None:
    logits = torch.randn(1, 40, 5).to(dtype)
    arguments = torch.tensor([40]), *batch([[1, 2, 3]])
    assert torch.equal(ctc_loss(logits, *arguments), ctc_loss(logits.float(), *arguments))


def test_it_equals_torch_on_long_rows() -> None:
    logits = torch.randn(3, 120, 30)
    lengths, (target, target_lengths) = torch.tensor([120, 90, 61]), batch([[5] * 30, list(range(1, 29)), [7, 8, 8]])
    padded = torch.nn.utils.rnn.pad_sequence(list(target.split(target_lengths.tolist())), batch_first=True)
    expected = torch.nn.functional.ctc_loss(
        logits.log_softmax(-1).transpose(0, 1), padded, lengths, target_lengths, reduction="sum"
    )
    torch.testing.assert_close(ctc_loss(logits, lengths, target, target_lengths), expected)


def test_rows_that_no_path_spells_are_named_with_their_numbers() -> None:
    target, target_lengths = batch([[1, 2], [3, 3, 3], [1, 2, 3]])
    assert frames_needed(target, target_lengths).tolist() == [2, 5, 3]
    with pytest.raises(DataError, match=r"row 1 has 4 frames for 3 tokens, which need 5; row 2 has 2 frames for 3 tok"):
        ctc_loss(torch.randn(3, 4, 5), torch.tensor([4, 4, 2]), target, target_lengths)
    many = batch([[1, 1]] * 20)
    with pytest.raises(DataError, match=r"row 7 has 2 frames.*; and 12 more"):
        ctc_loss(torch.randn(20, 2, 5), torch.tensor([2] * 20), *many)


def test_equal_tokens_of_two_rows_are_not_repeats() -> None:
    assert frames_needed(*batch([[3], [3, 4], [], [4, 4]])).tolist() == [1, 2, 0, 3]


def test_exactly_enough_frames_suffice() -> None:
    assert bool(ctc_loss(torch.randn(1, 5, 4), torch.tensor([5]), *batch([[3, 3, 3]])).isfinite())


def test_a_target_with_the_blank_is_refused() -> None:
    with pytest.raises(DataError, match="id 0, which is CTC's blank"):
        ctc_loss(torch.randn(1, 5, 4), torch.tensor([5]), *batch([[3, 0]]))


@pytest.mark.parametrize("target", [4, -1])
def test_an_id_without_a_logit_is_refused(target: int) -> None:
    with pytest.raises(DataError, match="there are logits for 0 to 3"):
        ctc_losses(torch.zeros(1, 3, 4), torch.tensor([3]), torch.tensor([target]), torch.tensor([1]))


def test_a_row_without_frames_spells_the_empty_text() -> None:
    losses = ctc_losses(torch.randn(2, 3, 4), torch.tensor([0, 3]), *batch([[], [1]]))
    assert losses[0] == 0
    assert losses[1] > 0


def test_a_stored_row_loses_its_ends() -> None:
    ids = torch.tensor([[1, 5, 6, 7, 2], [1, 2, 0, 0, 0], [1, 8, 2, 0, 0]])
    tokens, lengths = without_ends(ids, torch.tensor([5, 2, 3]))
    assert tokens.tolist() == [5, 6, 7, 8]
    assert lengths.tolist() == [3, 0, 1]
