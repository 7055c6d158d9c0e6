"""Short sequences on a CPU in one kernel each way (`short.cpp`), which does not read hidden keys and values.

These need not be zeroed or searched for NaN. In place of a mask, the kernel gets the stretch of keys that each query
sees.
"""

import ctypes
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from foveate import native
from foveate.attention.paths.derivative import by_definition
from foveate.attention.paths.dot import Dots, attended, dot_product_reasons, dots
from foveate.attention.paths.hidden import mask_of
from foveate.attention.paths.path import Cost, Formula, Inputs, ShippedPath, tracing_reasons
from foveate.attention.paths.plain_product import ProductPath
from foveate.attention.position import Positions
from foveate.attention.visibility import TRIANGLE, Visibility

LONGEST = 512
"""With more keys, products of matrices were faster on every machine that was measured."""


TYPES = (torch.float32, torch.bfloat16)


class ShortPath(ShippedPath):
    """Dot products under softmax, for rules by which a query sees one stretch of keys."""

    name = "short"
    by_kind = True

    def refuses(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> list[str]:
        reasons = dot_product_reasons(formula, query, key)
        if formula.bias is not None:
            reasons.append("made for attention without a bias")
        if query.device.type != "cpu" or query.dtype not in TYPES:
            reasons.append(f"made for float32 and bfloat16 on CPUs, not for {query.dtype} on {query.device.type}")
        if query.shape[3] % 16 or query.shape[3] > 256:
            reasons.append(f"made for heads of 16, 32, … 256 numbers, not of {query.shape[3]}")
        if key.shape[2] > LONGEST:
            reasons.append(f"made for up to {LONGEST} keys, not for {key.shape[2]}")
        reasons += tracing_reasons()
        if not formula.visibility.gapless:
            reasons.append(f"{formula.visibility} leaves gaps")
        if not reasons and native.load(*_FILE).library is None:
            reasons.append("needs a C++ compiler")
        return reasons

    def cost(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> Cost:
        pairs = query.shape[0] * query.shape[1] * query.shape[2] * _seen_by_each(formula.visibility, key.shape[2], at)
        room = 4.0 * (query.numel() + 4 * key.numel()) / max(query.shape[0], 1)
        return Cost(4.0 * pairs * key.shape[3], room)

    def context(self, inputs: Inputs) -> Tensor:
        rule, at = inputs.formula.visibility, inputs.at
        causal = at.aligned and rule.band == TRIANGLE
        shown = None if causal else mask_of(rule, at)
        visible, ranges = (None, None) if shown is None else (shown.visible, shown.stretches)
        multiplied = dots(inputs, visible, reads_hidden=False)
        if inputs.dropout or (shown is not None and ranges is None) or not _fits(multiplied):
            # Dropped weights, padding with gaps and values of another width are left to another path.
            return _FALLBACK.context(inputs)
        query, key, value, scale = multiplied
        if query.stride(3) != 1 or key.stride(3) != 1 or value.stride(3) != 1:
            query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
        if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad):
            context: Tensor = _Short.apply(query, key, value, ranges, causal, scale)
            return context
        return _forward(query, key, value, ranges, causal, scale)


def _fits(multiplied: Dots) -> bool:
    query, key, value, _ = multiplied
    alike = query.shape[3] == value.shape[3] and query.dtype == key.dtype == value.dtype
    # Features may have another width than the query, and autocast another type.
    alike = alike and query.shape[3] % 16 == 0 and query.shape[3] <= 256 and query.dtype in TYPES
    tangents = forward_ad._current_level >= 0  # the kernel would lose them
    return alike and not tangents and query.numel() > 0 and key.numel() > 0


def _seen_by_each(rule: Visibility, keys: int, at: Positions) -> float:
    """The mean number of keys that a query sees, and the kernel reads."""
    if at.aligned and rule.band == TRIANGLE:
        return (keys + 1) / 2
    shown = mask_of(rule, at) if keys <= LONGEST and rule.gapless else None
    if shown is None or not shown.lasts or shown.stretches is None:
        return float(keys)
    return float((shown.stretches[..., 1] - shown.stretches[..., 0]).float().mean())


def _forward(query: Tensor, key: Tensor, value: Tensor, ranges: Tensor | None, causal: bool, scale: float) -> Tensor:
    """The context, heads beside each other as an output projection reads them."""
    batch, heads, queries, dim = query.shape
    context = query.new_empty(batch, queries, heads, dim).transpose(1, 2)
    _kernel("forward_alike")(
        _sizes(query, key, ranges, causal, value, context),
        scale,
        None if ranges is None else ranges.data_ptr(),
        query.data_ptr(),
        key.data_ptr(),
        value.data_ptr(),
        context.data_ptr(),
    )
    return context


class _Short(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, ranges: Tensor | None, causal: bool, scale: float
    ) -> Tensor:
        ctx.save_for_backward(query, key, value, ranges)
        ctx.causal, ctx.scale = causal, scale
        return _forward(query, key, value, ranges, causal, scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, ranges = ctx.saved_tensors
        if torch.is_grad_enabled():
            defined = partial(_defined, ranges, ctx.causal, ctx.scale)
            return (*by_definition(defined, (query, key, value), grad), None, None, None)
        grad = grad if grad.stride(3) == 1 else grad.contiguous()
        grads = [torch.empty_like(tensor) for tensor in (query, key, value)]
        sizes = _sizes(query, key, ranges, ctx.causal, value, grad, *grads)
        stretches = None if ranges is None else ranges.data_ptr()
        places = [tensor.data_ptr() for tensor in (query, key, value, grad, *grads)]
        _kernel("backward_alike")(sizes, ctx.scale, stretches, *places)
        return (*grads, None, None, None)


def _defined(ranges: Tensor | None, causal: bool, scale: float, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    place = torch.arange(key.shape[2])
    visible = None
    if ranges is not None:
        visible = (place >= ranges[..., :1]) & (place < ranges[..., 1:])
    elif causal:
        visible = (place <= torch.arange(query.shape[2])[:, None])[None, None]
    return attended(query, key, value, scale, visible=visible)


def _sizes(
    query: Tensor, key: Tensor, ranges: Tensor | None, causal: bool, *others: Tensor
) -> ctypes.Array[ctypes.c_int64]:
    """`Alike` of short.cpp; the same for all calls of a kind."""
    stretches = None if ranges is None else (ranges.shape, ranges.stride())
    half, steps = query.dtype is torch.bfloat16, tuple(other.stride() for other in others)
    kind = (
        query.shape,
        key.shape,
        half,
        causal,
        torch.get_num_threads(),
        stretches,
        query.stride(),
        key.stride(),
        steps,
    )
    known = _KNOWN.get(kind)
    if known is None:
        if len(_KNOWN) >= KINDS:
            _KNOWN.clear()
        known = _KNOWN[kind] = _alike(*kind)
    return known


KINDS = 4096
"""Number of kinds of calls whose sizes are kept."""
_KNOWN: dict[object, ctypes.Array[ctypes.c_int64]] = {}


def _alike(
    shape: torch.Size, looked_at: torch.Size, half: bool, causal: bool, threads: int, stretches: Any, *strides: Any
) -> ctypes.Array[ctypes.c_int64]:
    batch, heads, queries, dim = shape
    query, key, others = strides
    numbers = [batch, heads, queries, looked_at[2], dim, causal, half, threads]
    # The step is 0 along an axis that shares its stretch.
    numbers += (
        [0] * 3 if stretches is None else [0 if size == 1 else step for size, step in zip(*stretches, strict=True)][:3]
    )
    for steps in (query, key, *others):
        numbers += steps[:3]
    return (ctypes.c_int64 * len(numbers))(*numbers)


@cache
def _kernel(name: str) -> Any:
    function = getattr(native.load(*_FILE).library, name)
    function.argtypes = (ctypes.c_void_p, ctypes.c_double, *(ctypes.c_void_p,) * (5 if "forward" in name else 8))
    function.restype = None
    return function


_FILE = ("foveate.attention.paths", "short.cpp")
_FALLBACK = ProductPath()
