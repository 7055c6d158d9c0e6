"""Rules that reach only so far: tiles of queries over just the keys they may see, forward and backward.

Rows are whole inside a tile, so that every score, bias and normaliser works as it does at full length, and time and
memory are those of the band. Dot products under softmax have their backward pass written out.
"""

import math
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from foveate.attention.paths import fused
from foveate.attention.paths.fused import fusing_reasons
from foveate.attention.paths.gather import gathered, worth_gathering
from foveate.attention.paths.layout import tiles
from foveate.attention.paths.path import Cost, Formula, cutting_reasons, empty_reasons
from foveate.attention.paths.tile import by_layout, by_tile
from foveate.attention.position import Positions


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
        return by_layout(tiles(formula.visibility, at, self._size(formula)), formula, query, key, at)

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
        if not dropout and not fusing_reasons(formula, query, key, at):
            context = fused.context(formula, query, key, value, at, key_features, layout)
            if context is not None:
                return context
        return by_tile(formula, query, key, value, at, key_features, dropout, layout)

    def _size(self, formula: Formula) -> int:
        if self.tile is not None:
            return self.tile
        return 64 if formula.visibility.width <= 512 else 128
