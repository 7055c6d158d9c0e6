"""Any score, bias and normaliser, tile by tile, through automatic differentiation."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.attention.bias import told
from foveate.attention.normaliser.normaliser import tells_place
from foveate.attention.paths.hidden import finite, silence, weigh
from foveate.attention.paths.layout import Tile, between, over_keys, pieces_between, placed, tiles, visible_in
from foveate.attention.paths.materialised import apart_scores, biased_scores, reweighing, terms
from foveate.attention.paths.path import Cost, Formula, share_heads
from foveate.attention.paths.recomputation import by_rows
from foveate.attention.position import Positions
from foveate.attention.score import is_factored

TOGETHER = 16
"""Tiles over which automatic differentiation may add gradients of a score's weights in half precision; sums over
more are made in float32, for which the forward pass runs once more.
"""


def by_layout(layout: list[Tile], formula: Formula, query: Tensor, key: Tensor, at: Positions) -> Cost:
    """What it takes to compute these tiles."""
    batch, heads = query.shape[:2]
    pairs = float(batch * heads * sum(tile.pairs for tile in layout))
    return Cost(4.0 * pairs * key.shape[3], pairs * terms(formula) * max(4, query.element_size()))


def by_tile(
    formula: Formula,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    at: Positions,
    key_features: Tensor | None,
    dropout: float,
    layout: list[Tile],
) -> Tensor:
    """Any score, bias and normaliser, through automatic differentiation."""
    heads = query.shape[1]
    if key_features is None and is_factored(formula.score) and finite(key):
        key_features = formula.score.key_features(share_heads(key, heads))
    size, light = layout[0].rows.stop - layout[0].rows.start, query.dtype in (torch.bfloat16, torch.float16)
    if light and torch.is_grad_enabled() and query.shape[2] > TOGETHER * size:

        def some(query: Tensor, at: Positions, key: Tensor, value: Tensor, features: Tensor | None) -> Tensor:
            here = tiles(formula.visibility, at, size)
            return by_tile(formula, query, key, value, at, features, dropout, here)

        return by_rows(some, query, at, TOGETHER * size, key, value, key_features)
    # Gradients of tiles are added in the type of what they share.
    wide = torch.promote_types(query.dtype, torch.float32)
    keys, values = (pieces_between(share_heads(part, heads).to(wide), layout) for part in (key, value))
    features = None
    if key_features is not None:
        features = pieces_between(key_features.expand(-1, heads, -1, -1).to(wide), layout)
    contexts = []
    for tile in layout:
        queries = query[:, :, tile.rows]
        if not tile.columns:
            # A sum over no keys: zeros that belong to the graph.
            nothing = values[0][0][:, :, :0].sum(2, keepdim=True).to(value.dtype)
            contexts.append(nothing.expand(-1, -1, queries.shape[2], -1))
            continue
        ours = None
        if features is not None and key_features is not None:
            ours = between(features, tile.columns).to(key_features.dtype)
        here, there = between(keys, tile.columns).to(key.dtype), between(values, tile.columns).to(value.dtype)
        contexts.append(_one_tile(formula, queries, here, there, ours, at, dropout, tile))
    return torch.cat(contexts, dim=2)


def row_statistic(
    formula: Formula,
    query: Float[Tensor, "batch heads query query_dim"],
    key: Float[Tensor, "batch heads key key_dim"],
    at: Positions,
    layout: list[Tile],
) -> Float[Tensor, "batch heads query"]:
    """The normaliser's number of every row, for records; without gradients."""
    normaliser, parts = formula.normaliser, []
    features = formula.score.key_features(key) if is_factored(formula.score) else None
    for tile in layout:
        queries, here = query[:, :, tile.rows], at.rows(tile.rows)
        if not tile.columns:  # what a row has that sees nothing
            nothing = torch.zeros(1, 1, 1, 1, dtype=torch.bool, device=query.device)
            parts.append(normaliser.statistic(query.new_zeros(*queries.shape[:3], 1), nothing))
            continue
        scores = [
            biased_scores(
                formula,
                queries,
                key[:, :, piece],
                at=here.columns(piece),
                key_features=None if features is None else features[:, :, piece],
            )
            for piece in tile.columns
        ]
        found = normaliser.statistic(torch.cat(scores, dim=-1), visible_in(formula.visibility, at, tile))
        if tells_place(normaliser):
            places = torch.cat([torch.arange(piece.start, piece.stop, device=query.device) for piece in tile.columns])
            found = torch.where(found >= 0, places[found.long()].to(found.dtype), found)
        parts.append(found)
    return torch.cat(parts, dim=-1)


def _one_tile(
    formula: Formula,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_features: Tensor | None,
    at: Positions,
    dropout: float,
    tile: Tile,
) -> Tensor:
    """What `materialise` does, over pieces of the keys."""
    visible = visible_in(formula.visibility, at, tile)
    key, value = silence(visible, key, value)
    if key_features is not None:
        (key_features,) = silence(visible, key_features)
    here, start, scores, reweights = at.rows(tile.rows), 0, [], []
    for piece in tile.columns:
        part = slice(start, start + piece.stop - piece.start)
        start = part.stop
        features = None if key_features is None else key_features[:, :, part]
        columns = here.columns(piece)
        seen = visible if visible.shape[-1] == 1 else visible[..., part]
        scores.append(apart_scores(formula, query, key[:, :, part], seen, at=columns, key_features=features))
        if formula.reweight is not None:
            reweights.append(placed(told(formula.reweight, columns, reweighing(query)), tile.rows, piece))
    weights = formula.normaliser(torch.cat(scores, dim=-1), visible)
    if reweights:
        weights = weights * over_keys(reweights).exp().to(weights.dtype)
    dropped = nn.functional.dropout(weights, dropout) if dropout else weights
    return weigh(dropped, value, visible)
