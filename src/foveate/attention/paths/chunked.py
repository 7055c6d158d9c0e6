"""Any attention with little memory: blocks of queries one after the other, computed again in the backward pass.

Rows are whole, so every normaliser is exact, and so are the gradients, those of a score's own weights included.
"""

from functools import reduce

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from foveate.attention.paths.hidden import nothing_to_silence, silence
from foveate.attention.paths.materialised import materialise, terms
from foveate.attention.paths.path import Cost, Formula, cutting_reasons, share_heads
from foveate.attention.paths.recomputation import by_rows
from foveate.attention.position import Positions
from foveate.attention.score import KeyedScore
from foveate.attention.visibility import Visibility

ROOM = 2**24
"""Bytes that the scores of a block may take, with all that is made on the way to them."""


class ChunkedPath:
    """Accepts everything but draws that would need several blocks; O(key) memory per block of queries, at least one
    row. Worth it where scores are large.
    """

    name = "chunked"

    def refuses(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> list[str]:
        return cutting_reasons(formula) if query.shape[2] > rows_in(formula, query, key) else []

    def cost(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> Cost:
        pairs = query.shape[0] * query.shape[1] * query.shape[2] * key.shape[2]
        rows = rows_in(formula, query, key)
        held = 3.0 * bytes_of_row(formula, query, key) * min(rows, query.shape[2])
        return Cost(4.0 * pairs * key.shape[3], held)

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
        key, value = share_heads(key, query.shape[1]), share_heads(value, query.shape[1])
        rows = rows_in(formula, query, key)
        if not nothing_to_silence(formula.visibility, at):
            key, value = silence(seen_keys(formula.visibility, at, rows), key, value)
        if key_features is None and isinstance(formula.score, KeyedScore):
            key_features = formula.score.key_features(key)

        def block(
            query: Tensor, at: Positions, key: Tensor, value: Tensor, key_features: Tensor | None = None
        ) -> Tensor:
            seen = materialise(formula, query, key, value, at=at, key_features=key_features, dropout=dropout)
            return seen.context

        return by_rows(block, query, at, rows, key, value, key_features)


def seen_keys(visibility: Visibility, at: Positions, rows: int) -> Bool[Tensor, "#batch #heads 1 #key"]:
    """Which keys some query sees, looked up for so many queries at a time."""
    starts = range(0, max(at.query.shape[2], 1), rows)
    parts = (visibility(at.rows(slice(start, start + rows))).any(2, keepdim=True) for start in starts)
    return reduce(torch.logical_or, parts)


def rows_in(formula: Formula, query: Tensor, key: Tensor) -> int:
    """How many queries make a block; at least one."""
    return max(1, int(ROOM / max(1.0, bytes_of_row(formula, query, key))))


def bytes_of_row(formula: Formula, query: Tensor, key: Tensor) -> float:
    """What one query's scores take in every example and head."""
    return float(query.shape[0] * query.shape[1] * key.shape[2] * query.element_size() * terms(formula))
