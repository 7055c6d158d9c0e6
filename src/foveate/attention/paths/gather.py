"""Every query with keys of its own: decoders whose examples look at different places."""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from foveate.attention.bias import judges_pairs
from foveate.attention.paths.layout import Tile, consecutive
from foveate.attention.paths.materialised import materialise
from foveate.attention.paths.path import Formula
from foveate.attention.position import Positions
from foveate.attention.score import is_placed
from foveate.attention.visibility import Visibility

ONE_QUERY, MANY_QUERIES = 4, 50
"""Gathering pays where tiles hold so many times the pairs. A tile of many queries is a product of matrices, which is
some ten times as fast per pair.
"""


@dataclass(frozen=True, eq=False)
class Rows:
    """A stretch of keys for each query, of one width for all of them."""

    first: Int[Tensor, "#batch #heads query 1"]
    width: int


def worth_gathering(formula: Formula, at: Positions, layout: list[Tile]) -> Rows | None:
    """Each query's own keys, where queries look at places so different that a common piece is much wider."""
    spread = at.centre is not None or at.query.shape[0] * at.query.shape[1] > 1
    if not spread or at.previous is not None or at.query_bucket is not None or not _only_positions(formula):
        return None
    rows = stretches(formula.visibility, at)
    queries = at.query.shape[2]
    worth = ONE_QUERY if queries == 1 else MANY_QUERIES
    if rows is None or worth * rows.width * queries > sum(tile.pairs for tile in layout):
        return None
    return rows


def stretches(visibility: Visibility, at: Positions) -> Rows | None:
    """The keys of each query on its own, where the keys stand one after the other; None where they do not."""
    keys = at.key.shape[-1]
    if not keys or not consecutive(at.key):
        return None
    first, last = visibility.bounds(at)
    low = at.key[..., :1]
    start = (first - low).ceil().clamp(0, keys)
    stop = (last - low).floor().clamp(-1, keys - 1) + 1
    width = int((stop - start).amax().clamp(min=1))
    return Rows(start.clamp(max=keys - width).long(), width)


def _only_positions(formula: Formula) -> bool:
    """Whether all parts may be asked about single pairs: nothing in them counts places, or examples, in the batch."""
    if not (judges_pairs(formula.bias) and judges_pairs(formula.reweight)):
        return False
    return formula.visibility.by_pair and not is_placed(formula.score)


def gathered(
    formula: Formula,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    at: Positions,
    key_features: Tensor | None,
    dropout: float,
    rows: Rows,
) -> Tensor:
    """Every query becomes an example of its own, with `rows.width` keys."""
    batch, queries = query.shape[0], query.shape[2]
    first = rows.first.expand(batch, -1, queries, 1)
    index = (first + torch.arange(rows.width, device=at.device)).flatten(2)  # batch #heads query·width

    def taken(tensor: Tensor) -> Tensor:
        # Many may take the same key: its gradient is their sum, in which half precision would lose the small ones.
        dtype, tensor = tensor.dtype, tensor.expand(batch, *tensor.shape[1:])
        if dtype in (torch.bfloat16, torch.float16) and torch.is_grad_enabled():
            tensor = tensor.float()
        if index.shape[1] > 1:
            tensor = tensor.repeat_interleave(index.shape[1] // tensor.shape[1], 1)
        own = tensor.gather(2, index[..., None].expand(-1, tensor.shape[1], -1, tensor.shape[3]))
        return own.to(dtype).unflatten(2, (queries, rows.width)).transpose(1, 2).flatten(0, 1)

    def alone(tensor: Tensor) -> Tensor:
        return tensor.expand(batch, -1, queries, -1).transpose(1, 2).flatten(0, 1)[:, :, None]

    here = at.changed(of_query=alone, of_key=lambda part: taken(part.mT).mT, uncut_real=None)
    features = None if key_features is None else taken(key_features)
    context = materialise(
        formula, alone(query), taken(key), taken(value), at=here, key_features=features, dropout=dropout
    ).context
    return context[:, :, 0].unflatten(0, (batch, queries)).transpose(1, 2)
