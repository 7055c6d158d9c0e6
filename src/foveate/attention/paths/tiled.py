"""Rules that hide about half of all pairs, on a CPU: tiles of queries over the keys up to where they may look.

The fused kernel computes every hidden pair of a Bool mask; tiles leave most of them out. Rows are whole, and what is
not kept for the backward pass is computed again, so that memory beyond a limit is linear in the length.
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from foveate.attention.paths import fused
from foveate.attention.paths.fused import fusing_reasons
from foveate.attention.paths.layout import tiles
from foveate.attention.paths.path import Cost, Formula
from foveate.attention.paths.tile import by_layout, by_tile
from foveate.attention.position import Positions
from foveate.attention.visibility import And, Causal, Chunk, Visibility, Window


@dataclass(frozen=True)
class TiledPath:
    """Softmax over dot products under causal() and other rules that end at the query, alone or with padding."""

    name = "tiled"
    tile: int = 128
    """Queries per tile."""

    def refuses(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> list[str]:
        reasons = fusing_reasons(formula, query, key, at)
        if query.device.type != "cpu":
            reasons.append(f"made for CPUs, not for {query.device.type}")
        if not _one_sided(formula.visibility):
            reasons.append(f"{formula.visibility} does not end at the query")
        return reasons

    def cost(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> Cost:
        layout = tiles(formula.visibility, at, self.tile)
        cost = by_layout(layout, formula, query, key, at)
        return cost._replace(bytes=min(cost.bytes, float(fused.KEPT) * query.shape[0] * query.shape[1]))

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
        if not dropout:
            context = fused.context(formula, query, key, value, at, key_features, layout)
            if context is not None:
                return context
        return by_tile(formula, query, key, value, at, key_features, dropout, layout)


def _one_sided(visibility: Visibility) -> bool:
    """Whether a query sees nothing from some place behind it on, as far as the rule's name tells."""
    if isinstance(visibility, And):
        return any(_one_sided(rule) for rule in visibility.rules)
    return isinstance(visibility, Causal) or (
        isinstance(visibility, Window | Chunk) and visibility.right < float("inf")
    )
