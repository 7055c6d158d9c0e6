"""Second derivatives of functions with a hand-written backward pass, which computes numbers without a graph.

Where a graph is wanted (`create_graph=True`, as for a penalty on gradients), the backward pass differentiates the
definition in torch's own operations instead. This costs nothing in ordinary training.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def by_definition(
    definition: Callable[..., Tensor], inputs: Sequence[Tensor | None], grad: Tensor
) -> list[Tensor | None]:
    """The gradients of `definition(*inputs)`, with a graph to `inputs` and to `grad`.

    `inputs` are the very tensors that the forward pass got, as `ctx.saved_tensors` returns them.

    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> (slope,) = by_definition(lambda x: x**3, [x], torch.tensor(1.0))
    >>> slope.item(), torch.autograd.grad(slope, x)[0].item()
    (27.0, 18.0)
    """
    device = grad.device.type
    with torch.enable_grad(), torch.autocast(device, enabled=False):
        # A view of each: one input may have been computed from another, whose gradient would then include both.
        alone = [None if x is None else x.view_as(x) if x.requires_grad else x for x in inputs]
        learning = [x for x in alone if x is not None and x.requires_grad]
        slopes = iter(torch.autograd.grad(definition(*alone), learning, grad, create_graph=True, allow_unused=True))
        return [next(slopes) if x is not None and x.requires_grad else None for x in alone]


def refused(grads: Sequence[Tensor | None], reason: str) -> list[Tensor | None]:
    """The same gradients; to differentiate them raises RuntimeError with this reason."""
    if not torch.is_grad_enabled():
        return list(grads)
    return [
        None if grad is None else _Refused.apply(grad, torch.zeros((), requires_grad=True), reason) for grad in grads
    ]


class _Refused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, grad: Tensor, differentiable: Tensor, reason: str) -> Tensor:
        ctx.reason = reason
        return grad.view_as(grad)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        raise RuntimeError(ctx.reason)
