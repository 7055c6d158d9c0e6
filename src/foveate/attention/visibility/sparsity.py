"""Sparse patterns: blocks, chunks, global positions, random blocks, and what named papers make of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from foveate.attention.check import require_whole, whole_numbers
from foveate.attention.onnx import Graph, Places
from foveate.attention.position import Positions
from foveate.attention.visibility.reach import EVERYWHERE, Reach, Span
from foveate.attention.visibility.rule import Count, Visibility, everything
from foveate.attention.visibility.window import Window, dilated, number, require_counts


@dataclass(frozen=True)
class Chunk(Visibility):
    size: int
    left: Count
    right: Count
    by_pair, _counts = True, ("left", "right")

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads query key"]:
        distance = at.query // self.size - at.key // self.size
        return (distance <= self.left) & (-distance <= self.right)

    @property
    def width(self) -> int | float:
        return (self.left + self.right + 1) * self.size

    @property
    def ahead(self) -> Count:
        return (self.right + 1) * self.size - 1

    @property
    def behind(self) -> Count:
        return (self.left + 1) * self.size - 1

    def reach(self, at: Positions) -> Reach:
        chunk = (at.query // self.size).double()
        return Reach((Span((chunk - self.left) * self.size, (chunk + self.right + 1) * self.size - 1),))

    def meet(self, other: Visibility) -> Visibility | None:
        if (band := other.band) is not None:
            return self._meet_window(other, *band)
        if not isinstance(other, Chunk):
            return None
        if other.size == self.size:
            return super().meet(other)
        finer, coarser = sorted((self, other), key=lambda rule: rule.size)
        return finer if (finer.left, finer.right) == (0, 0) and coarser.size % finer.size == 0 else None

    def join(self, other: Visibility) -> Visibility | None:
        if isinstance(other, Chunk) and other.size == self.size:
            return chunk(self.size, left=max(self.left, other.left), right=max(self.right, other.right))
        return None

    def _meet_window(self, other: Visibility, left: Count, right: Count) -> Visibility | None:
        """The rule that shows less, where that is so for a query at either edge of its chunk."""
        if left <= self.left * self.size and right <= self.right * self.size:
            return other
        if left >= (self.left + 1) * self.size - 1 and right >= (self.right + 1) * self.size - 1:
            return self
        return None

    def __repr__(self) -> str:
        if (self.left, self.right) == (0, 0):
            return f"block({self.size})"
        right = f", right={number(self.right)}" if self.right else ""
        return f"chunk({self.size}, left={number(self.left)}{right})"


@dataclass(frozen=True)
class StridedBlock(Visibility):
    size: int
    reads_length = True

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads query key"]:
        groups = -(-at.key_lengths // self.size).clamp(max=-1)
        return at.query % groups == at.key % groups

    def __repr__(self) -> str:
        return f"block({self.size}, strided=True)"


@dataclass(frozen=True)
class Summary(Visibility):
    block: int
    count: int
    by_pair, reads_query_position, _counts = True, False, ("count",)

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads 1 key"]:
        return at.key % self.block >= self.block - self.count

    def reach(self, at: Positions) -> Reach:
        if not at.key.numel():
            return EVERYWHERE
        blocks = range(int(at.key.amin()) // self.block, int(at.key.amax()) // self.block + 1)
        ends = [float((index + 1) * self.block - 1) for index in blocks]
        return Reach(tuple(Span(end - self.count + 1, end) for end in ends))

    def __repr__(self) -> str:
        return f"summary(block={self.block}, count={self.count})"


@dataclass(frozen=True)
class GlobalTokens(Visibility):
    positions: int | tuple[int, ...]
    by_pair = True

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads query key"]:
        return self._among(at.query) | self._among(at.key)

    @property
    def width(self) -> int | float:
        return self.positions if isinstance(self.positions, int) else len(self.positions)

    def reach(self, at: Positions) -> Reach:
        everywhere = torch.where(self._among(at.query), torch.inf, -torch.inf).double()
        rows = Span(-everywhere, everywhere)
        if isinstance(self.positions, int):
            return Reach((rows, Span(0.0, self.positions - 1.0)))
        return Reach((rows, *(Span(float(position), float(position)) for position in self.positions)))

    def join(self, other: Visibility) -> Visibility | None:
        if not isinstance(other, GlobalTokens):
            return None
        both = sorted({*self._listed(), *other._listed()})
        return GlobalTokens(len(both) if both == list(range(len(both))) else tuple(both))

    def onnx(self, graph: Graph, places: Places) -> str:
        """i or j is one of the positions."""
        sides = []
        for place, axis in ((places.query, 1), (places.key, 0)):
            if isinstance(self.positions, int):
                among = graph.op("Less", place, graph.single(self.positions))
            else:
                equal = (graph.op("Equal", place, graph.single(position)) for position in self.positions)
                among = reduce(lambda one, other: graph.op("Or", one, other), equal)
            sides.append(graph.op("Unsqueeze", among, graph.whole(axis)))
        return graph.op("Or", *sides)

    def _listed(self) -> Sequence[int]:
        return range(self.positions) if isinstance(self.positions, int) else self.positions

    def _among(self, places: Int[Tensor, "#batch #heads #query #key"]) -> Bool[Tensor, "#batch #heads #query #key"]:
        if isinstance(self.positions, int):
            return (places >= 0) & (places < self.positions)
        return torch.isin(places, torch.tensor(self.positions, device=places.device))

    def __repr__(self) -> str:
        return f"global_tokens({list(self.positions) if isinstance(self.positions, tuple) else self.positions})"


@dataclass(frozen=True)
class RandomBlocks(Visibility):
    block: int
    count: int
    seed: int
    reads_length, _counts = True, ("count",)  # the longer of two draws begins with the shorter one

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads query key"]:
        visible, key_block = (at.query == at.key) & False, at.key // self.block
        for chosen in self._chosen(at):
            visible = visible | (chosen == key_block)
        return visible

    @property
    def width(self) -> int | float:
        return self.block * self.count

    def reach(self, at: Positions) -> Reach:
        firsts = [chosen.double() * self.block for chosen in self._chosen(at)]
        return Reach(tuple(Span(first, first + self.block - 1) for first in firsts))

    def _chosen(self, at: Positions) -> list[Int[Tensor, "#batch #heads query 1"]]:
        """The first, second … key block that each query sees."""
        keys = -(-at.key_lengths[:, 0, 0, 0] // self.block)
        # Queries of padding may stand before 0; they get what the first block gets.
        own = (at.query // self.block).clamp(min=0)
        queries = int(own.amax()) + 1 if own.numel() else 0
        numbers = keys.tolist() or [0]  # without examples the draw is not used
        table = torch.stack([_drawn(self.seed, self.count, queries, number) for number in numbers])
        table = table.to(at.device)  # batch query_block chosen
        example = torch.arange(len(table), device=at.device)[:, None, None, None]
        return list(table[example, own].unbind(-1))

    def __repr__(self) -> str:
        return f"random_blocks(block={self.block}, count={self.count}, seed={self.seed})"


def block(size: int, *, strided: bool = False) -> Visibility:
    """The sequence is cut into blocks of `size`; a query sees its own block.

    >>> print(block(2).picture(4, 4))
    # # . .
    # # . .
    . . # #
    . . # #
    >>> print(block(2, strided=True).picture(4, 4))
    # . # .
    . # . #
    # . # .
    . # . #

    `strided=True` is what the Long Range Arena's code does under the name of local attention: its reshape groups
    positions that lie a number of blocks apart, so that nothing is local. It exists for comparison. The distance
    follows from an example's own length; the published code includes padding.

    Reference: Tay et al. 2021 (Long Range Arena), "local attention".
    """
    _require_positive("A block", size)
    return StridedBlock(size) if strided else Chunk(size, 0, 0)


def chunk(size: int, *, left: Count = 0, right: Count = 0) -> Visibility:
    """Streaming: a query sees its whole chunk, `left` chunks before it and `right` after; `math.inf` for all.

    >>> print(chunk(2, left=1).picture(6, 6))
    # # . . . .
    # # . . . .
    # # # # . .
    # # # # . .
    . . # # # #
    . . # # # #
    """
    _require_positive("A chunk", size)
    require_counts("A chunk", " chunks", left=left, right=right)
    return everything() if left == right == math.inf else Chunk(size, left, right)


def summary(*, block: int, count: int) -> Visibility:
    """Every query sees the last `count` positions of every block: columns into which others may write summaries.

    >>> print(summary(block=3, count=1).picture(2, 6))
    . . # . . #
    . . # . . #
    """
    require_whole(-math.inf, block=block, count=count)
    if not 0 < count <= block:
        raise ValueError(f"A block of {block} has no {count} last positions: choose 1 to {block}.")
    return Summary(block, count)


def global_tokens(positions: int | Sequence[int]) -> Visibility:
    """A few positions (the first ones, if a number is given) see every position and are visible to every query.

    >>> print(global_tokens(1).picture(3, 4))
    # # # #
    # . . .
    # . . .

    Reference: Beltagy et al. 2020 (Longformer), section 3.1, without their second set of projections.
    """
    which = whole_numbers("positions", positions)
    if min((which,) if isinstance(which, int) else which, default=0) < 0:
        raise ValueError(f"{positions} global tokens are impossible: give 0 or more, or a list of positions.")
    return GlobalTokens(which)


def random_blocks(*, block: int, count: int, seed: int = 0) -> Visibility:
    """Each block of queries sees `count` blocks of keys, drawn once: by `seed`, its number and the number of blocks.

    The draw uses an example's own length, so that padding does not change it.

    >>> print(random_blocks(block=2, count=1, seed=1).picture(6, 6))
    . . # # . .
    . . # # . .
    . . . . # #
    . . . . # #
    . . # # . .
    . . # # . .

    Reference: Zaheer et al. 2020 (BigBird), section 2.
    """
    _require_positive("A block", block)
    require_whole(0, count=count)
    require_whole(-(2**63), seed=seed)
    return RandomBlocks(block, count, seed)


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
    near = Window(window // 2, window // 2)
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
        return Window(block, block) | dilated(left=math.inf, right=math.inf, step=block)
    return Chunk(block, 0, 0) | summary(block=block, count=summaries)


@lru_cache(maxsize=256)
def _drawn(seed: int, count: int, query_blocks: int, key_blocks: int) -> Int[Tensor, "query_block chosen"]:
    """For each block of queries, the key blocks with the smallest of their pseudo-random numbers; −1 for none."""
    query, key = torch.arange(query_blocks), torch.arange(key_blocks)
    mixed = _mixed(_mixed(_mixed(torch.tensor(seed)) ^ query[:, None]) ^ key)
    chosen = mixed.argsort(dim=-1)[:, :count]
    return torch.nn.functional.pad(chosen, (0, count - chosen.shape[1]), value=-1)


def _mixed(number: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """A pseudo-random non-negative integer for each integer, the same on every machine (as in splitmix64)."""
    number = number * -7046029254386353131 + 1442695040888963407
    number = (number ^ ((number >> 30) & 0x3FFFFFFFF)) * -4658895280553007687
    number = (number ^ ((number >> 27) & 0x1FFFFFFFFF)) * -7723592293110705685
    return ((number ^ ((number >> 31) & 0x1FFFFFFFF)) >> 2) & 0x1FFFFFFFFFFFFFFF


def _require_positive(what: str, size: int) -> None:
    require_whole(-math.inf, size=size)
    if size < 1:
        raise ValueError(f"{what} has {size} positions: at least 1 is needed.")
