"""The reference: every score and every weight exists. It accepts any attention, and defines what is right."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from foveate.attention.bias import told
from foveate.attention.check import described
from foveate.attention.paths.hidden import finite, nothing_to_silence, silence, weigh
from foveate.attention.paths.path import Cost, Formula, share_heads
from foveate.attention.position import Positions, traced
from foveate.attention.score import PairNetwork, PlacedScore, is_factored


class Materialised(NamedTuple):
    scores: Float[Tensor, "batch heads query key"]
    visible: Bool[Tensor, "#batch #heads #query #key"]
    weights: Float[Tensor, "batch heads query key"]
    context: Float[Tensor, "batch heads query value_head_dim"]


def biased_scores(
    formula: Formula,
    query: Float[Tensor, "batch heads query query_dim"],
    key: Float[Tensor, "batch heads key key_dim"],
    *,
    at: Positions,
    key_features: Float[Tensor, "batch heads key feature"] | None = None,
) -> Float[Tensor, "batch heads query key"]:
    """score(q, k) + bias, before anything is hidden."""
    score = formula.score
    if isinstance(score, PlacedScore):
        kept = {} if key_features is None else {"key_features": key_features}
        scores = score.scores_at(query, key, at, **kept)
    elif key_features is not None and is_factored(score):
        scores = score.compare(score.query_features(query), key_features)
    else:
        scores = score(query, key)
    shape = (*query.shape[:3], key.shape[2])
    if not isinstance(scores, Tensor) or scores.shape != shape:
        raise ValueError(f"`score` gives {described(scores)}, and {shape} is needed, `batch heads query key`.")
    return scores if formula.bias is None else scores + told(formula.bias, at, scores.dtype)


def apart_scores(
    formula: Formula,
    query: Float[Tensor, "batch heads query query_dim"],
    key: Float[Tensor, "batch heads key key_dim"],
    visible: Bool[Tensor, "#batch #heads #query #key"],
    *,
    at: Positions,
    key_features: Float[Tensor, "batch heads key feature"] | None = None,
) -> Float[Tensor, "batch heads query key"]:
    """The same, where gradients are wanted: a key that is not finite reaches the gradients of those who see it only.

    In one product it would reach all, for the gradient of a hidden pair is 0, and 0 · NaN is NaN.
    """
    source = key if key_features is None else key_features
    if visible.shape[-2] == 1 or not torch.is_grad_enabled() or traced() or finite(source):
        return biased_scores(formula, query, key, at=at, key_features=key_features)
    lost = ~source.detach().isfinite().all(-1)
    clean = [None if part is None else torch.where(lost[..., None], 0.0, part) for part in (key, key_features)]
    assert clean[0] is not None
    scores = biased_scores(formula, query, clean[0], at=at, key_features=clean[1])
    columns = lost.flatten(0, 1).any(0).nonzero()[:, 0]
    parts = [scores[..., :0]]
    for column in columns.tolist():
        one = slice(column, column + 1)
        sees = visible if visible.shape[-1] == 1 else visible[..., one]
        seers = torch.where(sees, query, 0.0)
        features = None if key_features is None else key_features[:, :, one]
        parts.append(biased_scores(formula, seers, key[:, :, one], at=at.columns(one), key_features=features))
    return scores.index_copy(-1, columns, torch.cat(parts, dim=-1))


def materialise(
    formula: Formula,
    query: Float[Tensor, "batch heads query query_dim"],
    key: Float[Tensor, "batch kv_heads key key_dim"],
    value: Float[Tensor, "batch kv_heads key value_head_dim"],
    *,
    at: Positions,
    key_features: Float[Tensor, "batch #heads key feature"] | None = None,
    dropout: float = 0.0,
) -> Materialised:
    """Scores, visibility, weights (before dropout) and context (after)."""
    heads = query.shape[1]
    visible = formula.visibility(at)
    key, value = share_heads(key, heads), share_heads(value, heads)
    if not nothing_to_silence(formula.visibility, at):
        key, value = silence(visible, key, value)
        if key_features is not None:
            (key_features,) = silence(visible, key_features.expand(-1, heads, -1, -1))
    scores = apart_scores(formula, query, key, visible, at=at, key_features=key_features)
    weights = formula.normaliser(scores, visible)
    if formula.reweight is not None:
        weights = weights * told(formula.reweight, at, reweighing(weights)).exp().to(weights.dtype)
    dropped = torch.nn.functional.dropout(weights, dropout) if dropout else weights
    return Materialised(scores, visible, weights, weigh(dropped, value, visible))


def reweighing(weights: Tensor) -> torch.dtype:
    """float32 at least: what is put into an exponential."""
    return torch.promote_types(weights.dtype, torch.float32)


def terms(formula: Formula) -> int:
    """How many numbers a plain score makes of each pair before it sums them: the hidden units of an additive one."""
    form = getattr(formula.score, "form", None)
    made = None if form is None else form()
    return made.num_terms if isinstance(made, PairNetwork) else 1


class MaterialisedPath:
    """Accepts everything; O(query · key) memory."""

    name = "materialised"
    traceable = True

    def refuses(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> list[str]:
        return []

    def cost(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> Cost:
        pairs = query.shape[0] * query.shape[1] * query.shape[2] * key.shape[2]
        return Cost(4.0 * pairs * key.shape[3], 3.0 * pairs * terms(formula) * query.element_size())

    def run(
        self,
        formula: Formula,
        query: Float[Tensor, "batch heads query query_dim"],
        key: Float[Tensor, "batch kv_heads key key_dim"],
        value: Float[Tensor, "batch kv_heads key value_head_dim"],
        *,
        at: Positions,
        key_features: Float[Tensor, "batch #heads key feature"] | None = None,
        dropout: float = 0.0,
    ) -> Float[Tensor, "batch heads query value_head_dim"]:
        return materialise(formula, query, key, value, at=at, key_features=key_features, dropout=dropout).context
