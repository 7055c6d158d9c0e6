"""Dropout whose noise costs a quarter of torch's on a CPU: sixteen random bits a value, four values a draw."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.nn.limit import require_rates

STEPS = 1 << 16
"""Rates are multiples of 1/65536; what is kept is scaled by the rate that is used, so the mean is exact."""


def dropout(x: Float[Tensor, "*shape"], rate: float, training: bool = True) -> Float[Tensor, "*shape"]:
    """Zero each value with probability `rate` and divide the rest by 1 − rate (Srivastava et al. 2014)."""
    if not training or rate == 0.0:
        return x
    return _Dropout.apply(x, rate) if x.device.type == "cpu" else nn.functional.dropout(x, rate)


def add_dropped(
    x: Float[Tensor, "*shape"], y: Float[Tensor, "*shape"], rate: float, training: bool = True
) -> Float[Tensor, "*shape"]:
    """x + dropout(y), the residual of a Transformer block, in one pass."""
    if not training or rate == 0.0:
        return x + y
    return _AddDropped.apply(x, y, rate) if x.device.type == "cpu" else x + nn.functional.dropout(y, rate)


def _keep(like: Tensor, rate: float) -> tuple[Tensor, float]:
    """Bytes of 0 and 1, and what makes up for the zeros."""
    require_rates(rate=rate)
    limit = round(rate * STEPS)
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
