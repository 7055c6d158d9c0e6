"""Rules that hide about half of all pairs, on a CPU: tiles of queries over the keys up to where they may look.

The fused kernel computes every hidden pair of a Bool mask; tiles leave most of them out. Rows are whole, so that every
score, bias and normaliser works as it does at full length. For softmax over dot products, what is not kept for the
backward pass is computed again, so that memory beyond a limit is linear in the length.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from foveate.attention.paths import fused
from foveate.attention.paths.fused import fusing_reasons
from foveate.attention.paths.layout import Tile, tiles
from foveate.attention.paths.path import Cost, Formula, cutting_reasons, empty_reasons
from foveate.attention.paths.tile import by_layout, by_tile
from foveate.attention.position import Positions, traced
from foveate.attention.visibility import Visibility

WORTH = 0.6
"""What part of all pairs tiles may have under a rule that looks both ways: causal() has little more than half."""


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
        cost = by_layout(layout, formula, query, key, at)
        if not fusing_reasons(formula, query, key, at):
            return cost._replace(bytes=min(cost.bytes, float(fused.KEPT) * query.shape[0] * query.shape[1]))
        # Automatic differentiation keeps the weights of all tiles, and what they were made of.
        kept = 1.0 if torch.is_grad_enabled() else max([0, *(tile.pairs for tile in layout)]) / max(_pairs(layout), 1)
        return cost._replace(bytes=3.0 * kept * cost.bytes)

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
        if not dropout and not fusing_reasons(formula, query, key, at):
            context = fused.context(formula, query, key, value, at, key_features, layout)
            if context is not None:
                return context
        return by_tile(formula, query, key, value, at, key_features, dropout, layout)

    def _sparse(self, visibility: Visibility, at: Positions) -> bool:
        """Whether tiles leave out most pairs of a rule that looks both ways and has no band."""
        if traced() or not visibility.lasting or math.isfinite(visibility.width):
            return False
        if visibility.reach(at).unbounded:
            return False
        return _pairs(tiles(visibility, at, self.tile)) < WORTH * at.query.shape[2] * at.key.shape[-1]


def _pairs(layout: list[Tile]) -> int:
    return sum(tile.pairs for tile in layout)
