"""Decoding of frames that are labelled independently of each other (CTC): the most probable path, collapsed."""

import math
from itertools import groupby

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.decode.candidate import best
from foveate.decode.frame import BLANK, TimedHypothesis, TokenFrames, require_frames


@torch.no_grad()
def best_path(
    log_probabilities: Float[Tensor, "batch frames vocab"], lengths: Int[Tensor, " batch"]
) -> list[TimedHypothesis]:
    """The best label of every frame; then repeats are merged and blanks (id 0) removed. One hypothesis for each row.

    `log_probability` is that of this one path, not of the text, whose probability is the sum over all its paths; of
    equal labels, the smallest id is the best. Frames are those of the token's run on the path.

    >>> labels = torch.tensor([[0, 5, 5, 0, 5, 7, 0, 0]])
    >>> [text] = best_path(torch.nn.functional.one_hot(labels, 8).log(), torch.tensor([7]))
    >>> text.tokens, [(frames.first, frames.last) for frames in text.frames]
    ((5, 5, 7), [(1, 2), (4, 4), (5, 5)])

    Raises `UsageError` for logits, `DataError` for NaN.

    Reference: Graves et al. 2006, section 3.2.
    """
    require_frames(log_probabilities, lengths)
    batch, width, vocab = log_probabilities.shape
    label = best(log_probabilities.reshape(-1, vocab)).view(batch, width) if width else lengths.new_zeros(batch, 0)
    value = log_probabilities.gather(2, label[:, :, None])[:, :, 0].double()
    rows = zip(label.tolist(), value.tolist(), lengths.tolist(), strict=True)
    return [_collapsed(labels[:length], values[:length]) for labels, values, length in rows]


def _collapsed(labels: list[int], values: list[float]) -> TimedHypothesis:
    tokens, frames = [], []
    for token, run in groupby(range(len(labels)), key=labels.__getitem__):
        if token != BLANK:
            places = list(run)
            tokens.append(token)
            frames.append(TokenFrames(places[0], places[-1], max(places, key=values.__getitem__)))
    total = math.fsum(values)
    return TimedHypothesis(tuple(tokens), total, total, True, tuple(frames))
