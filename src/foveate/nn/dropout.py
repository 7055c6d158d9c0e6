"""Dropout, alone or within a residual connection, with noise that is cheap on a CPU: sixteen random bits a value.

With a compiler, the noise is a hash of one random number and the value's index, and dropout, residual and layer norm
are one pass (`dropout.cpp`). Without a compiler, random words are drawn and compared. Both depend on torch's seed only,
but they give different noise.
"""

import ctypes
import functools
import math
from typing import Any, TypeGuard

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate import native
from foveate.attention.check import require_rates
from foveate.attention.paths.derivative import by_definition
from foveate.attention.position import transformed
from foveate.nn.origin import is_plain

STEPS = 1 << 16
"""Rates are rounded to multiples of 1/65536. The scale uses the rounded rate, so that the mean is exact."""
BLOCK, STRIP = 64, 32
"""In the kernels: the number of rows with a common partial sum, and of columns with common random words."""


def dropout(x: Float[Tensor, "*shape"], rate: float, training: bool = True) -> Float[Tensor, "*shape"]:
    """Zero each value with probability `rate` and divide the rest by 1 − rate (Srivastava et al. 2014)."""
    if not training or rate == 0.0:
        return x
    if x.device.type != "cpu" or transformed():
        return nn.functional.dropout(x, rate)
    if _fused(None, x):
        return _Fused.apply(None, x, rate, None, None, 0.0)[0]
    return _Dropout.apply(x, rate)


def add_dropped(
    x: Float[Tensor, "*shape"], y: Float[Tensor, "*shape"], rate: float, training: bool = True
) -> Float[Tensor, "*shape"]:
    """x + dropout(y), the residual connection of a Transformer block, in one pass."""
    if not training or rate == 0.0:
        return x + y
    if x.device.type != "cpu" or transformed():
        return x + nn.functional.dropout(y, rate)
    if _fused(x, y):
        return _Fused.apply(x, y, rate, None, None, 0.0)[0]
    return _AddDropped.apply(x, y, rate)


def add_dropped_and_norm(
    x: Float[Tensor, "*shape dim"], y: Float[Tensor, "*shape dim"], rate: float, norm: nn.Module, training: bool
) -> Float[Tensor, "*shape dim"]:
    """norm(x + dropout(y)), in one pass when training on a CPU with torch's LayerNorm."""
    rate = rate if training else 0.0
    if _is_usual(norm, y.shape[-1]) and x.device.type == "cpu" and torch.is_grad_enabled() and _fused(x, y):
        return _Fused.apply(x, y, rate, norm.weight, norm.bias, norm.eps)[0]
    return norm(add_dropped(x, y, rate, training))


def _is_usual(norm: nn.Module, width: int) -> TypeGuard[nn.LayerNorm]:
    """Whether a norm is torch's over the last axis, with what the kernel reads: gains and biases in float32."""
    return (
        isinstance(norm, nn.LayerNorm)
        and is_plain(norm, nn.LayerNorm)
        and norm.normalized_shape == (width,)
        and all(
            part is not None and part.dtype is torch.float32 and part.is_contiguous()
            for part in (norm.weight, norm.bias)
        )
    )


def _limit(rate: float) -> int:
    """The steps that drop a number. A rate next to 1 keeps one in all steps."""
    return min(round(rate * STEPS), STEPS - 1)


@functools.cache
def kernels() -> ctypes.CDLL | None:
    """The compiled kernels, or None without a compiler."""
    return native.load("foveate.nn", "dropout.cpp").library


def _fused(x: Tensor | None, y: Tensor) -> bool:
    return (
        y.dtype in (torch.float32, torch.bfloat16)
        and y.device.type == "cpu"
        and y.dim() > 0
        and y.shape[-1] % STRIP == 0
        and y.numel() > 0
        and (x is None or (x.dtype is torch.float32 and x.shape == y.shape))
        and kernels() is not None
        and not transformed()
    )


