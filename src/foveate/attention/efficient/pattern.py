"""Sparse attention: softmax over the pairs that a pattern of positions leaves."""

from dataclasses import dataclass
from typing import Literal

from foveate.attention.attention import Attention
from foveate.attention.efficient.demand import demand_of
from foveate.attention.score import ScaledDot
from foveate.attention.visibility import Visibility, bigbird, block, longformer, sparse


@dataclass(frozen=True, kw_only=True)
class PatternConfig:
    """Scaled dot-product attention within a pattern, beside what the model demands."""

    @property
    def pattern(self) -> Visibility:
        raise NotImplementedError

    def build(
        self,
        *,
        query_dim: int,
        key_dim: int,
        num_heads: int = 1,
        visibility: Visibility,
        kind: Literal["self", "cross"],
    ) -> Attention:
        if kind == "cross":
            raise ValueError(
                f"{self.pattern} compares positions of one sequence. "
                'Choose another kind for cross-attention, such as "attention".'
            )
        score = ScaledDot().build(query_dim=query_dim, key_dim=key_dim)
        return Attention(score, visibility=visibility & self.pattern, kind=kind)


@dataclass(frozen=True, kw_only=True)
class LocalBlockConfig(PatternConfig):
    """Attention within blocks of neighbouring positions: the "local attention" of the Long Range Arena, repaired.

    Its published code puts positions j, j + n/b, j + 2n/b … into one block, which is not local; as a rule, that is
    `block(b, strided=True)`.

    >>> print(LocalBlockConfig(block=2).pattern.picture(4, 4))
    # # . .
    # # . .
    . . # #
    . . # #
    """

    block: int = 32

    @property
    def pattern(self) -> Visibility:
        return block(self.block)


@dataclass(frozen=True, kw_only=True)
class SparseConfig(PatternConfig):
    """The query's own block and summary positions of every block, or the strided pattern (Child et al. 2019)."""

    block: int = 32
    summaries: int = 1
    """How many positions at the end of each block everybody sees."""
    strided: bool = False
    """The last `block` positions and every `block`-th before them, instead."""

    @property
    def pattern(self) -> Visibility:
        return sparse(block=self.block, summaries=self.summaries, strided=self.strided)


@dataclass(frozen=True, kw_only=True)
class LongformerConfig(PatternConfig):
    """A sliding window and some global positions (Beltagy et al. 2020)."""

    window: int = 64
    """How many neighbours a query sees, half of them on each side."""
    tokens: int = 0
    """How many positions, from the first on, see and are seen by everybody."""

    @property
    def pattern(self) -> Visibility:
        return longformer(window=self.window, tokens=self.tokens)


@dataclass(frozen=True, kw_only=True)
class BigbirdConfig(PatternConfig):
    """Neighbouring, global and random blocks (Zaheer et al. 2020)."""

    block: int = 16
    window: int = 3
    """How many blocks around and with the query's own."""
    tokens: int = 1
    """How many blocks, from the first on, see and are seen by everybody."""
    random: int = 3
    """How many blocks drawn at random each block of queries sees."""
    seed: int = 0

    @property
    def pattern(self) -> Visibility:
        return bigbird(block=self.block, window=self.window, tokens=self.tokens, random=self.random, seed=self.seed)

    def build(
        self,
        *,
        query_dim: int,
        key_dim: int,
        num_heads: int = 1,
        visibility: Visibility,
        kind: Literal["self", "cross"],
    ) -> Attention:
        if self.random and demand_of(visibility).causal:
            raise ValueError(
                "random blocks are drawn among all blocks of a sequence, which a decoder has not written yet. "
                'Give random = 0, or choose another kind here, such as "sparse" or "longformer".'
            )
        return super().build(
            query_dim=query_dim, key_dim=key_dim, num_heads=num_heads, visibility=visibility, kind=kind
        )
