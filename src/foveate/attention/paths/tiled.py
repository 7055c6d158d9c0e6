"""Tiles of queries over just the keys that they may see: bands, and rules that hide about half of all pairs.

Rows are whole inside a tile, so that every score, bias and normaliser works as it does at full length. Softmax over dot
products has its backward pass written out (`fused.py`); any other attention is left to automatic differentiation.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.attention.bias import told
from foveate.attention.normaliser.normaliser import tells_place
from foveate.attention.paths import fused
from foveate.attention.paths.fused import fusing_reasons
from foveate.attention.paths.gather import gathered, worth_gathering
from foveate.attention.paths.hidden import finite, silence, weigh
from foveate.attention.paths.layout import Tile, between, over_keys, pieces_between, placed, tiles, visible_in
from foveate.attention.paths.materialised import apart_scores, biased_scores, reweighing
from foveate.attention.paths.path import Cost, Formula, cutting_reasons, empty_reasons, share_heads
from foveate.attention.paths.recomputation import by_rows
from foveate.attention.position import Positions, traced
from foveate.attention.score import is_factored
from foveate.attention.score.form import terms
from foveate.attention.visibility import Visibility

WORTH = 0.6
"""Part of all pairs that tiles may hold under a rule that looks both ways: causal() has little more than half."""
TOGETHER = 16
"""Tiles over which automatic differentiation add up gradients of a score's weights in half precision. For more,
sums are made in float32, which takes the forward pass once more.
"""


@dataclass(frozen=True)
class BandedPath:
    """Windows, chunks, blocks, patterns of global and random blocks, and windows around a centre."""

    name = "banded"
    tile: int | None = None
    """Queries per tile; None: by the width of the band."""

    def refuses(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> list[str]:
        if math.isinf(formula.visibility.width):
            return [f"{formula.visibility} reaches as far as there are keys"]
        return cutting_reasons(formula) + empty_reasons(query, key)

    def cost(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> Cost:
        return cost_of(tiles(formula.visibility, at, self._size(formula)), formula, query, key)

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
        layout = tiles(formula.visibility, at, self._size(formula))
        rows = worth_gathering(formula, at, layout)
        if rows is not None:
            return gathered(formula, query, key, value, at, key_features, dropout, rows)
        return in_tiles(formula, query, key, value, at, key_features, dropout, layout)

    def _size(self, formula: Formula) -> int:
        if self.tile is not None:
            return self.tile
        return 64 if formula.visibility.width <= 512 else 128


@dataclass(frozen=True)
class TiledPath:
    """Any attention under causal() and other rules that end at the query, alone or with padding, and under patterns
    without a band that leave most pairs out.

    Softmax over dot products has its backward pass written out; others are left to automatic differentiation.
    """

    name = "tiled"
    tile: int = 128
    """Queries per tile."""

    def refuses(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> list[str]:
        reasons = cutting_reasons(formula) + empty_reasons(query, key)
        if query.device.type != "cpu":
            reasons.append(f"made for CPUs, not for {query.device.type}")
        if formula.visibility.ahead == math.inf and not self._sparse(formula.visibility, at):
            reasons.append(f"{formula.visibility} does not end at the query, and leaves out too little to tile")
        if query.shape[2] <= self.tile and (unfused := fusing_reasons(formula, query, key, at)):
            reasons.append(f"one tile would be the whole, and {unfused[0]}")
        return reasons

    def cost(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> Cost:
        layout = tiles(formula.visibility, at, self.tile)
        cost = cost_of(layout, formula, query, key)
        if not fusing_reasons(formula, query, key, at):
            return cost._replace(bytes=min(cost.bytes, float(fused.KEPT) * query.shape[0] * query.shape[1]))
        # Automatic differentiation keeps the weights of all tiles, and what they were made of.
        share = 1.0 if torch.is_grad_enabled() else max([0, *(tile.pairs for tile in layout)]) / max(_pairs(layout), 1)
        return cost._replace(bytes=3.0 * share * cost.bytes)

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
        layout = tiles(formula.visibility, at, self.tile)
        return in_tiles(formula, query, key, value, at, key_features, dropout, layout)

    def _sparse(self, visibility: Visibility, at: Positions) -> bool:
        """Whether tiles leave out most pairs of a rule that looks both ways and has no band."""
        if traced() or not visibility.lasting or math.isfinite(visibility.width):
            return False
        if visibility.reach(at).unbounded:
            return False
        return _pairs(tiles(visibility, at, self.tile)) < WORTH * at.query.shape[2] * at.key.shape[-1]


def _pairs(layout: list[Tile]) -> int:
    return sum(tile.pairs for tile in layout)


def cost_of(layout: list[Tile], formula: Formula, query: Tensor, key: Tensor) -> Cost:
    batch, heads = query.shape[:2]
    pairs = float(batch * heads * sum(tile.pairs for tile in layout))
    return Cost(4.0 * pairs * key.shape[3], pairs * terms(formula.score) * max(4, query.element_size()))


def in_tiles(
    formula: Formula,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    at: Positions,
    key_features: Tensor | None,
    dropout: float,
    layout: list[Tile],
) -> Tensor:
    """The context, with the backward pass that is written out where it serves."""
    if not dropout and not fusing_reasons(formula, query, key, at):
        context = fused.context(formula, query, key, value, at, key_features, layout)
        if context is not None:
            return context
    return by_tile(formula, query, key, value, at, key_features, dropout, layout)


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
        if not tile.columns:  # rows that see nothing
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
        numbers = normaliser.statistic(torch.cat(scores, dim=-1), visible_in(formula.visibility, at, tile))
        if tells_place(normaliser):
            places = torch.cat([torch.arange(piece.start, piece.stop, device=query.device) for piece in tile.columns])
            numbers = torch.where(numbers >= 0, places[numbers.long()].to(numbers.dtype), numbers)
        parts.append(numbers)
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
        shown = visible if visible.shape[-1] == 1 else visible[..., part]
        scores.append(apart_scores(formula, query, key[:, :, part], shown, at=columns, key_features=features))
        if formula.reweight is not None:
            reweights.append(placed(told(formula.reweight, columns, reweighing(query)), tile.rows, piece))
    weights = formula.normaliser(torch.cat(scores, dim=-1), visible)
    if reweights:
        weights = weights * over_keys(reweights).exp().to(weights.dtype)
    dropped = nn.functional.dropout(weights, dropout) if dropout else weights
    return weigh(dropped, value, visible)
