"""A training loss against phrases that a text repeats by mistake."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.nn.loss import Predictions
from foveate.nn.packing import Packing


class Repetition(NamedTuple):
    """Tokens that would repeat an n-gram of their own text, in the order of their rows, each once a row."""

    rows: Int[Tensor, " candidates"]
    """The row of the logits, sentence after sentence, that a token belongs to."""
    tokens: Int[Tensor, " candidates"]


def repetitions(ids: Int[Tensor, "batch length"], lengths: Int[Tensor, " batch"], ngram: int) -> Repetition:
    """The candidates at every position t of right-padded texts y:

        C_t = {y_i : i < t, y_{i−n+1} … y_{i−1} = y_{t−n+1} … y_{t−1}} \\ {y_t}

    With `ngram` 1 these are all tokens before t, but y_t itself. Raises ValueError for an `ngram` below 1.

    Reference: Welleck et al. 2020, "Neural text generation with unlikelihood training", whose candidates have n = 1.

    >>> repetitions(torch.tensor([[5, 6, 7, 5, 6, 8, 2]]), torch.tensor([7]), 3)
    Repetition(rows=tensor([5]), tokens=tensor([7]))
    """
    if ngram < 1:
        raise ValueError(f"ngram must be at least 1, got {ngram}")
    packing = Packing(lengths, ids.shape[1])
    tokens, size = packing.pack(ids), int(ids.max()) + 2 if ids.numel() else 2
    context = torch.arange(len(lengths), device=ids.device).repeat_interleave(lengths)
    for back in range(1, ngram):
        before = tokens.roll(back).where(packing.place >= back, -1)  # -1: before the text
        context = (context * size + before + 1).unique(return_inverse=True)[1]
    order = context.argsort(stable=True)
    count = context.bincount()
    rank = torch.arange(len(order), device=ids.device) - (count.cumsum(0) - count)[context[order]]
    later = torch.arange(len(order), device=ids.device).repeat_interleave(rank)
    step = torch.arange(1, len(later) + 1, device=ids.device) - (rank.cumsum(0) - rank)[later]
    rows, candidates = order[later], tokens[order[later - step]]
    wrong = candidates != tokens[rows]
    pairs = (rows[wrong] * size + candidates[wrong]).unique()
    return Repetition(pairs // size, pairs % size)


def unlikelihood(predictions: Predictions, repetition: Repetition) -> Float[Tensor, ""]:
    """Σ_t Σ_{c ∈ C_t} −log(1 − p(c)), in nats, summed over candidates, in float32 at least.

    Reference: Welleck et al. 2020, "Neural text generation with unlikelihood training".
    """
    rows, index = repetition.rows.unique_consecutive(return_inverse=True)
    logits = predictions.logits(rows)
    precise = logits.to(torch.promote_types(logits.dtype, torch.float32))
    mass = precise.logsumexp(-1)
    log_share = precise[index, repetition.tokens] - mass[index]
    likely = log_share > -0.5  # 1 − p would lose digits: the others are summed, in at most one row each
    rest = precise[index[likely]].scatter(1, repetition.tokens[likely][:, None], -torch.inf).logsumexp(-1)
    others = torch.cat([torch.log1p(-log_share[~likely].exp()), rest - mass[index[likely]]])
    return -others.sum()
