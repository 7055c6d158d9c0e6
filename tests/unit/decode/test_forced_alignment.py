"""Forced alignment takes the best path of a known text; the occupation sums over all of them."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from foveate.decode import CTCConfig, TokenFrames, best_path, occupation, prefix_search, viterbi
from foveate.errors import DataError, UsageError
from foveate.nn.ctc_loss import ctc_loss

TEXTS = [(), (1,), (2, 1), (2, 2), (1, 2, 1)]
LENGTHS = torch.tensor([4, 5, 2, 3, 5])


def frames(batch: int, length: int, vocab: int, sharpness: float = 1.5) -> Tensor:
    return (sharpness * torch.randn(batch, length, vocab, dtype=torch.float64)).log_softmax(-1)


def packed(texts: list[tuple[int, ...]]) -> tuple[Tensor, Tensor]:
    tokens = list(itertools.chain(*texts))
    return torch.tensor(tokens, dtype=torch.int64), torch.tensor([len(text) for text in texts])


def places(path: tuple[int, ...]) -> list[list[int]]:
    """The frames of each token of a path."""
    runs = [(label, list(run)) for label, run in itertools.groupby(range(len(path)), key=path.__getitem__)]
    return [run for label, run in runs if label]


def paths(text: tuple[int, ...], length: int, vocab: int) -> list[tuple[int, ...]]:
    every = itertools.product(range(vocab), repeat=length)
    return [path for path in every if tuple(label for label, _ in itertools.groupby(path) if label) == text]


def test_it_is_the_best_of_all_paths() -> None:
    scores = frames(5, 5, 3)
    for own, length, text, aligned in zip(
        scores, LENGTHS.tolist(), TEXTS, viterbi(scores, LENGTHS, *packed(TEXTS)), strict=True
    ):
        best = max(paths(text, length, 3), key=lambda path, own=own: own[range(len(path)), path].sum().item())
        assert aligned.tokens == text
        assert aligned.log_probability == pytest.approx(own[range(length), best].sum().item())
        assert [(each.first, each.last) for each in aligned.frames] == [(run[0], run[-1]) for run in places(best)]
        for token, run, each in zip(text, places(best), aligned.frames, strict=True):
            assert each.peak == max(run, key=lambda frame, own=own, token=token: own[frame, token].item())


def test_the_occupation_is_the_share_of_the_paths() -> None:
    scores = frames(5, 5, 3)
    weights = occupation(scores, LENGTHS, *packed(TEXTS))
    assert weights.shape == (5, 3, 5)
    for own, length, text, shares in zip(scores, LENGTHS.tolist(), TEXTS, weights, strict=True):
        expected, total = torch.zeros(3, 5, dtype=torch.float64), 0.0
        for path in paths(text, length, 3):
            probability = own[range(length), path].sum().exp().item()
            total += probability
            for token, run in enumerate(places(path)):
                expected[token, run] += probability
        torch.testing.assert_close(shares, expected / total)


def test_the_occupation_of_a_label_is_the_gradient_of_the_loss() -> None:
    logits = torch.randn(2, 60, 7, dtype=torch.float64, requires_grad=True)
    lengths, texts = torch.tensor([60, 44]), [(1, 1, 2, 6, 6, 3) * 3, (5, 4, 3, 2, 1)]
    (gradient,) = torch.autograd.grad(ctc_loss(logits, lengths, *packed(texts)), logits)
    scores = logits.detach().log_softmax(-1)
    weights = occupation(scores, lengths, *packed(texts))
    for row, (text, length) in enumerate(zip(texts, lengths.tolist(), strict=True)):
        labels = torch.zeros(length, 7, dtype=torch.float64)
        labels.index_add_(1, torch.tensor(text), weights[row, : len(text), :length].mT)
        labels[:, 0] = 1 - labels.sum(1)
        torch.testing.assert_close(scores[row, :length].exp() - gradient[row, :length], labels)
        assert bool((weights[row, :, length:] == 0).all())
        assert bool((weights[row, len(text) :] == 0).all())


def test_the_text_of_the_best_path_is_aligned_on_it() -> None:
    scores, lengths = frames(4, 80, 9, sharpness=4.0), torch.tensor([80, 61, 20, 3])
    best = best_path(scores, lengths)
    assert [text.frames for text in viterbi(scores, lengths, *packed([text.tokens for text in best]))] == [
        text.frames for text in best
    ]


def test_prefix_search_gives_the_same_frames() -> None:
    scores, lengths = frames(6, 6, 3), torch.tensor([6, 6, 6, 5, 4, 2])
    for row, texts in enumerate(prefix_search(scores, lengths, CTCConfig(beam=900, num_best=900))):
        count = len(texts)
        own, length = scores[row : row + 1].expand(count, -1, -1), lengths[row].expand(count)
        aligned = viterbi(own, length, *packed([text.tokens for text in texts]))
        assert [text.frames for text in aligned] == [text.frames for text in texts]


def test_equal_tokens_have_a_blank_between() -> None:
    [aligned] = viterbi(torch.full((1, 5, 3), 1 / 3).log(), torch.tensor([5]), *packed([(2, 2, 2)]))
    assert aligned.frames == tuple(TokenFrames(place, place, place) for place in (0, 2, 4))


def test_of_equal_paths_the_one_that_stays_on_a_token_is_taken() -> None:
    scores = torch.tensor([[[0.25, 0.75], [0.5, 0.5], [0.75, 0.25], [0.25, 0.75], [0.5, 0.5]]]).log()
    [aligned] = viterbi(scores, torch.tensor([5]), *packed([(1, 1)]))
    assert [(each.first, each.last) for each in aligned.frames] == [(0, 1), (3, 4)]
    texts = {text.tokens: text for text in prefix_search(scores, torch.tensor([5]), CTCConfig(num_best=10))[0]}
    assert texts[1, 1].frames == aligned.frames


def test_padding_and_the_other_rows_have_no_influence() -> None:
    scores = frames(5, 5, 3)
    for row, length in enumerate(LENGTHS.tolist()):
        scores[row, length:] = math.nan
    together, weights = viterbi(scores, LENGTHS, *packed(TEXTS)), occupation(scores, LENGTHS, *packed(TEXTS))
    for row, (length, text) in enumerate(zip(LENGTHS.tolist(), TEXTS, strict=True)):
        alone = scores[row : row + 1, :length], LENGTHS[row : row + 1], *packed([text])
        assert viterbi(*alone) == [together[row]]
        assert torch.equal(occupation(*alone)[0], weights[row, : len(text), :length])


def test_rows_without_frames_or_tokens_are_aligned() -> None:
    texts = [(), ()]
    lengths = torch.tensor([0, 3])
    assert [text.frames for text in viterbi(frames(2, 3, 4), lengths, *packed(texts))] == [(), ()]
    assert occupation(frames(2, 3, 4), lengths, *packed(texts)).shape == (2, 0, 3)


@pytest.mark.parametrize("align", [viterbi, occupation])
def test_texts_that_cannot_be_aligned_are_errors(align: object) -> None:
    assert callable(align)
    with pytest.raises(DataError, match="row 0 has 2 frames for 2 tokens, which need 3"):
        align(frames(1, 2, 3), torch.tensor([2]), *packed([(1, 1)]))
    silent = frames(2, 4, 3)
    silent[1, :, 2] = -math.inf
    with pytest.raises(DataError, match="row 1 give its 2 tokens the probability 0"):
        align(silent, torch.tensor([4, 4]), *packed([(1, 2), (1, 2)]))
    with pytest.raises(UsageError, match="log_softmax"):
        align(torch.ones(1, 4, 3), torch.tensor([4]), *packed([(1, 2)]))
