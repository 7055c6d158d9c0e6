"""Converts masks of other libraries to rules: windows if possible, otherwise bits."""

from typing import Any

import torch
from torch import Tensor

from foveate.inspect.trace.conversion import BITS, bits, require_small


def visibility_of(
    mask: Tensor | None, causal: bool, queries: int, keys: int, start: int = 0
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The visibility of a mask `1|heads query key`: True or a float near 0 where a query may look.

    >>> code, tensors = visibility_of(torch.ones(1, 3, 3).tril().bool(), False, 3, 3)
    >>> code, list(tensors)
    ({'code': 'causal()', 'native': {'left': None, 'right': 0}}, [])
    """
    if mask is None:
        return _window(None, 0 if causal else None), {}
    visible = (mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2).cpu()
    visible = visible[..., :queries, :keys].expand(-1, queries, keys)
    if len(visible) == 1 or bool((visible == visible[:1]).all()):
        both = _as_window(visible[0], start)
        if both is not None:
            window, real = both
            return window, {} if bool(real.all()) else {"real": real}
        visible = visible[:1]
    require_small("This mask", queries, keys, BITS)
    return {"code": "given mask", "native": None}, {"visible": bits(visible)}


def _as_window(visible: Tensor, start: int) -> tuple[dict[str, Any], Tensor] | None:
    """The simplest window that equals the mask on keys that any query sees; None if no window does."""
    real = visible.any(0)
    offset = torch.arange(visible.shape[1]) - (start + torch.arange(visible.shape[0]))[:, None]
    inside = offset[visible]
    left, right = (-int(inside.min()), int(inside.max())) if inside.numel() else (0, 0)
    bounds: tuple[tuple[int | None, int | None], ...] = ((None, None), (None, max(right, 0)), (max(left, 0), None))
    for first, last in (*bounds, (max(left, 0), max(right, 0))):
        near = real.expand_as(visible)
        if first is not None:
            near = near & (offset >= -first)
        if last is not None:
            near = near & (offset <= last)
        if torch.equal(near, visible):
            return _window(first, last, "" if bool(real.all()) else "padding()"), real
    return None


def _window(left: int | None, right: int | None, more: str = "") -> dict[str, Any]:
    bounds = ["math.inf" if bound is None else str(bound) for bound in (left, right)]
    code = f"window(left={bounds[0]}, right={bounds[1]})"
    if left is None and right in (None, 0):
        code = "everything()" if right is None else "causal()"
    both = [part for part in (code if code != "everything()" or not more else "", more) if part]
    return {"code": " & ".join(both), "native": {"left": left, "right": right}}


def bias_of(
    mask: Tensor | None, bias: Tensor | None, example: int, queries: int, keys: int, start: int = 0
) -> tuple[dict[str, Any] | None, dict[str, Tensor]]:
    """The sum of a mask of floats and a bias: a table by distance if possible, otherwise pair by pair."""
    added = None
    if mask is not None and mask.is_floating_point():
        floats = mask[..., :queries, :keys].float().cpu()
        added = torch.where(floats > torch.finfo(mask.dtype).min / 2, floats, 0.0)
        added = added if bool(added.any()) else None
    if bias is not None:
        own = bias[example if len(bias) > 1 else 0, :, -queries:, :keys].float().cpu()
        added = own if added is None else added + own
    if added is None:
        return None, {}
    table = _by_distance(added)
    if table is not None:
        return {"kind": "distance", "first": 1 - queries - start}, {"bias": table}
    require_small("This bias", queries, keys)
    return {"kind": "dense"}, {"bias": added.expand(-1, queries, keys).contiguous()}


def _by_distance(bias: Tensor) -> Tensor | None:
    """The numbers along the diagonals, if each diagonal has one."""
    if bias.shape[1] > 1 and bias.shape[2] > 1 and not torch.equal(bias[:, 1:, 1:], bias[:, :-1, :-1]):
        return None
    return torch.cat([bias[:, :, 0].flip(1), bias[:, 0, 1:]], 1).contiguous()
