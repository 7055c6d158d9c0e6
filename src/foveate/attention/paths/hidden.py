"""Hidden pairs: masks as kernels need them, kept for all layers and steps with the same positions, and the treatment of
keys and values that not all queries see. Nothing hidden may leak.
"""

import ctypes
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int32
from torch import Tensor

from foveate import native
from foveate.attention.paths.path import context_type
from foveate.attention.position import Positions, traced, transformed
from foveate.attention.visibility import Visibility

KEPT = 2**22
"""Size of a mask up to which it is kept with its positions. A larger one is made for each call, a small part of its
time; kept, it would hold memory quadratic in the length for as long as the positions live."""

BLOCK = 2**20
"""Pairs per call of a rule, about."""


def nothing_to_silence(visibility: Visibility, at: Positions) -> bool:
    """Whether every key is seen by some query, or holds zeros already."""
    if (band := visibility.band) is not None:
        return band[0] == math.inf and (band[1] == math.inf or at.aligned or at.zeroed)
    return at.zeroed and visibility.pads


def silence(
    visible: Bool[Tensor, "#batch #heads #query #key"], *tensors: Float[Tensor, "batch heads key _"]
) -> tuple[Tensor, ...]:
    """Zero the rows that no query sees: 0 · NaN is NaN, in the product and in the gradient."""
    if each_sees_itself(visible):
        return tensors
    visible_keys = visible if visible.shape[-2] == 1 else visible.any(-2, keepdim=True)
    return tuple(torch.where(visible_keys.mT, tensor, 0.0) for tensor in tensors)


def each_sees_itself(visible: Bool[Tensor, "#batch #heads #query #key"]) -> bool:
    """Whether the i-th query sees the i-th key: then no row is empty and no key is hidden. This is quick to compute."""
    square = visible.shape[-2] == visible.shape[-1] > 1
    return square and not transformed() and bool(visible.diagonal(dim1=-2, dim2=-1).all())


def finite(*tensors: Tensor) -> bool:
    """Whether all entries are finite, and so far from overflow that products with queries and gradients are, too.

    The kernel looks for numbers from 2⁶⁰ on; a norm overflows near 2⁶⁴. A False that is not necessary costs only time.
    """
    return all(map(_finite, tensors))


def _finite(tensor: Tensor) -> bool:
    if transformed():
        return False
    width = _WIDTHS.get(tensor.dtype)
    if width and tensor.is_cpu and not traced() and (kernel := _kernel()) is not None:
        if tensor.is_contiguous():
            return bool(kernel(tensor.data_ptr(), width, 1, 1, 1, tensor.numel(), 0, 0, 0))
        if tensor.dim() == 4 and tensor.stride(3) == 1:
            return bool(kernel(tensor.data_ptr(), width, *tensor.shape, *tensor.stride()[:3]))
    return math.isfinite(torch.linalg.vector_norm(tensor.detach()).item())


_WIDTHS = {torch.float32: 4, torch.bfloat16: 2}


@functools.cache
def _kernel() -> Callable[..., int] | None:
    library = native.load("foveate.attention.paths", "hidden.cpp").library
    if library is None:
        return None
    library.moderate.argtypes = (ctypes.c_void_p, *(ctypes.c_int64,) * 8)
    moderate: Callable[..., int] = library.moderate
    return moderate


def weigh(
    weights: Float[Tensor, "batch heads query key"],
    value: Float[Tensor, "batch heads key value_head_dim"],
    visible: Bool[Tensor, "#batch #heads #query #key"],
) -> Float[Tensor, "batch heads query value_head_dim"]:
    """Σ_j α_ij v_j over the visible j only: a value that is not finite reaches exactly the queries that see it."""
    if visible.shape[-2] == 1 or finite(value):
        return weights @ value
    # Zeros before the product and not after it: weights have gradients, too.
    weighed = weights[..., None] * torch.where(visible[..., None], value[..., None, :, :], 0.0)
    return weighed.sum(-2).to(context_type(value))


@dataclass(frozen=True, eq=False)
class RuleMask:
    """The keys that each query sees, in the forms that kernels read."""

    visible: Bool[Tensor, "#batch #heads #query #key"]
    lasts: bool = False
    """Whether it is kept with the positions, so that its other forms are worth keeping too."""
    _forms: dict[object, Tensor] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, rule: Visibility, at: Positions) -> "RuleMask":
        """The answer of a rule; kept with the positions where it is small and does not change."""

        def kept() -> RuleMask | None:
            return cls(rule(at), lasts=not traced()) if _size(rule, at) <= KEPT else None

        mask = at.known(rule, kept) if rule.lasting else None
        return cls(_in_blocks(rule, at)) if mask is None else mask

    @cached_property
    def whole(self) -> bool:
        """Whether nothing is hidden; False where that is not worth computing."""
        return self.lasts and bool(self.visible.all())

    @cached_property
    def sighted(self) -> Bool[Tensor, "#batch #heads #query 1"] | None:
        """The queries that see a key at all; None where all do."""
        if traced():
            return self.visible.any(-1, keepdim=True)
        if each_sees_itself(self.visible):
            return None
        sighted = self.visible.any(-1, keepdim=True)
        return None if not transformed() and bool(sighted.all()) else sighted

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
        """The mask with no axis to broadcast but the heads', as torch's kernels need it. A mask for one call only is
        Bool, because floats are four times as large.
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
    """The answer of a rule, for some queries at a time, because distances take 8 bytes a pair."""
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
    """The size of a rule's answer."""
    parts = [part for part in (at.query, at.key, at.real) if part is not None]
    matrices = max(part.shape[0] for part in parts) * max(part.shape[1] for part in parts)
    return matrices * (at.query.shape[2] if rule.reads_query_position else 1) * at.key.shape[-1]
