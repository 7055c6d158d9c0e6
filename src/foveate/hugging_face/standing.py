"""The demands of one call of a guest model: positions, rule, scale, cap and added floats."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from foveate.attention import Positions, Visibility, everything, window


class Demand(NamedTuple):
    """The demands that determine the formula, without the tensors of one call."""

    rule: Visibility
    scale: float | None
    cap: float | None
    biased: bool
    sunk: int | None
    """The id of the tensor of sinks."""


@dataclass(frozen=True, eq=False)
class Standing(Positions):
    """Positions with the demands of a call. Slicing positions also slices the demands for pairs.

    >>> at = Standing.between(query=2, key=3, query_start=1, rule=everything())
    >>> at.rows(slice(1, 2)).query.item(), at.demand.rule
    (2, everything())
    """

    rule: Visibility = everything()
    whole: Visibility | None = None
    """The rule for all lengths, if `rule` is a simpler one that is equal at this length."""
    scale: float | None = None
    """The factor of q · k; None means 1/√d."""
    cap: float | None = None
    """The limit of scores: tanh maps them into (−cap, cap)."""
    sinks: Float[Tensor, " heads"] | None = None
    """For each head, the score of an additional key without a value."""
    shown: Bool[Tensor, "#batch #heads #query #key"] | None = None
    """The visibility of every pair, which the rule `given()` reads."""
    added: Float[Tensor, "#batch #heads #query #key"] | None = None
    """Floats added to scores."""

    @classmethod
    def between(
        cls, query: int, key: int, *, query_start: int = 0, key_start: int = 0, device: Any = None, **demands: Any
    ) -> "Standing":
        """Consecutive queries and consecutive keys."""
        queries = torch.arange(query_start, query_start + query, device=device)[None, None, :, None]
        keys = torch.arange(key_start, key_start + key, device=device)[None, None, None]
        aligned = query == key and query_start == key_start == 0
        return cls(queries, keys, aligned=aligned, **demands)

    def simplified(self) -> "Standing":
        """A simpler rule for windows that contain all keys: a decoder's step under causal() sees everything.

        >>> Standing.between(query=1, key=5, query_start=4, rule=window(left=9, right=0)).simplified().rule
        everything()
        """
        rule, band = self.rule, self.rule.band
        if band is None or not rule.hides or not self.query.numel() or not self.key.numel():
            return self
        left, right = band
        first, last = (int(self.query[0, 0, place, 0]) for place in (0, -1))
        low, high = (int(self.key[0, 0, 0, place]) for place in (0, -1))
        if left < last - low:
            return self  # a band, which needs both sides
        return replace(self, rule=window(left=math.inf, right=right if right < high - first else math.inf), whole=rule)

    @property
    def demand(self) -> Demand:
        sunk = None if self.sinks is None else id(self.sinks)
        return Demand(self.rule, self.scale, self.cap, self.added is not None, sunk)

    def rows(self, rows: slice) -> "Standing":
        cut = Positions.rows(self._bare, rows)
        return _with(cut, self, lambda pairs: pairs if pairs.shape[2] == 1 else pairs[:, :, rows])

    def columns(self, columns: slice) -> "Standing":
        cut = Positions.columns(self._bare, columns)
        return _with(cut, self, lambda pairs: pairs if pairs.shape[3] == 1 else pairs[..., columns])

    def select(self, examples: Tensor) -> "Standing":
        chosen = Positions.select(self._bare, examples)
        return _with(chosen, self, lambda pairs: pairs if pairs.shape[0] == 1 else pairs[examples])

    def followed_by(self, later: Positions) -> "Standing":
        assert isinstance(later, Standing)
        joined = Positions.followed_by(self._bare, later._bare)
        parts: dict[str, Any] = {name: _below(getattr(self, name), getattr(later, name), self, later) for name in PAIRS}
        assert isinstance(joined, Standing)
        return replace(joined, **parts)

    def tensors(self) -> tuple[Tensor | None, ...]:
        return (*super().tensors(), self.sinks, self.shown, self.added)

    @property
    def _bare(self) -> "Standing":
        """The positions without the demands for pairs, which are sliced separately."""
        return replace(self, shown=None, added=None)


PAIRS = ("shown", "added")


def _with(at: Positions, before: Standing, cut: Callable[[Tensor], Tensor]) -> Standing:
    parts = {name: getattr(before, name) for name in PAIRS}
    chosen: dict[str, Any] = {name: None if part is None else cut(part) for name, part in parts.items()}
    assert isinstance(at, Standing)
    return replace(at, **chosen)


def _below(earlier: Tensor | None, later: Tensor | None, one: Standing, other: Standing) -> Tensor | None:
    """Concatenate the pairs of earlier and later queries. New keys are hidden from the earlier queries."""
    if earlier is None or later is None:
        return None
    keys = other.key.shape[3]
    parts: Sequence[Tensor] = [
        torch.nn.functional.pad(
            part.expand(*part.shape[:2], at.query.shape[2], at.key.shape[3]), (0, keys - at.key.shape[3])
        )
        for part, at in ((earlier, one), (later, other))
    ]
    return torch.cat(list(parts), 2)
