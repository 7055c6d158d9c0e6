"""What a rule answers at some positions, as kernels need it: made once for all layers and steps that stand there."""

from dataclasses import dataclass, field
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int32
from torch import Tensor

from foveate.attention.paths.hidden import each_sees_itself
from foveate.attention.position import Positions, traced
from foveate.attention.visibility import Visibility

KEPT = 2**22
"""Numbers of a mask up to which it is kept with its positions. A larger one is made for each call: beside the time of
such a call that is little, and memory would be quadratic in the length for as long as the positions live."""

BLOCK = 2**20
"""Pairs about which a rule is asked at a time."""


@dataclass(frozen=True, eq=False)
class RuleMask:
    """Which queries see which keys, with what follows from it."""

    visible: Bool[Tensor, "#batch #heads #query #key"]
    lasts: bool = False
    """Whether it is kept with the positions, so that its other forms are worth keeping too."""
    _forms: dict[object, Tensor] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, rule: Visibility, at: Positions) -> "RuleMask":
        """The answer of a rule; kept with the positions where it is small and does not change."""

        def lasting() -> RuleMask | None:
            return cls(rule(at), lasts=not traced()) if _size(rule, at) <= KEPT else None

        mask = at.known(rule, lasting) if rule.lasting else None
        return cls(_in_blocks(rule, at)) if mask is None else mask

    @cached_property
    def whole(self) -> bool:
        """Whether nothing is hidden; False where that is not worth computing."""
        return self.lasts and bool(self.visible.all())

    @cached_property
    def sighted(self) -> Bool[Tensor, "#batch #heads #query 1"] | None:
        """Which queries see a key at all; None where all do."""
        if traced():
            return self.visible.any(-1, keepdim=True)
        if each_sees_itself(self.visible):
            return None
        sighted = self.visible.any(-1, keepdim=True)
        return None if bool(sighted.all()) else sighted

    @cached_property
    def stretches(self) -> Int32[Tensor, "#batch #heads #query 2"] | None:
        """The first key that each query sees and the one after the last; None where some row has gaps between them."""
        visible = self.visible
        if visible.shape[-1] <= 1 or traced():
            return None
        count = visible.sum(-1)
        first = visible.to(torch.uint8).argmax(-1)
        last = visible.shape[-1] - visible.flip(-1).to(torch.uint8).argmax(-1)
        if not bool(((last - first == count) | (count == 0)).all()):
            return None
        return torch.stack([first, torch.where(count == 0, first, last)], -1).int().contiguous()

    def mask(self, dtype: torch.dtype) -> Float[Tensor, "#batch #heads #query #key"]:
        """−∞ where nothing is seen, 0 elsewhere. An empty row is left open, to be zeroed afterwards: a row of −∞ alone
        has NaN gradients.
        """
        mask = self._forms.get(dtype)
        if mask is None:
            closed = ~self.visible if self.sighted is None else self.sighted & ~self.visible
            mask = torch.zeros_like(self.visible, dtype=dtype).masked_fill_(closed, -torch.inf)
            self._keep(dtype, mask)
        return mask

    def over(
        self, batch: int, queries: int, keys: int, dtype: torch.dtype
    ) -> Float[Tensor, "batch #heads query key"] | Bool[Tensor, "batch #heads query key"]:
        """The mask with no axis left to broadcast but the heads', as torch's kernels need it. Bool where it is made for
        one call only, because floats are four times as large.
        """
        if not self.lasts:
            shown = self.visible if self.sighted is None else self.visible | ~self.sighted
            return shown.expand(batch, -1, queries, keys)
        kind = (batch, dtype)
        mask = self._forms.get(kind)
        if mask is None:
            mask = self.mask(dtype).expand(batch, -1, queries, keys)
            self._keep(kind, mask)
        return mask

    def flat(self, batch: int, heads: int, dtype: torch.dtype) -> Float[Tensor, "#matrices #query #key"]:
        """The mask for batch · heads products; left as one where all share it."""
        kind = (batch, heads, dtype)
        mask = self._forms.get(kind)
        if mask is None:
            mask = flat(self.mask(dtype), batch, heads)
            if mask.numel() <= KEPT:
                self._keep(kind, mask)
        return mask

    def _keep(self, kind: object, mask: Tensor) -> None:
        if self.lasts:
            self._forms[kind] = mask


def _in_blocks(rule: Visibility, at: Positions) -> Bool[Tensor, "#batch #heads #query #key"]:
    """The answer of a rule, some queries at a time: distances take 8 bytes a pair, and need not all exist at once."""
    queries, rows = at.query.shape[-2], max(1, BLOCK // max(1, at.key.shape[-1]))
    if queries <= rows or traced():
        return rule(at)
    visible = None
    for start in range(0, queries, rows):
        here = slice(start, min(start + rows, queries))
        part = rule(at.rows(here))
        if part.shape[-2] == 1:
            return rule(at)
        if visible is None:
            visible = part.new_empty(*part.shape[:2], queries, part.shape[3])
        visible[:, :, here] = part
    assert visible is not None
    return visible


def mask_of(rule: Visibility, at: Positions) -> RuleMask | None:
    """The mask of a rule; None where it is known to hide nothing."""
    if not rule.hides:
        return None
    mask = RuleMask.of(rule, at)
    return None if mask.whole else mask


def flat(bias: Float[Tensor, "#batch #heads #query #key"], batch: int, heads: int) -> Tensor:
    """A bias for batch · heads products; left as one where all share it."""
    if bias.shape[0] == bias.shape[1] == 1:
        return bias[0]
    return bias.expand(batch, heads, *bias.shape[2:]).flatten(0, 1)


def _size(rule: Visibility, at: Positions) -> int:
    """How many numbers the answer of a rule has."""
    parts = [part for part in (at.query, at.key, at.real) if part is not None]
    matrices = max(part.shape[0] for part in parts) * max(part.shape[1] for part in parts)
    return matrices * (at.query.shape[2] if rule.reads_query_position else 1) * at.key.shape[-1]
