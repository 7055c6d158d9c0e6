"""The reach of a rule: spans of key positions; a query sees nothing outside them."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from foveate.attention.position import Positions

MANY = 64
"""Spans beyond which an intersection keeps only the shorter list."""


@dataclass(frozen=True, eq=False)
class Span:
    """The positions from `first` to `last`, both included; nothing where first > last. One number for all queries, or
    one for each: `#batch #heads query 1`.
    """

    first: Tensor | float
    last: Tensor | float

    @property
    def unbounded(self) -> bool:
        bounds = (self.first, self.last)
        return all(isinstance(bound, float) for bound in bounds) and bounds == (-math.inf, math.inf)


@dataclass(frozen=True, eq=False)
class Reach:
    """A few spans, which may overlap."""

    spans: tuple[Span, ...]

    @property
    def unbounded(self) -> bool:
        return any(span.unbounded for span in self.spans)

    def hull(self, at: Positions) -> tuple[Tensor, Tensor]:
        """The smallest first and the largest last position of each query."""
        firsts, lasts = [_number(math.inf, at)], [_number(-math.inf, at)]
        for span in self.spans:
            first, last = _number(span.first, at), _number(span.last, at)
            empty = first > last
            firsts.append(torch.where(empty, math.inf, first))
            lasts.append(torch.where(empty, -math.inf, last))
        first = torch.stack(torch.broadcast_tensors(*firsts)).amin(0)
        last = torch.stack(torch.broadcast_tensors(*lasts)).amax(0)
        return first, last


EVERYWHERE = Reach((Span(-math.inf, math.inf),))
NOWHERE = Reach(())


def union(one: Reach, other: Reach) -> Reach:
    if one.unbounded or other.unbounded:
        return EVERYWHERE
    return Reach(one.spans + other.spans)


def intersection(one: Reach, other: Reach, at: Positions) -> Reach:
    if one.unbounded or other.unbounded:
        return other if one.unbounded else one
    if len(one.spans) * len(other.spans) > MANY:
        return min(one, other, key=lambda reach: len(reach.spans))
    return Reach(tuple(_both(a, b, at) for a in one.spans for b in other.spans))


def _both(one: Span, other: Span, at: Positions) -> Span:
    first = torch.maximum(_number(one.first, at), _number(other.first, at))
    last = torch.minimum(_number(one.last, at), _number(other.last, at))
    return Span(first, last)


def _number(value: Tensor | float, at: Positions) -> Tensor:
    """In float64, which holds every position and infinity."""
    if isinstance(value, Tensor):
        return value.to(torch.float64)
    return torch.full((1, 1, 1, 1), value, dtype=torch.float64, device=at.device)
