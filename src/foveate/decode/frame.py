"""The frames on which the tokens of a hypothesis stand, and the frames of log-probabilities that searches read."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.errors import DataError, UsageError
from foveate.search import Hypothesis

BLANK = 0
"""The label of frames without a token; it has the id of padding."""
SLACK = 1e-3
"""The largest logarithm of a probability, 0, with room for rounding in half precision."""


class TokenFrames(NamedTuple):
    """The first and the last frame of a token, and the frame between them at which it is most probable, from 0."""

    first: int
    last: int
    peak: int


@dataclass(frozen=True)
class TimedHypothesis(Hypothesis):
    """A hypothesis about frames: `frames` are those of each token, on its most probable path."""

    frames: tuple[TokenFrames, ...] = ()


def together(frames: Sequence[TokenFrames], groups: Sequence[int]) -> dict[int, TokenFrames]:
    """The frames of groups of tokens, such as words: `groups` is the group of each token; negative ones have none.

    A group extends from the first frame of its first token to the last frame of its last. Its peak is that of its first
    token.

    >>> frames = [TokenFrames(3, 4, 3), TokenFrames(6, 6, 6), TokenFrames(9, 12, 11)]
    >>> together(frames, [0, 0, 1])
    {0: TokenFrames(first=3, last=6, peak=3), 1: TokenFrames(first=9, last=12, peak=11)}
    """
    result: dict[int, TokenFrames] = {}
    for own, group in zip(frames, groups, strict=True):
        if group >= 0:
            whole = result.get(group, own)
            result[group] = TokenFrames(min(whole.first, own.first), max(whole.last, own.last), whole.peak)
    return result


def require_frames(log_probabilities: Float[Tensor, "batch frames vocab"], lengths: Int[Tensor, " batch"]) -> None:
    """Raise `UsageError` for logits and for lengths that do not fit, `DataError` for NaN within the lengths."""
    batch, frames, _ = log_probabilities.shape
    if len(lengths) != batch or (batch and not 0 <= int(lengths.min()) <= int(lengths.max()) <= frames):
        raise UsageError(
            f"decode: {len(lengths)} lengths from {int(lengths.min()) if len(lengths) else 0} to "
            f"{int(lengths.max()) if len(lengths) else 0} do not fit {batch} rows of {frames} frames. Pass the number "
            "of frames of each row."
        )
    if not batch or not frames:
        return
    padding = torch.arange(frames, device=lengths.device) >= lengths[:, None]
    best = log_probabilities.amax(-1).masked_fill(padding.to(log_probabilities.device), 0.0)
    if bool((best == -torch.inf).any()):
        row, frame = (best == -torch.inf).nonzero()[0].tolist()
        raise DataError(f"decode: frame {frame} of row {row} gives every label the probability 0. Allow one at least.")
    for row, top in enumerate(best.amax(-1).tolist()):
        if math.isnan(top):
            raise DataError(
                f"decode: the log-probabilities of row {row} are not numbers (NaN). "
                "The checkpoint is damaged or its training diverged: use an earlier checkpoint."
            )
        if top > SLACK:
            raise UsageError(
                f"decode: row {row} contains {top:.3g}, which is not the logarithm of a probability. "
                "Pass log_softmax(logits)."
            )
