"""Tiles of queries over just the keys that they may see: bands, and rules that hide about half of all pairs.

Rows are whole inside a tile, so that every score, bias and normaliser works as it does at full length. Softmax over dot
products has a hand-written backward pass (`fused.py`); any other attention is left to automatic differentiation. Where
the queries of a decoder look at different places, each of them takes keys of its own (`gathered`).
"""

import math
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.attention.bias import bias_values, is_by_pair
from foveate.attention.normaliser.normaliser import tells_place
from foveate.attention.paths import fused
from foveate.attention.paths.fused import fusing_reasons
from foveate.attention.paths.hidden import finite, silence, weigh
from foveate.attention.paths.layout import Tile, between, consecutive, over_tile, pieces_between, tiles
from foveate.attention.paths.materialised import biased_scores, isolated_scores, materialise, reweighing
from foveate.attention.paths.path import (
    Cost,
    Formula,
    Inputs,
    ShippedPath,
    context_type,
    cutting_reasons,
    empty_reasons,
    share_heads,
)
from foveate.attention.paths.recomputation import by_rows
from foveate.attention.position import Positions, traced
from foveate.attention.score import is_factored, is_placed
from foveate.attention.score.form import terms
from foveate.attention.visibility import Visibility

WORTH = 0.6
"""Part of all pairs that tiles may contain under a rule that looks both ways; causal() has little more than half."""
TOGETHER = 16
"""Tiles over which automatic differentiation adds up gradients of a score's weights in half precision. For more tiles,
sums are in float32, which takes another forward pass.
"""
ONE_QUERY, MANY_QUERIES = 4, 50
"""It pays to gather each query's own keys where tiles contain so many times as many pairs. A tile of many queries is a
product of matrices, which is some ten times as fast per pair.
"""


