"""Derivatives of derivatives, where a backward pass is written out: it leaves numbers, and no graph to go on with.

A pass that is asked for a graph (`create_graph=True`, as for the penalty on a gradient) takes the gradients of its
definition in torch's own operations instead. Ordinary training pays nothing for it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def by_definition(
    definition: Callable[..., Tensor], given: Sequence[Tensor | None], grad: Tensor
) -> list[Tensor | None]:
    """The gradients of `definition(*given)` with a graph to `given` and to `grad`, so that they have derivatives.

    `given` are the very tensors that the pass was given, as `ctx.saved_tensors` hands them out.

    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> (slope,) = by_definition(lambda x: x**3, [x], torch.tensor(1.0))
    >>> slope.item(), torch.autograd.grad(slope, x)[0].item()
    (27.0, 18.0)
    """
    device = grad.device.type
    with torch.enable_grad(), torch.autocast(device, enabled=False):
        # Another name for each: one may have been made from another, whose gradient would then hold that of both.
        alone = [None if x is None else x.view_as(x) if x.requires_grad else x for x in given]
        wanted = [x for x in alone if x is not None and x.requires_grad]
        slopes = iter(torch.autograd.grad(definition(*alone), wanted, grad, create_graph=True, allow_unused=True))
        return [next(slopes) if x is not None and x.requires_grad else None for x in alone]


def refused(grads: Sequence[Tensor | None], reason: str) -> list[Tensor | None]:
    """The same gradients; whoever differentiates them is told why that cannot be done, and what to do instead."""
    if not torch.is_grad_enabled():
        return list(grads)
    return [
        None if grad is None else _Refused.apply(grad, torch.zeros((), requires_grad=True), reason) for grad in grads
    ]


class _Refused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, grad: Tensor, asked: Tensor, reason: str) -> Tensor:
        ctx.reason = reason
        return grad.view_as(grad)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        raise RuntimeError(ctx.reason)
