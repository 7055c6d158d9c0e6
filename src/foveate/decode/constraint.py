"""Hides the tokens that constraints exclude: lengths, forbidden tokens, repeated n-grams, a forced beginning."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.errors import UsageError
from foveate.search import Constraints

HIDDEN = -torch.inf


def hidden_alone(
    constraints: Constraints, position: int, *, prefix: Tensor | None, end: int, vocab: int
) -> tuple[int, ...] | None:
    """The tokens that may not come next, if they are the same for every row and the only constraint; else None."""
    forced = prefix is not None and position < prefix.shape[1]
    if forced or 0 < constraints.no_repeat_ngram <= position:
        return None
    banned = _banned(constraints, position, end)
    _require_vocabulary(banned, vocab)
    return banned


def cohorts(
    constraints: Constraints, ages: Sequence[int], *, prefix: Tensor | None, end: int, vocab: int
) -> list[tuple[int, list[int] | None]]:
    """Groups of sentences that are constrained alike: an age in tokens and the sentences; None for all of them."""
    distinct = sorted(set(ages))
    if len(distinct) == 1:
        return [(distinct[0], None)]
    hidden = {hidden_alone(constraints, age, prefix=prefix, end=end, vocab=vocab) for age in distinct}
    if len(hidden) == 1 and None not in hidden:
        return [(distinct[0], None)]
    return [(age, [sentence for sentence, own in enumerate(ages) if own == age]) for age in distinct]


def constrained(
    logits: Float[Tensor, "rows vocab"],
    history: Int[Tensor, "rows position"],
    *,
    constraints: Constraints,
    prefix: Int[Tensor, "rows length"] | None,
    end: int,
) -> Float[Tensor, "rows vocab"]:
    """log softmax(logits), then −∞ at the tokens that may not come next, without renormalisation.

    A forced token overrides every other constraint. The result is always float32 and always a new tensor.
    """
    scores = logits.log_softmax(dim=-1, dtype=torch.float32)
    position = history.shape[1]
    banned = _banned(constraints, position, end)
    _require_vocabulary(banned, scores.shape[1])
    forced = prefix[:, position] if prefix is not None and position < prefix.shape[1] else None
    before = None if forced is None else scores.gather(1, forced.clamp(min=0)[:, None])
    for token in banned:
        scores[:, token] = HIDDEN
    if 0 < constraints.no_repeat_ngram <= position:
        _hide_repeats(scores, history, constraints.no_repeat_ngram)
    if forced is not None and before is not None:
        _force(scores, forced, before)
    return scores


def _banned(constraints: Constraints, position: int, end: int) -> tuple[int, ...]:
    return (*constraints.forbid, end) if position < constraints.min_length else constraints.forbid


def _require_vocabulary(banned: tuple[int, ...], vocab: int) -> None:
    if banned and max(banned) >= vocab:
        raise UsageError(f"decode: token {max(banned)} is forbidden, but the model's tokens are 0 to {vocab - 1}.")


def _hide_repeats(scores: Float[Tensor, "rows vocab"], history: Int[Tensor, "rows position"], size: int) -> None:
    """Hide, in place, each token that would complete an n-gram that the row already contains."""
    ngrams = history.unfold(1, size, 1)
    latest = history[:, history.shape[1] - size + 1 :]
    repeated = (ngrams[..., :-1] == latest[:, None]).all(-1)
    # amin keeps a token (+∞) unless one of its occurrences hides it (−∞).
    verdict = torch.where(repeated, HIDDEN, -HIDDEN).to(scores.dtype)
    scores.scatter_reduce_(1, ngrams[..., -1], verdict, "amin")


def _force(scores: Float[Tensor, "rows vocab"], forced: Int[Tensor, " rows"], before: Float[Tensor, "rows 1"]) -> None:
    """Hide, in place, all but the forced token of rows that have one, and restore its value; negative ids force
    none.
    """
    has_token, token = (forced >= 0)[:, None], forced.clamp(min=0)[:, None]
    scores.masked_fill_(has_token, HIDDEN)
    scores.scatter_(1, token, torch.where(has_token, before, scores.gather(1, token)))
