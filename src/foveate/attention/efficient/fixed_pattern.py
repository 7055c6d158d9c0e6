"""Sparse attention: softmax over the pairs that a pattern of positions leaves."""

from dataclasses import dataclass
from typing import Literal

from foveate.attention.attention import Attention
from foveate.attention.check import require_self
from foveate.attention.efficient.demand import demand_of
from foveate.attention.score import ScaledDot
from foveate.attention.visibility import Visibility, bigbird, block, longformer, sparse


@dataclass(frozen=True, kw_only=True)
class PatternConfig:
    """Scaled dot-product attention within a pattern, beside what the model demands."""

    def __post_init__(self) -> None:
        self.pattern  # noqa: B018 -- numbers that no pattern has are refused where they are given

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
        require_self(f"{self.pattern} compares positions of one sequence", kind)
        score = ScaledDot().build(query_dim=query_dim, key_dim=key_dim)
        return Attention(score, visibility=visibility & self.pattern, kind=kind)


@dataclass(frozen=True, kw_only=True)
class LocalBlockConfig(PatternConfig):
    """context_i = softmax over {j : ⌊j/b⌋ = ⌊i/b⌋} of q_i · k_j / √d, times v_j: blocks of b neighbouring positions

    The "local attention" of the Long Range Arena (Tay et al. 2021), repaired: O(n · b). Its published code puts
    positions j, j + n/b, j + 2n/b … into one block, which is not local; as a rule, that is `block(b, strided=True)`.

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
    """context_i = softmax over P_i of q_i · k_j / √d, times v_j,  P_i = {j : ⌊j/b⌋ = ⌊i/b⌋} ∪ {j : j mod b ≥ b − c}

    The query's own block of b positions, and the last c of every block, into which the others may write summaries.
    `strided`: P_i = {j : |i − j| ≤ b} ∪ {j : (i − j) mod b = 0}. Pairs grow as n · (b + n/b):
    with b = √n, as in the paper, as n√n.

    Differs from the paper: a head looks at both sets at once, where the paper also gives each a head or a layer of
    its own; and without a decoder's `causal()` it looks both ways.

    >>> from math import isqrt
    >>> from foveate.attention import Positions
    >>> for n in (64, 256, 1024):                                                  # pairs, divided by n√n
    ...     fixed, strided = (SparseConfig(block=isqrt(n), strided=strided).pattern for strided in (False, True))
    ...     print(n, *(f"{rule.pairs(Positions.of(n, n)) / n**1.5:.2f}" for rule in (fixed, strided)))
    64 1.88 2.64
    256 1.94 2.82
    1024 1.97 2.91

    Reference: Child et al. 2019, section 4.3.
    """

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
    """context_i = softmax over P_i of q_i · k_j / √d, times v_j,  P_i = {j : |i − j| ≤ w/2 or i < g or j < g}

    A sliding window of w neighbours and g global positions: O(n · (w + g)), each further layer reaches w/2 farther, and
    a global position connects any two in two steps.

    Differs from the paper: global positions share the projections of the others and are the first ones, and no window
    is dilated; `visibility = "global_tokens([…]) | dilated(…)"` sets both for any attention.

    >>> print(LongformerConfig(window=2, tokens=1).pattern.picture(5, 5))
    # # # # #
    # # # . .
    # # # # .
    # . # # #
    # . . # #

    Reference: Beltagy et al. 2020, section 3.1.
    """

    window: int = 64
    """How many neighbours a query sees, half of them on each side."""
    tokens: int = 0
    """How many positions, from the first on, see and are seen by everybody."""

    @property
    def pattern(self) -> Visibility:
        return longformer(window=self.window, tokens=self.tokens)


@dataclass(frozen=True, kw_only=True)
class BigbirdConfig(PatternConfig):
    """context_i = softmax over P_i of q_i · k_j / √d, times v_j,  P_i = blocks near i, global blocks, r random blocks

    O(n · block · (window + 2 · tokens + random)): the share of visible pairs falls as n grows, and any two positions
    are still two steps apart.

    Differs from the paper: random blocks may coincide with visible ones; they are drawn by a seed and an example's own
    length, so that padding does not change the draw; and the global blocks are the first ones of the text (ITC), not
    additional ones (ETC).

    >>> from foveate.attention import Positions
    >>> rule = BigbirdConfig(block=4).pattern
    >>> for n in (64, 128, 256):
    ...     print(n, f"{rule.pairs(Positions.of(n, n)) / n**2:.2f}")
    64 0.41
    128 0.23
    256 0.12

    Reference: Zaheer et al. 2020, section 2 and appendix D.
    """

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
