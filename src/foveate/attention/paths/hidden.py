"""Nothing hidden may leak: how every path treats keys and values that not all queries see."""

import ctypes
import functools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from foveate import native
from foveate.attention.paths.derivative import by_definition
from foveate.attention.position import Positions, traced
from foveate.attention.visibility import Visibility


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
    """Whether the i-th query sees the i-th key: then no row is empty and no key unseen. Cheaper to ask than either."""
    square = visible.shape[-2] == visible.shape[-1] > 1
    return square and bool(visible.diagonal(dim1=-2, dim2=-1).all())


def finite(*tensors: Tensor) -> bool:
    """Whether all entries are finite, and so far from overflow that products with queries and gradients are, too.

    The kernel looks for numbers from 2⁶⁰ on, a norm overflows near 2⁶⁴; a no without need costs only time.
    """
    return all(map(_finite, tensors))


def _finite(tensor: Tensor) -> bool:
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
    return (weights[..., None] * torch.where(visible[..., None], value[..., None, :, :], 0.0)).sum(-2)


# ---- a few queries on a CPU, as in one step of a recurrent decoder ---------------------------------------------------

FEW = 4
"""Up to this many queries the kernel is faster than a matrix product."""
_FEW = ("foveate.attention.paths", "few.cpp")


def suits_few(query: Tensor, value: Tensor) -> bool:
    """Whether the kernel runs here and pays."""
    light = query.dtype == value.dtype == torch.float32 and query.device.type == "cpu"
    return light and query.shape[2] <= FEW and native.load(*_FEW).library is not None


def weigh_few(
    weights: Float[Tensor, "batch heads query key"],
    value: Float[Tensor, "batch heads key value_head_dim"],
    visible: Bool[Tensor, "#batch #heads #query #key"] | None,
) -> Float[Tensor, "batch heads query value_head_dim"]:
    """Σ_j α_ij v_j over the visible j, which reads no hidden value."""
    context: Tensor = _Weigh.apply(weights.contiguous(), value.contiguous(), visible)
    return context


class _Weigh(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, value: Tensor, visible: Tensor | None) -> Tensor:
        ctx.save_for_backward(weights, value, visible)
        context = value.new_empty(*weights.shape[:3], value.shape[3])
        _call("forward", weights, value, visible, context)
        return context

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, value, visible = ctx.saved_tensors
        if torch.is_grad_enabled():
            return *by_definition(partial(_defined, visible), (weights, value), grad), None
        grad_weights, grad_value = torch.empty_like(weights), torch.empty_like(value)
        _call("backward", weights, value, visible, grad.contiguous(), grad_weights, grad_value)
        return grad_weights, grad_value, None


def _defined(visible: Tensor | None, weights: Tensor, value: Tensor) -> Tensor:
    if visible is None:
        return weights @ value
    (value,) = silence(visible, value)
    return weigh(torch.where(visible, weights, 0.0), value, visible)


class _Sizes(ctypes.Structure):
    """`Sizes` of few.cpp."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("batch", "heads", "queries", "keys", "dim", "threads")),
        ("visible_stride", ctypes.c_int64 * 4),
    )


def _call(name: str, weights: Tensor, value: Tensor, visible: Tensor | None, *rest: Tensor) -> None:
    sizes = _Sizes(*weights.shape, value.shape[3], torch.get_num_threads())
    if visible is not None:
        sizes.visible_stride[:] = visible.expand(weights.shape).stride()
    places = [native.address(tensor) for tensor in (visible, weights, value, *rest)]
    getattr(native.load(*_FEW).library, name)(ctypes.byref(sizes), *places)
