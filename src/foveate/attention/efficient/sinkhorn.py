"""Sinkhorn attention: blocks of keys are sorted, softly, so that local attention finds what it needs beside it."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.attention.attention import Explanation, Plan, PlannedPath
from foveate.attention.check import (
    require_equal_width,
    require_made_for,
    require_one_width,
    require_real,
    require_tensors,
    require_whole,
)
from foveate.attention.efficient.block import Blocks, Look, Sorted, balanced, blocks_of
from foveate.attention.efficient.demand import demand_of, require
from foveate.attention.paths.path import Cost
from foveate.attention.planner import features, is_training, rates_of
from foveate.attention.position import Positions, require_places
from foveate.attention.visibility import Visibility, everything


class SinkhornAttention(nn.Module):
    """context_i = softmax over (own block of i, sorted block of i);  sorted block u = Σ_w P_uw block_w

    Blocks of `block` neighbouring positions. A block is summarised by the mean s_w of its keys; logits s_u W s_w / √d
    over a temperature become a matrix P whose columns and rows sum to 1, by dividing columns and rows in turn
    (Sinkhorn; 0 iterations: softmax of rows). Keys and values are mixed block by block with P, and a query looks at its
    own block and at the mixture: O(n · block + (n / block)² · block).

    Causal: a block is sorted by what came before it. Its own summary is then the mean of all keys before the block,
    only earlier blocks are mixed, and columns are divided by what rows up to here sum to.

    Differs from the paper: logits compare two summaries and so know no longest length (the paper's network has an
    output per block); rows are divided last; no Gumbel noise. Hidden keys are in no summary and no mixture, and blocks
    of them do not take part, so padding has no say.

    `explain` shows implied weights, over the keys that the mixture is made of.

    >>> _ = torch.manual_seed(0)
    >>> x = torch.randn(1, 1, 5, 4)
    >>> attention = SinkhornAttention(head_dim=4, block=2)
    >>> weights = attention.explain(query=x, key=x, value=x).weights
    >>> torch.allclose(weights.sum(-1), torch.ones(5)), torch.allclose(weights @ x, attention.run(x, x, x), atol=1e-6)
    (True, True)

    Reference: Tay et al. 2020 (Sparse Sinkhorn Attention), section 3.
    """

    def __init__(
        self,
        *,
        head_dim: int,
        num_heads: int = 1,
        block: int = 32,
        iterations: int = 5,
        temperature: float = 0.75,
        visibility: Visibility | None = None,
    ) -> None:
        super().__init__()
        self.visibility = everything() if visibility is None else visibility
        require(
            "Sinkhorn attention",
            self.visibility,
            may_be_causal=True,
            way_out="it looks at mixtures of whole blocks. Leave the rule out, or choose another kind.",
        )
        require_whole(head_dim=head_dim, num_heads=num_heads, block=block)
        require_whole(0, iterations=iterations)
        require_real(positive=True, temperature=temperature)
        self.block, self.iterations, self.temperature = block, iterations, temperature
        self.sorting = nn.Parameter(torch.randn(num_heads, head_dim, head_dim) * head_dim**-0.5)

    def key_features(self, key: Float[Tensor, "batch heads key key_dim"]) -> None:
        """None: what is sorted depends on which keys are visible."""

    def explain(
        self,
        query: Float[Tensor, "batch heads query query_dim"],
        key: Float[Tensor, "batch kv_heads key key_dim"],
        value: Float[Tensor, "batch kv_heads key value_head_dim"],
        *,
        at: Positions | None = None,
    ) -> Explanation:
        """Implied weights over the keys: O(query · key) memory."""
        at = self._placed(query, key, value, at)
        blocks = blocks_of(key, value, at, demand_of(self.visibility), self.block, query.shape[1])
        looked = Look(query, blocks, self.sort(blocks), at)
        weights, scores = looked.implied(), looked.implied_scores()
        # A hidden value may be anything, and 0 · NaN is NaN.
        visible = weights > 0
        value = blocks.undone_value()
        return Explanation(scores, visible, weights, looked.weighed(weights, value, visible), "implied")

    def run(
        self,
        query: Float[Tensor, "batch heads query query_dim"],
        key: Float[Tensor, "batch kv_heads key key_dim"],
        value: Float[Tensor, "batch kv_heads key value_head_dim"],
        *,
        at: Positions | None = None,
        key_features: Float[Tensor, "batch #heads key feature"] | None = None,
        dropout: float = 0.0,
    ) -> Float[Tensor, "batch heads query value_head_dim"]:
        """The context, block by block. `dropout` falls on the weights of the own block and of the mixture."""
        at = self._placed(query, key, value, at)
        blocks = blocks_of(key, value, at, demand_of(self.visibility), self.block, query.shape[1])
        return Look(query, blocks, self.sort(blocks), at).context(dropout)

    def plan(
        self,
        query: Float[Tensor, "batch heads query query_dim"],
        key: Float[Tensor, "batch kv_heads key key_dim"],
        *,
        at: Positions | None = None,
    ) -> Plan:
        """There is one way: block by block."""
        self._placed(query, key, key, at)
        (batch, heads, queries, dim), keys = query.shape, key.shape[2]
        count = -(-keys // self.block)
        pairs = float(batch * heads * queries * 2 * self.block)
        mixing = 4.0 * batch * heads * count * count * self.block * dim
        room = max(query.element_size(), 4) * (3 * pairs + 2.0 * batch * heads * keys * dim)
        cost = Cost(4.0 * pairs * dim + mixing, room, pairs=pairs)
        rates = rates_of("sinkhorn", query, training=is_training(query, key))
        took = sum(rate * much for rate, much in zip(rates, features(cost, query, key), strict=True))
        because = f"{count} blocks of {self.block} and their mixtures + {self.visibility}"
        return Plan("sinkhorn", because, (PlannedPath("sinkhorn", (), cost.flops, cost.bytes, took),))

    def sort(self, blocks: Blocks) -> Sorted:
        """Each block's mixture of blocks."""
        summary, summary_before = blocks.summaries()
        logits = (summary_before if blocks.causal else summary) @ self.sorting.to(summary.dtype) @ summary.mT
        logits = logits / (summary.shape[-1] ** 0.5 * self.temperature)
        weights = balanced(logits, blocks.may_mix(), self.iterations, causal=blocks.causal)
        return Sorted.of(blocks, weights.to(blocks.key.dtype))

    def _placed(self, query: Tensor, key: Tensor, value: Tensor, at: Positions | None) -> Positions:
        """Where queries and keys stand, once they fit each other and the sorting."""
        require_tensors(query, key, value)
        require_equal_width("Sinkhorn attention", query, key)
        require_made_for(query, self.sorting)
        at = _given(query, key, at)
        require_places(at, query, key)
        return at

    def extra_repr(self) -> str:
        num_heads, head_dim, _ = self.sorting.shape
        sizes = f"head_dim={head_dim}, num_heads={num_heads}"
        parts = f"{sizes}, block={self.block}, iterations={self.iterations}, temperature={self.temperature:g}"
        return f"{parts}, visibility={self.visibility}"


