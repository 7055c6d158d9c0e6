"""Patterns of named papers, written with simpler rules."""

import math

from foveate.attention.check import require_whole
from foveate.attention.visibility.rule import Visibility
from foveate.attention.visibility.sparse import block as whole_block
from foveate.attention.visibility.sparse import chunk, global_tokens, random_blocks, summary
from foveate.attention.visibility.window import dilated
from foveate.attention.visibility.window import window as sliding


def longformer(*, window: int, tokens: int = 0) -> Visibility:
    """A sliding window of `window` keys, half on each side, and the first `tokens` positions global.

    >>> longformer(window=2, tokens=1)
    window(left=1, right=1) | global_tokens(1)
    >>> print(longformer(window=2, tokens=1).picture(5, 5))
    # # # # #
    # # # . .
    # # # # .
    # . # # #
    # . . # #

    The paper gives global positions projections of their own; here they share those of the others.

    Reference: Beltagy et al. 2020, section 3.1.
    """
    require_whole(-math.inf, window=window, tokens=tokens)
    if window % 2:
        raise ValueError(f"A Longformer window counts both sides: window={window} must be even.")
    near = sliding(left=window // 2, right=window // 2)
    return near | global_tokens(tokens) if tokens else near


def bigbird(*, block: int, window: int = 3, tokens: int = 1, random: int = 3, seed: int = 0) -> Visibility:
    """In blocks: `window` around the query, the first `tokens` global, and `random` others.

    >>> bigbird(block=2, random=1)
    chunk(2, left=1, right=1) | global_tokens(2) | random_blocks(block=2, count=1, seed=0)
    >>> print(bigbird(block=1, window=1, tokens=1, random=1).picture(5, 5))
    # # # # #
    # # . # .
    # . # . #
    # . . # #
    # . . # #

    Reference: Zaheer et al. 2020, section 2 and appendix D. The paper draws its random blocks among those that are
    not visible already; here they may coincide.
    """
    require_whole(-math.inf, block=block, window=window, tokens=tokens)
    require_whole(0, random=random)
    if window % 2 == 0:
        raise ValueError(f"BigBird's window has the query's block in its middle: window={window} must be odd.")
    near = chunk(block, left=window // 2, right=window // 2)
    return near | global_tokens(tokens * block) | random_blocks(block=block, count=random, seed=seed)


def sparse(*, block: int, summaries: int = 1, strided: bool = False) -> Visibility:
    """The factorised patterns of sparse Transformers, both heads in one; with `& causal()` as in the paper.

    Fixed: a query sees its own block and the last `summaries` positions of every block.

    >>> from foveate.attention import causal
    >>> print((sparse(block=2) & causal()).picture(5, 5))
    # . . . .
    # # . . .
    . # # . .
    . # # # .
    . # . # #

    Strided: the last `block` positions and every `block`-th before them.

    >>> print((sparse(block=2, strided=True) & causal()).picture(5, 5))
    # . . . .
    # # . . .
    # # # . .
    . # # # .
    # . # # #

    Reference: Child et al. 2019, section 4.3.
    """
    if strided:
        require_whole(block=block)
        return sliding(left=block, right=block) | dilated(left=math.inf, right=math.inf, step=block)
    return whole_block(block) | summary(block=block, count=summaries)
