"""Rules about which sequence, and which part of it, a key belongs to."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int, Integer
from torch import Tensor

from foveate.attention.check import lengths as lengths_of
from foveate.attention.check import whole_numbers
from foveate.attention.position import Positions
from foveate.attention.visibility.reach import Reach, Span
from foveate.attention.visibility.rule import Everything, Visibility


@dataclass(frozen=True, eq=False)
class Padding(Visibility):
    lengths: Integer[Tensor, " batch"] | None = None
    gapless, reads_query_position = True, False

    @property
    def pads(self) -> bool:
        return self.lengths is None

    by_pair = pads

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads 1 #key"]:
        if self.lengths is None:
            return Everything()(at) if at.real is None else at.real
        here, keys = at.key.shape[-1], at.all_keys
        if self.lengths.numel() and int(self.lengths.max()) > keys:
            raise ValueError(
                f"`key` has {keys} positions, but padding(lengths) names a sequence of {int(self.lengths.max())}. "
                "Pass the keys' lengths, not the queries'."
            )
        place = at.first_key + torch.arange(here, device=at.device)
        return (place < self.lengths.to(at.device)[:, None])[:, None, None, :]

    def _listed(self) -> list[int] | None:
        return None if self.lengths is None else self.lengths.tolist()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Padding) and self._listed() == other._listed()

    def __hash__(self) -> int:
        return hash(None if self.lengths is None else tuple(self.lengths.tolist()))

    def __repr__(self) -> str:
        return "padding()" if self.lengths is None else f"padding({self._listed()})"


@dataclass(frozen=True)
class Prefix(Visibility):
    length: int | tuple[int, ...]
    gapless, reads_query_position, _counts = True, False, ("length",)

    @property
    def by_pair(self) -> bool:
        return isinstance(self.length, int)

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads 1 key"]:
        return at.key < self._length(at)

    @property
    def width(self) -> int | float:
        return self.length if isinstance(self.length, int) else max(self.length)

    def reach(self, at: Positions) -> Reach:
        return Reach((Span(-math.inf, self._length(at) - 1),))

    def meet(self, other: Visibility) -> Visibility | None:
        return super().meet(other) if self.by_pair and other.by_pair else None

    def join(self, other: Visibility) -> Visibility | None:
        return super().join(other) if self.by_pair and other.by_pair else None

    def _length(self, at: Positions) -> Int[Tensor, "#batch 1 1 1"]:
        return torch.tensor(self.length, device=at.device).reshape(-1, 1, 1, 1)

    def __repr__(self) -> str:
        return f"prefix({list(self.length) if isinstance(self.length, tuple) else self.length})"


@dataclass(frozen=True)
class SameSegment(Visibility):
    by_pair = True

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads query key"]:
        if at.query_segment is None or at.key_segment is None:
            missing = "query_segment" if at.query_segment is None else "key_segment"
            raise ValueError(
                f"same_segment() compares segments, but `at` has no {missing}. "
                "Pass at=Positions(..., query_segment=..., key_segment=...)."
            )
        return at.query_segment == at.key_segment

    def __repr__(self) -> str:
        return "same_segment()"


def padding(lengths: Integer[Tensor, " batch"] | Sequence[int] | None = None) -> Visibility:
    """Real keys are visible, padding is not.

    Without `lengths` the rule reads `Positions.real`, so that one rule serves every batch of a model;
    with `lengths` it holds for one right-padded batch, for use by hand.

    >>> print(padding(torch.tensor([2])).picture(2, 4))
    # # . .
    # # . .
    """
    return Padding(None if lengths is None else lengths_of("lengths", lengths))


def prefix(length: int | Sequence[int]) -> Visibility:
    """Every query sees the first `length` positions: one number, or one for each example.

    A language model that reads a prompt in both directions is a union:

    >>> from foveate.attention import causal
    >>> print((causal() | prefix(3)).picture(5, 5))
    # # # . .
    # # # . .
    # # # . .
    # # # # .
    # # # # #

    Reference: Raffel et al. 2020 (T5), figure 4, "causal with prefix".
    """
    lengths = whole_numbers("length", length)
    if lengths == () or min((lengths,) if isinstance(lengths, int) else lengths) < 0:
        raise ValueError(f"A prefix has {length} positions: give 0 or more, or one such number for each example.")
    return Prefix(lengths)


def same_segment() -> Visibility:
    """Several sequences packed into one row: a query sees the keys of its own sequence.

    >>> which = torch.tensor([0, 0, 1, 1, 1])
    >>> at = Positions(
    ...     query=torch.arange(5)[None, None, :, None], key=torch.arange(5)[None, None, None],
    ...     query_segment=which[None, None, :, None], key_segment=which[None, None, None],
    ... )
    >>> same_segment()(at)[0, 0].int().tolist()
    [[1, 1, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 1, 1, 1], [0, 0, 1, 1, 1], [0, 0, 1, 1, 1]]
    """
    return SameSegment()
