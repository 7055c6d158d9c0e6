"""Nothing hidden may leak: what every path does to keys and values that nobody, or not everybody, may see."""

import ctypes
import functools
import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from foveate import native
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
    seen = visible if visible.shape[-2] == 1 else visible.any(-2, keepdim=True)
    return tuple(torch.where(seen.mT, tensor, 0.0) for tensor in tensors)


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
