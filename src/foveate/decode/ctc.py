"""Decoding of frames that are labelled independently of each other (CTC): the most probable path, collapsed."""

import math
from dataclasses import dataclass
from itertools import groupby

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.config import setting
from foveate.decode.candidate import best
from foveate.decode.frame import BLANK, TimedHypothesis, TokenFrames, require_frames

WIDEST = 4096
"""The largest beam; memory and time grow with it."""


@dataclass(frozen=True, kw_only=True)
class CTCConfig:
    """score = log p(tokens | frames) + insertion_bonus · tokens + language_weight · log p_language(tokens + end)

    A beam of 1 decodes the best path. Texts that differ in one ambiguous token stay in the beam side by side for as
    long as no other token is as ambiguous. Streams therefore set `settle_after`: then texts that differ from the best
    one so many frames ago leave the beam.
    """

    beam: int = setting(10, "beginnings of a text that are kept at every frame; 1 decodes the best path")
    num_best: int = setting(1, "texts returned, best first")
    insertion_bonus: float = setting(0.0, "added to the score for every token, in nats; above 0 favours longer texts")
    language_weight: float = setting(0.3, "weight of the language model's log-probabilities, if there is a model")
    settle_after: int = setting(
        0, "frames after which the best text's tokens are certain; 0 waits until all texts of the beam agree"
    )

    def __post_init__(self) -> None:
        if not 1 <= self.beam <= WIDEST:
            raise ValueError(f"beam must be at least 1 text and at most {WIDEST:,}, got {self.beam}")
        if not 1 <= self.num_best <= self.beam:
            raise ValueError(f"num_best must be between 1 and beam={self.beam}, got {self.num_best}")
        if not math.isfinite(self.insertion_bonus):
            raise ValueError(f"insertion_bonus is a number of nats, got {self.insertion_bonus}")
        if not 0 <= self.language_weight < math.inf:
            raise ValueError(f"language_weight must not be negative, got {self.language_weight}")
        if self.settle_after < 0:
            raise ValueError(f"settle_after is a number of frames and cannot be negative, got {self.settle_after}")


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
