"""The reference: every score and every weight exists. It accepts any attention, and defines what is right.

`chunked` is the same in blocks of queries, one after the other, which are computed again in the backward pass. Rows are
whole, so that every normaliser and all gradients are exact.
"""

from functools import reduce
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from foveate.attention.bias import bias_values
from foveate.attention.check import described
from foveate.attention.paths.hidden import finite, nothing_to_silence, silence, weigh
from foveate.attention.paths.path import (
    Cost,
    Formula,
    Inputs,
    ShippedPath,
    count_pairs,
    cutting_reasons,
    share_heads,
)
from foveate.attention.paths.recomputation import by_rows
from foveate.attention.position import Positions, traced
from foveate.attention.score import KeyedScore, Score, is_factored, is_placed
from foveate.attention.score.form import terms
from foveate.attention.visibility import Visibility

ROOM = 2**24
"""Bytes for the scores of a block and their intermediate results."""


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
    if is_placed(score):
        features = {} if key_features is None else {"key_features": key_features}
        scores = score.scores_at(query, key, at, **features)
    elif key_features is not None and is_factored(score):
        scores = score.compare(score.query_features(query), key_features)
    else:
        scores = cast(Score, score)(query, key)
    shape = (*query.shape[:3], key.shape[2])
    if not isinstance(scores, Tensor) or scores.shape != shape:
        raise ValueError(f"`score` gives {described(scores)}, and {shape} is needed, `batch heads query key`.")
    return scores if formula.bias is None else scores + bias_values(formula.bias, at, scores.dtype)


def isolated_scores(
    formula: Formula,
    query: Float[Tensor, "batch heads query query_dim"],
    key: Float[Tensor, "batch heads key key_dim"],
    visible: Bool[Tensor, "#batch #heads #query #key"],
    *,
    at: Positions,
    key_features: Float[Tensor, "batch heads key feature"] | None = None,
) -> Float[Tensor, "batch heads query key"]:
    """`biased_scores`, where a key that is not finite reaches only the gradients of the queries that see it.

    In one product it would reach all of them: the gradient of a hidden pair is 0, and 0 · NaN is NaN.
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
    scores = isolated_scores(formula, query, key, visible, at=at, key_features=key_features)
    weights = formula.normaliser(scores, visible)
    if formula.reweight is not None:
        weights = weights * bias_values(formula.reweight, at, reweighing(weights)).exp().to(weights.dtype)
    dropped = torch.nn.functional.dropout(weights, dropout) if dropout else weights
    return Materialised(scores, visible, weights, weigh(dropped, value, visible))


def reweighing(weights: Tensor) -> torch.dtype:
    """The number type of an exponent: float32 at least."""
    return torch.promote_types(weights.dtype, torch.float32)


class MaterialisedPath(ShippedPath):
    """Accepts everything; O(query · key) memory."""

    name = "materialised"
    traceable = True

    def refuses(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> list[str]:
        return []

    def cost(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> Cost:
        pairs = count_pairs(query, key)
        return Cost(4.0 * pairs * key.shape[3], 3.0 * pairs * terms(formula.score) * query.element_size())

    def context(self, inputs: Inputs) -> Tensor:
        return materialise(*inputs).context


class ChunkedPath(ShippedPath):
    """Accepts everything but draws that would need several blocks; O(key) memory per row of a block. It pays where
    scores are large.
    """

    name = "chunked"

    def refuses(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> list[str]:
        return cutting_reasons(formula) if query.shape[2] > rows_in(formula, query, key) else []

    def cost(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> Cost:
        rows = min(rows_in(formula, query, key), query.shape[2])
        return Cost(4.0 * count_pairs(query, key) * key.shape[3], 3.0 * bytes_of_row(formula, query, key) * rows)

    def context(self, inputs: Inputs) -> Tensor:
        formula, query, key, value, at, key_features, dropout = inputs
        key, value = share_heads(key, query.shape[1]), share_heads(value, query.shape[1])
        rows = rows_in(formula, query, key)
        if not nothing_to_silence(formula.visibility, at):
            key, value = silence(visible_keys(formula.visibility, at, rows), key, value)
        if key_features is None and isinstance(formula.score, KeyedScore):
            key_features = formula.score.key_features(key)

        def block(query: Tensor, at: Positions, key: Tensor, value: Tensor, features: Tensor | None) -> Tensor:
            return materialise(formula, query, key, value, at, features, dropout).context

        return by_rows(block, query, at, rows, key, value, key_features)


def visible_keys(visibility: Visibility, at: Positions, rows: int) -> Bool[Tensor, "#batch #heads 1 #key"]:
    """Keys that some query sees, computed for `rows` queries at a time."""
    starts = range(0, max(at.query.shape[2], 1), rows)
    parts = (visibility(at.rows(slice(start, start + rows))).any(2, keepdim=True) for start in starts)
    return reduce(torch.logical_or, parts)


def rows_in(formula: Formula, query: Tensor, key: Tensor) -> int:
    """The number of queries in a block; at least one."""
    return max(1, int(ROOM / max(1.0, bytes_of_row(formula, query, key))))


def bytes_of_row(formula: Formula, query: Tensor, key: Tensor) -> float:
    """Bytes for the scores of one query, over all examples and heads."""
    return float(query.shape[0] * query.shape[1] * key.shape[2] * query.element_size() * terms(formula.score))