@dataclass(frozen=True, kw_only=True)
class SinkhornConfig:
    """The own block of neighbours, and one block mixed from all by learned sorting (Tay et al. 2020)."""

    block: int = 32
    iterations: int = 5
    """How often columns and rows are divided in turn; 0: a softmax of rows, the Long Range Arena's choice."""
    temperature: float = 0.75
    """Below 1, sorting is more decided."""

    def __post_init__(self) -> None:
        if self.block < 1 or self.iterations < 0:
            raise ValueError(f"block={self.block} must be positive and iterations={self.iterations} not negative.")
        if self.temperature <= 0:
            raise ValueError(f"temperature={self.temperature} must be positive.")

    def build(
        self,
        *,
        query_dim: int,
        key_dim: int,
        num_heads: int = 1,
        visibility: Visibility,
        kind: Literal["self", "cross"],
    ) -> SinkhornAttention:
        if kind == "cross":
            raise ValueError(
                "Sinkhorn attention has a query look at its own block, which another sequence does not have. "
                'Choose another kind for cross-attention, such as "attention".'
            )
        require_one_width("Sinkhorn attention", query_dim, key_dim)
        return SinkhornAttention(
            head_dim=key_dim,
            num_heads=num_heads,
            block=self.block,
            iterations=self.iterations,
            temperature=self.temperature,
            visibility=visibility,
        )


def _given(query: Tensor, key: Tensor, at: Positions | None) -> Positions:
    if at is not None:
        return at
    if query.shape[2] != key.shape[2]:
        raise ValueError(
            f"Sinkhorn attention looks at the block in which a query stands, but {query.shape[2]} queries and "
            f"{key.shape[2]} keys do not say where they stand. "
            "Pass at=Positions.of(query=..., key=..., query_start=...)."
        )
    return Positions.of(query.shape[2], key.shape[2], device=query.device)
