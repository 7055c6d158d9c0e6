"""The best path takes the best label of every frame, merges repeats and removes blanks."""

import math

import pytest
import torch
from torch import Tensor

from foveate.decode import TokenFrames, best_path
from foveate.decode.frame import together
from foveate.errors import DataError, UsageError


def lattice(*labels: int, vocab: int = 6) -> Tensor:
    """Log-probabilities of one row, in which these labels are the most probable."""
    logits = torch.randn(1, len(labels), vocab)
    logits[0, range(len(labels)), labels] = 5.0
    return logits.log_softmax(-1)


def test_repeats_are_merged_before_blanks_are_removed() -> None:
    [text] = best_path(lattice(0, 3, 3, 0, 3, 4, 4, 5, 0, 0), torch.tensor([10]))
    assert text.tokens == (3, 3, 4, 5)
    assert [frames[:2] for frames in text.frames] == [(1, 2), (4, 4), (5, 6), (7, 7)]
    assert text.finished


def test_its_log_probability_is_that_of_the_path() -> None:
    scores = lattice(0, 3, 3, 4)
    [text] = best_path(scores, torch.tensor([4]))
    assert text.score == text.log_probability == pytest.approx(scores.amax(-1).sum().item(), rel=1e-6)


def test_the_peak_is_the_most_probable_frame_of_a_run() -> None:
    scores = torch.full((1, 4, 5), -9.0)
    scores[0, :, 3] = torch.tensor([-0.4, -0.1, -0.2, -0.1])
    [text] = best_path(scores, torch.tensor([4]))
    assert text.frames == (TokenFrames(0, 3, 1),)


def test_of_equal_labels_the_smallest_is_taken() -> None:
    scores = torch.full((1, 1, 300), -9.0)
    scores[0, 0, [7, 4, 290]] = -0.5
    assert best_path(scores, torch.tensor([1]))[0].tokens == (4,)


def test_padding_and_the_other_rows_have_no_influence() -> None:
    rows = [lattice(3, 0, 4), lattice(5, 5, 5, 5, 5), lattice(2)]
    lengths = torch.tensor([3, 5, 1])
    padded = torch.full((3, 5, 6), math.nan)
    for row, own in enumerate(rows):
        padded[row, : own.shape[1]] = own
    alone = [best_path(own, torch.tensor([own.shape[1]]))[0] for own in rows]
    assert best_path(padded, lengths) == alone


@pytest.mark.parametrize("frames", [0, 3])
def test_a_row_without_frames_has_the_empty_text(frames: int) -> None:
    [text] = best_path(torch.zeros(1, frames, 4).log_softmax(-1), torch.tensor([0]))
    assert (text.tokens, text.log_probability, text.frames) == ((), 0.0, ())


def test_logits_are_refused() -> None:
    with pytest.raises(UsageError, match="row 1 contains 4, which is not the logarithm"):
        best_path(torch.stack([torch.zeros(3, 4), 4 * torch.eye(4)[:3]]), torch.tensor([3, 3]))


def test_lengths_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UsageError, match=r"1 lengths from 9 to 9 do not fit 1 rows of 3 frames"):
        best_path(lattice(1, 2, 3), torch.tensor([9]))


def test_log_probabilities_that_are_not_numbers_are_an_error() -> None:
    scores = torch.cat([lattice(1, 2), lattice(1, 2)])
    scores[1, 0, 4] = math.nan
    with pytest.raises(DataError, match="row 1 are not numbers"):
        best_path(scores, torch.tensor([2, 2]))


def test_words_have_the_frames_of_their_tokens() -> None:
    frames = [TokenFrames(1, 2, 2), TokenFrames(4, 4, 4), TokenFrames(6, 9, 8)]
    assert together(frames, [-1, 5, 5]) == {5: TokenFrames(4, 9, 4)}
    with pytest.raises(ValueError, match="zip"):
        together(frames, [1, 2])
