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


def hidden(logits: Tensor, labels: list[tuple[int, int, int]]) -> Tensor:
    """The logits with −∞ at these rows, frames and labels."""
    places = torch.zeros_like(logits, dtype=torch.bool)
    for place in labels:
        places[place] = True
    return logits.masked_fill(places, -math.inf)


@pytest.mark.parametrize("normalised", [False, True])
def test_impossible_labels_leave_the_gradient_of_possible_paths(normalised: bool) -> None:
    lengths = torch.tensor([3, 2, 3, 3, 4])
    labels = [(0, 1, 1), (1, 0, 2), (2, 0, 0), (2, 2, 1), (3, 1, 1), (4, 0, 2), (4, 1, 0), (4, 3, 2)]
    logits = hidden(torch.randn(5, 4, 3, dtype=torch.float64), labels)
    logits = (logits.log_softmax(-1) if normalised else logits).requires_grad_()
    apart = logits.detach().exp().requires_grad_()  # by probabilities, whose product has a gradient at 0
    shares = (apart / apart.sum(-1, keepdim=True))[:, :, None]
    expected = []
    for row, length, text in zip(shares[:, :, 0], lengths.tolist(), TEXTS, strict=True):
        paths = [path for path in itertools.product(range(3), repeat=length) if collapsed(path) == text]
        expected.append(-torch.stack([row[range(length), path].prod() for path in paths]).sum().log())
    losses = ctc_losses(logits, lengths, *batch(TEXTS))
    torch.testing.assert_close(losses, torch.stack(expected))
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    (by_share,) = torch.autograd.grad(torch.stack(expected).sum(), apart)
    torch.testing.assert_close(gradient, by_share * apart.detach())  # d/dx = eˣ · d/d(eˣ)
    assert bool((gradient[logits == -math.inf] == 0).all())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_target_that_only_impossible_labels_spell_has_an_infinite_loss_and_no_gradient(dtype: torch.dtype) -> None:
    base = (30 * torch.randn(3, 200, 4)).to(dtype)
    logits = hidden(base, [(1, frame, 2) for frame in range(200)] + [(2, 4, 0), (2, 9, 3)]).requires_grad_()
    lengths, texts = torch.tensor([200, 200, 180]), [[1, 1, 3], [2, 1], [3, 2]]
    losses = ctc_losses(logits, lengths, *batch(texts))
    assert losses[1] == math.inf
    assert bool(losses[[0, 2]].isfinite().all())
    (gradient,) = torch.autograd.grad(losses[[0, 2]].sum(), logits, retain_graph=True)
    (with_all,) = torch.autograd.grad(losses.sum(), logits)
    assert torch.equal(gradient, with_all)
    assert bool((with_all[1] == 0).all())
    assert bool(with_all.isfinite().all())
    alone = logits[:1].detach().requires_grad_()
    (own,) = torch.autograd.grad(ctc_loss(alone, lengths[:1], *batch(texts[:1])), alone)
    assert torch.equal(with_all[:1], own)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_impossible_labels_of_half_precision_have_the_gradient_of_float32(dtype: torch.dtype) -> None:
    logits = hidden(torch.randn(1, 40, 5).to(dtype), [(0, frame, frame % 4) for frame in range(0, 40, 3)])
    arguments = torch.tensor([40]), *batch([[1, 2, 3]])
    half, single = logits.clone().requires_grad_(), logits.float().requires_grad_()
    for one in (half, single):
        ctc_loss(one, *arguments).backward()
    assert torch.equal(half.grad, single.grad.to(dtype))
    assert bool(half.grad.isfinite().all())


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
