"""Σ_j α_ij v_j for a few queries, as in one step of a recurrent decoder, on a CPU: hidden values are not even read."""

import ctypes
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from foveate import native
from foveate.attention.paths.derivative import by_definition
from foveate.attention.paths.hidden import silence, weigh

FEW = 4
"""Up to this many queries the kernel is faster than a matrix product."""


def suits(query: Tensor, value: Tensor) -> bool:
    """Whether the kernel runs here and pays."""
    light = query.dtype == value.dtype == torch.float32 and query.device.type == "cpu"
    return light and query.shape[2] <= FEW and native.load(*_FILE).library is not None


def weigh_few(
    weights: Float[Tensor, "batch heads query key"],
    value: Float[Tensor, "batch heads key value_head_dim"],
    visible: Bool[Tensor, "#batch #heads #query #key"] | None,
) -> Float[Tensor, "batch heads query value_head_dim"]:
    """Σ_j α_ij v_j over the visible j."""
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
    """`Sizes` of weighted.cpp."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("batch", "heads", "queries", "keys", "dim", "threads")),
        ("visible_stride", ctypes.c_int64 * 4),
    )


def _call(name: str, weights: Tensor, value: Tensor, visible: Tensor | None, *rest: Tensor) -> None:
    sizes = _Sizes(*weights.shape, value.shape[3], torch.get_num_threads())
    if visible is not None:
        sizes.visible_stride[:] = visible.expand(weights.shape).stride()
    places = [native.address(tensor) for tensor in (visible, weights, value, *rest)]
    getattr(native.load(*_FILE).library, name)(ctypes.byref(sizes), *places)


_FILE = ("foveate.attention.paths", "weighted.cpp")