@dataclass(frozen=True)
class BandedPath(ShippedPath):
    """Windows, chunks, blocks, patterns of global and random blocks, and windows around a centre."""

    name = "banded"
    tile: int | None = None
    """Queries per tile; None: by the width of the band."""

    def refuses(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> list[str]:
        if math.isinf(formula.visibility.width):
            return [f"{formula.visibility} does not limit the distance between query and key"]
        return cutting_reasons(formula) + empty_reasons(query, key)

    def cost(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> Cost:
        return cost_of(self._layout(formula, at), formula, query, key)

    def context(self, inputs: Inputs) -> Tensor:
        layout = self._layout(inputs.formula, inputs.at)
        own = own_keys(inputs.formula, inputs.at, layout)
        return in_tiles(inputs, layout) if own is None else gathered(inputs, own)

    def _layout(self, formula: Formula, at: Positions) -> list[Tile]:
        size = self.tile
        if size is None:
            size = 64 if formula.visibility.width <= 512 else 128
        return tiles(formula.visibility, at, size)


@dataclass(frozen=True)
class TiledPath(ShippedPath):
    """Any attention under causal() and other rules that end at the query, alone or with padding, and under patterns
    without a band that leave most pairs out.
    """

    name = "tiled"
    tile: int = 128
    """Queries per tile."""

    def refuses(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> list[str]:
        reasons = cutting_reasons(formula) + empty_reasons(query, key)
        if query.device.type != "cpu":
            reasons.append(f"made for CPUs, not for {query.device.type}")
        if formula.visibility.ahead == math.inf and not self._sparse(formula.visibility, at):
            reasons.append(f"{formula.visibility} shows keys after the query, and hides too few pairs for tiles")
        if query.shape[2] <= self.tile and (unfused := fusing_reasons(formula, query, key, at)):
            reasons.append(f"all queries fit into one tile, and {unfused[0]}")
        return reasons

    def cost(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> Cost:
        layout = tiles(formula.visibility, at, self.tile)
        cost = cost_of(layout, formula, query, key)
        if not fusing_reasons(formula, query, key, at):
            return cost._replace(bytes=min(cost.bytes, float(fused.KEPT) * query.shape[0] * query.shape[1]))
        # Automatic differentiation keeps the weights of all tiles, and what they were made of.
        share = 1.0 if torch.is_grad_enabled() else max([0, *(tile.pairs for tile in layout)]) / max(_pairs(layout), 1)
        return cost._replace(bytes=3.0 * share * cost.bytes)

    def context(self, inputs: Inputs) -> Tensor:
        return in_tiles(inputs, tiles(inputs.formula.visibility, inputs.at, self.tile))

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
    pairs = float(query.shape[0] * query.shape[1] * _pairs(layout))
    return Cost(4.0 * pairs * key.shape[3], pairs * terms(formula.score) * max(4, query.element_size()))


def in_tiles(inputs: Inputs, layout: list[Tile]) -> Tensor:
    """The context, with the hand-written backward pass where it applies."""
    formula, query, key, _, at, _, dropout = inputs
    if not dropout and not fusing_reasons(formula, query, key, at):
        context = fused.context(inputs, layout)
        if context is not None:
            return context
    return by_tile(inputs, layout)


def by_tile(inputs: Inputs, layout: list[Tile]) -> Tensor:
    """The context for any score, bias and normaliser, by automatic differentiation."""
    formula, query, key, value, at, key_features, dropout = inputs
    heads = query.shape[1]
    if key_features is None and is_factored(formula.score) and finite(key):
        key_features = formula.score.key_features(share_heads(key, heads))
    size, light = layout[0].rows.stop - layout[0].rows.start, query.dtype in (torch.bfloat16, torch.float16)
    if light and torch.is_grad_enabled() and query.shape[2] > TOGETHER * size:

        def some(query: Tensor, at: Positions, key: Tensor, value: Tensor, features: Tensor | None) -> Tensor:
            here = Inputs(formula, query, key, value, at, features, dropout)
            return by_tile(here, tiles(formula.visibility, at, size))

        return by_rows(some, query, at, TOGETHER * size, key, value, key_features)
    # Gradients of tiles are added in the type of what they share.
    wide = torch.promote_types(query.dtype, torch.float32)
    shared = [share_heads(key, heads), share_heads(value, heads)]
    if key_features is not None:
        shared.append(key_features.expand(-1, heads, -1, -1))
    cut = [pieces_between(part.to(wide), layout) for part in shared]
    contexts, kind = [], context_type(value)
    for tile in layout:
        queries = query[:, :, tile.rows]
        if tile.columns:
            own = [between(pieces, tile.columns).to(part.dtype) for pieces, part in zip(cut, shared, strict=True)]
            features = own[2] if key_features is not None else None
            contexts.append(_one_tile(Inputs(formula, queries, own[0], own[1], at, features, dropout), tile))
        else:  # a sum over no keys: zeros that belong to the graph of all inputs
            nothing = cut[1][0][0][:, :, :0].sum(2, keepdim=True).to(kind)
            nothing = nothing + (queries[..., :0].sum() + cut[0][0][0][:, :, :0].sum()).to(kind)
            contexts.append(nothing.expand(-1, -1, queries.shape[2], -1))
    return torch.cat(contexts, dim=2)


def _one_tile(inputs: Inputs, tile: Tile) -> Tensor:
    """The context of one tile, as by `materialise`. Positions are those of all queries and keys."""
    formula, query, key, value, at, features, dropout = inputs
    visible = over_tile(formula.visibility, at, tile)
    key, value = silence(visible, key, value)
    if features is not None:
        (features,) = silence(visible, features)
    here, scores = at.rows(tile.rows), []
    for piece, part in tile.places():
        own = None if features is None else features[:, :, part]
        there = here.columns(piece)
        scores.append(isolated_scores(formula, query, key[:, :, part], visible[..., part], at=there, key_features=own))
    weights = formula.normaliser(torch.cat(scores, dim=-1), visible)
    if formula.reweight is not None:
        weighing = over_tile(partial(bias_values, formula.reweight, dtype=reweighing(query)), at, tile)
        weights = weights * weighing.exp().to(weights.dtype)
    dropped = nn.functional.dropout(weights, dropout) if dropout else weights
    return weigh(dropped, value, visible)


def row_statistic(
    formula: Formula,
    query: Float[Tensor, "batch heads query query_dim"],
    key: Float[Tensor, "batch heads key key_dim"],
    at: Positions,
    layout: list[Tile],
) -> Float[Tensor, "batch heads query"]:
    """The normaliser's statistic of every row, for records; without gradients."""
    normaliser, parts = formula.normaliser, []
    features = formula.score.key_features(key) if is_factored(formula.score) else None
    for tile in layout:
        queries, here, scores = query[:, :, tile.rows], at.rows(tile.rows), []
        if not tile.columns:  # rows that see nothing
            nothing = torch.zeros(1, 1, 1, 1, dtype=torch.bool, device=query.device)
            parts.append(normaliser.statistic(query.new_zeros(*queries.shape[:3], 1), nothing))
            continue
        for piece in tile.columns:
            own, there = None if features is None else features[:, :, piece], here.columns(piece)
            scores.append(biased_scores(formula, queries, key[:, :, piece], at=there, key_features=own))
        numbers = normaliser.statistic(torch.cat(scores, dim=-1), over_tile(formula.visibility, at, tile))
        if tells_place(normaliser):
            places = torch.cat([torch.arange(piece.start, piece.stop, device=query.device) for piece in tile.columns])
            numbers = torch.where(numbers >= 0, places[numbers.long()].to(numbers.dtype), numbers)
        parts.append(numbers)
    return torch.cat(parts, dim=-1)


# ---- every query with keys of its own: decoders whose examples look at different places ------------------------------


@dataclass(frozen=True, eq=False)
class OwnKeys:
    """A stretch of keys for each query, of one width for all of them."""

    first: Int[Tensor, "#batch #heads query 1"]
    width: int


def own_keys(formula: Formula, at: Positions, layout: list[Tile]) -> OwnKeys | None:
    """Each query's own keys, where queries look at places so different that a common piece is much wider."""
    spread = at.centre is not None or at.query.shape[0] * at.query.shape[1] > 1
    if not spread or at.previous is not None or at.query_bucket is not None or not _is_by_pair(formula):
        return None
    own, queries = stretches(formula.visibility, at), at.query.shape[2]
    worth = ONE_QUERY if queries == 1 else MANY_QUERIES
    return own if own is not None and worth * own.width * queries <= _pairs(layout) else None


def stretches(visibility: Visibility, at: Positions) -> OwnKeys | None:
    """The keys of each query on its own, where the keys stand one after the other; None where they do not."""
    keys = at.key.shape[-1]
    if not keys or not consecutive(at.key):
        return None
    first, last = visibility.bounds(at)
    low = at.key[..., :1]
    start = (first - low).ceil().clamp(0, keys)
    stop = (last - low).floor().clamp(-1, keys - 1) + 1
    width = int((stop - start).amax().clamp(min=1))
    return OwnKeys(start.clamp(max=keys - width).long(), width)


def _is_by_pair(formula: Formula) -> bool:
    """Whether all parts may be asked about single pairs: nothing in them counts places, or examples, in the batch."""
    biases = is_by_pair(formula.bias) and is_by_pair(formula.reweight)
    return biases and formula.visibility.by_pair and not is_placed(formula.score)


def gathered(inputs: Inputs, own: OwnKeys) -> Tensor:
    """The context, for which every query becomes an example of its own, with `own.width` keys."""
    formula, query, key, value, at, key_features, dropout = inputs
    batch, queries = query.shape[0], query.shape[2]
    first = own.first.expand(batch, -1, queries, 1)
    index = (first + torch.arange(own.width, device=at.device)).flatten(2)  # batch #heads query·width

    def taken(tensor: Tensor) -> Tensor:
        # Many may take the same key: its gradient is their sum, in which half precision would lose the small ones.
        dtype, tensor = tensor.dtype, tensor.expand(batch, *tensor.shape[1:])
        if dtype in (torch.bfloat16, torch.float16) and torch.is_grad_enabled():
            tensor = tensor.float()
        if index.shape[1] > 1:
            tensor = tensor.repeat_interleave(index.shape[1] // tensor.shape[1], 1)
        rows = tensor.gather(2, index[..., None].expand(-1, tensor.shape[1], -1, tensor.shape[3]))
        return rows.to(dtype).unflatten(2, (queries, own.width)).transpose(1, 2).flatten(0, 1)

    def alone(tensor: Tensor) -> Tensor:
        return tensor.expand(batch, -1, queries, -1).transpose(1, 2).flatten(0, 1)[:, :, None]

    here = at.changed(of_query=alone, of_key=lambda part: taken(part.mT).mT, uncut_real=None)
    features = None if key_features is None else taken(key_features)
    context = materialise(formula, alone(query), taken(key), taken(value), here, features, dropout).context
    return context[:, :, 0].unflatten(0, (batch, queries)).transpose(1, 2)