class _Fused(torch.autograd.Function):
    """norm(x + dropout(y)) without masks in memory. x and the norm are optional; with a norm, the sum before it is a
    second output, which only second derivatives use.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor | None, y: Tensor, rate: float, gain: Tensor | None, bias: Tensor | None, epsilon: float
    ) -> tuple[Tensor, Tensor | None]:
        library = kernels()
        assert library is not None
        require_rates(rate=rate)
        limit = _limit(rate)
        seed = int(torch.empty((), dtype=torch.int64).random_()) if limit else 0
        ctx.noise = (ctypes.c_uint64(seed), ctypes.c_int64(limit), ctypes.c_double(STEPS / (STEPS - limit)))
        ctx.half, ctx.adds, ctx.shape = ctypes.c_int64(y.dtype is torch.bfloat16), x is not None, y.shape
        width = y.shape[-1]
        ctx.sizes = [ctypes.c_int64(size) for size in (y.numel() // width, width)]
        x, y = None if x is None else x.contiguous(), y.contiguous()
        dtype = y.dtype if x is None else torch.float32
        total = torch.empty_like(y, dtype=dtype)
        normed = None if gain is None else torch.empty_like(total)
        mean, rstd = (None if gain is None else total.new_empty(y.numel() // width) for _ in range(2))
        inputs = (native.address(x), native.address(y), ctx.half, *ctx.noise)
        norm = (native.address(gain), native.address(bias), ctypes.c_double(epsilon))
        outputs = (native.address(total), ctypes.c_int64(dtype is torch.bfloat16))
        rest = map(native.address, (normed, mean, rstd))
        library.forward(*inputs, *norm, *outputs, *rest, *ctx.sizes, native.threads())
        ctx.set_materialize_grads(False)
        if normed is None:
            return total, None
        ctx.save_for_backward(gain, total, mean, rstd, bias)
        ctx.epsilon = epsilon
        return normed, total

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, above: Tensor | None) -> tuple[Tensor | None, ...]:
        library = kernels()
        assert library is not None
        gain, total, mean, rstd, bias = ctx.saved_tensors or (None,) * 5
        if grad is None or above is not None or torch.is_grad_enabled():
            return _again(ctx, grad, above, gain, total, bias)
        rows, width = (size.value for size in ctx.sizes)
        if grad.dtype not in (torch.float32, torch.bfloat16):
            grad = grad.float()
        grad = grad.contiguous()
        dtype = torch.bfloat16 if ctx.half.value else torch.float32
        to_y = torch.empty(ctx.shape, dtype=dtype)
        to_x = torch.empty(ctx.shape, dtype=torch.float32) if gain is not None and ctx.adds else None
        parts = None if gain is None else torch.empty(-(-rows // BLOCK), 2, width, dtype=torch.float32)
        inputs = (native.address(grad), ctypes.c_int64(grad.dtype is torch.bfloat16), ctx.half, *ctx.noise)
        places = map(native.address, (gain, total, mean, rstd, to_x, to_y, parts))
        library.backward(*inputs, *places, *ctx.sizes, native.threads())
        if parts is None:
            return grad if ctx.adds else None, to_y, None, None, None, None
        to_gain, to_bias = parts.sum(0)
        return to_x, to_y, None, to_gain, to_bias, None


def _again(
    ctx: Any, grad: Tensor | None, above: Tensor | None, gain: Tensor | None, total: Tensor | None, bias: Tensor | None
) -> tuple[Tensor | None, ...]:
    """Gradients that can be differentiated again, with the same noise; `above` is the gradient of the sum before the
    norm.
    """
    of_norm: list[Tensor | None] = [grad, None, None]
    if total is not None:
        of_norm = [None, None, None]
        if grad is not None:
            norm = functools.partial(_normed, ctx.epsilon)
            of_norm = by_definition(norm, (total, gain, bias), grad)
    slopes = [slope for slope in (of_norm[0], above) if slope is not None]
    if not slopes:
        return None, None, None, of_norm[1], of_norm[2], None
    to_x = slopes[0] if len(slopes) == 1 else slopes[0] + slopes[1]
    ones = torch.ones(ctx.shape, dtype=torch.bfloat16 if ctx.half.value else torch.float32)
    mask = torch.empty_like(ones)
    library = kernels()
    assert library is not None
    rest = (None, None, ctypes.c_double(0.0), native.address(mask), ctx.half, None, None, None)
    library.forward(None, native.address(ones), ctx.half, *ctx.noise, *rest, *ctx.sizes, native.threads())
    to_y = (to_x * mask).to(ones.dtype)
    return to_x if ctx.adds else None, to_y, None, of_norm[1], of_norm[2], None


def _normed(epsilon: float, total: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    return nn.functional.layer_norm(total, total.shape[-1:], gain, bias, epsilon)


def _keep(like: Tensor, rate: float) -> tuple[Tensor, float]:
    """A mask of bytes 0 and 1, and the factor that keeps the mean."""
    require_rates(rate=rate)
    limit = _limit(rate)
    count = math.prod(like.shape)
    draws = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    bits = draws.view(torch.int16)[:count].view(like.shape)
    # Products with bytes stay in the other factor's dtype; Bool masks would cost four times as much.
    return (bits >= limit - STEPS // 2).view(torch.uint8), STEPS / (STEPS - limit)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rate: float) -> Tensor:
        keep, ctx.scale = _keep(x, rate)
        ctx.save_for_backward(keep)
        return (x * keep).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (keep,) = ctx.saved_tensors
        return (grad * keep).mul_(ctx.scale), None


class _AddDropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, rate: float) -> Tensor:
        keep, ctx.scale = _keep(y, rate)
        ctx.save_for_backward(keep)
        ctx.dtype = y.dtype
        return torch.add(x, y * keep, alpha=ctx.scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        (keep,) = ctx.saved_tensors
        return grad, (grad.to(ctx.dtype) * keep).mul_(ctx.scale), None
