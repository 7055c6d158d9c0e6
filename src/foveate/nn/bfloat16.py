"""Matrix products in bfloat16 for training, by our own kernels, where the processor has instructions for them.

Under autocast torch casts every weight before a product, copies the bias before adding to it, sums bias gradients in a
separate pass and rounds weight gradients to bfloat16. The kernels in `bfloat16.cpp` read weights in float32, round them
while they rearrange them, and keep weight gradients in float32. `applies` returns False everywhere else.
"""

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from foveate import native
from foveate.attention.paths.derivative import by_definition
from foveate.attention.position import transformed

TINY = 1 << 16
"""Products with fewer multiplications go to torch."""


@functools.cache
def kernels() -> ctypes.CDLL | None:
    """The compiled kernels, or None without a compiler or on a processor without the instructions."""
    library = native.load("foveate.nn", "bfloat16.cpp").library
    return library if library is not None and library.supported() else None


def applies(x: Float[Tensor, "*shape dim"], weight: Float[Tensor, "outputs inputs"]) -> bool:
    """Whether the kernels compute this product: in training on a CPU under bfloat16 autocast."""
    return (
        x.device.type == "cpu"
        and torch.is_grad_enabled()
        and torch.is_autocast_enabled("cpu")
        and torch.get_autocast_dtype("cpu") is torch.bfloat16
        and x.dtype in (torch.float32, torch.bfloat16)
        and weight.dtype is torch.float32
        and weight.shape[0] % 2 == weight.shape[1] % 2 == 0
        and x.numel() * weight.shape[0] >= TINY
        and not transformed()
        and kernels() is not None
    )


def linear(
    x: Float[Tensor, "*shape inputs"], weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, " outputs"] | None
) -> Float[Tensor, "*shape outputs"]:
    """W x + b in bfloat16, where `applies`."""
    return _Linear.apply(x.reshape(-1, x.shape[-1]), weight, bias)[0].view(*x.shape[:-1], weight.shape[0])


def feedforward(
    x: Float[Tensor, "*shape inputs"],
    expand: tuple[Float[Tensor, "hidden inputs"], Float[Tensor, " hidden"]],
    contract: tuple[Float[Tensor, "outputs hidden"], Float[Tensor, " outputs"]],
) -> Float[Tensor, "*shape outputs"]:
    """W_2 max(0, W_1 x + b_1) + b_2 in bfloat16, where `applies` to both products."""
    y = _FeedForward.apply(x.reshape(-1, x.shape[-1]), *expand, *contract)[0]
    return y.view(*x.shape[:-1], y.shape[-1])


class _Linear(torch.autograd.Function):
    """The product, and x in bfloat16, which only second derivatives use."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
        light = x.to(torch.bfloat16).contiguous()
        ctx.save_for_backward(light, weight)
        ctx.dtype, ctx.bias = x.dtype, bias is not None
        ctx.set_materialize_grads(False)
        return product(light, weight, bias), None if light is x else light

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, above: Tensor | None) -> tuple[Tensor | None, ...]:
        light, weight = ctx.saved_tensors
        if grad is None or above is not None or torch.is_grad_enabled():
            bias = weight.new_zeros(len(weight), requires_grad=True) if ctx.bias else None
            return _again(ctx.dtype, functional.linear, (light, weight, bias), grad, above)
        grad = grad.to(torch.bfloat16).contiguous()
        to_x = to_inputs(grad, weight, ctx.dtype) if ctx.needs_input_grad[0] else None
        to_weight, to_bias = to_weights(grad, light, ctx.bias)
        return to_x, to_weight, to_bias


class _FeedForward(torch.autograd.Function):
    """Two products with a ReLU between them, like `_Linear`."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, expand: Tensor, b1: Tensor, contract: Tensor, b2: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        light = x.to(torch.bfloat16).contiguous()
        hidden = product(light, expand, b1, relu=True)
        ctx.save_for_backward(light, hidden, expand, contract, b1, b2)
        ctx.dtype = x.dtype
        ctx.set_materialize_grads(False)
        return product(hidden, contract, b2), None if light is x else light

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, above: Tensor | None) -> tuple[Tensor | None, ...]:
        light, hidden, expand, contract, b1, b2 = ctx.saved_tensors
        if grad is None or above is not None or torch.is_grad_enabled():
            return _again(ctx.dtype, _expanded, (light, expand, b1, contract, b2), grad, above)
        grad = grad.to(torch.bfloat16).contiguous()
        to_contract = to_weights(grad, hidden, True)
        to_hidden = to_inputs(grad, contract, torch.bfloat16, gate=hidden)
        to_expand = to_weights(to_hidden, light, True)
        return to_inputs(to_hidden, expand, ctx.dtype), *to_expand, *to_contract


def _expanded(x: Tensor, expand: Tensor, b1: Tensor, contract: Tensor, b2: Tensor) -> Tensor:
    return functional.linear(functional.linear(x, expand, b1).relu(), contract, b2)


def _again(
    dtype: torch.dtype,
    definition: Callable[..., Tensor],
    arguments: tuple[Tensor | None, ...],
    grad: Tensor | None,
    above: Tensor | None,
) -> tuple[Tensor | None, ...]:
    """Gradients that can be differentiated again; `above` is the gradient of the rounded x."""
    slopes: list[Tensor | None] = [None] * len(arguments)
    if grad is not None:
        slopes = by_definition(lambda x, *rest: definition(x.float(), *rest), arguments, grad.float())
    own = [slope.to(dtype) for slope in (slopes[0], above) if slope is not None]
    return (sum(own[1:], start=own[0]) if own else None, *slopes[1:])


def product(
    x: Float[Tensor, "rows inputs"],
    weight: Float[Tensor, "outputs inputs"],
    bias: Float[Tensor, " outputs"] | None = None,
    *,
    relu: bool = False,
) -> Float[Tensor, "rows outputs"]:
    """x Wᵀ + b for x in bfloat16 and W in float32."""
    rows, width, columns = *x.shape, weight.shape[0]
    if weight.shape[1] != width:
        raise ValueError(f"A matrix for vectors of {weight.shape[1]} numbers got vectors of {width}.")
    weight = weight.detach().contiguous()
    y = x.new_empty(rows, columns)
    room, sizes = _room(width, columns), _sizes(rows, width, columns, int(relu))
    _library().forward(*map(native.address, (x, weight, bias, room, y)), *sizes, native.threads())
    return y


def to_inputs(
    grad: Float[Tensor, "rows outputs"],
    weight: Float[Tensor, "outputs inputs"],
    dtype: torch.dtype,
    *,
    gate: Float[Tensor, "rows inputs"] | None = None,
) -> Float[Tensor, "rows inputs"]:
    """grad W, set to 0 where `gate` (the output of a ReLU) is 0."""
    rows, columns, width = *grad.shape, weight.shape[1]
    weight = weight.detach().contiguous()
    y = grad.new_empty(rows, width, dtype=dtype)
    room, half = _room(columns, width), ctypes.c_int64(dtype is torch.bfloat16)
    places = map(native.address, (grad, weight, gate, room, y))
    _library().backward(*places, half, *_sizes(rows, width, columns), native.threads())
    return y


def to_weights(
    grad: Float[Tensor, "rows outputs"], x: Float[Tensor, "rows inputs"], bias: bool
) -> tuple[Float[Tensor, "outputs inputs"], Float[Tensor, " outputs"] | None]:
    """gradᵀ x in float32, and the sum of grad's rows."""
    rows, columns, width = *grad.shape, x.shape[1]
    to_weight = grad.new_empty(columns, width, dtype=torch.float32)
    to_bias = grad.new_empty(columns, dtype=torch.float32) if bias else None
    room = _room(rows, width)
    places = map(native.address, (grad, x, room, to_weight, to_bias))
    _library().outer(*places, *_sizes(rows, width, columns), native.threads())
    return to_weight, to_bias


def exponentials_(logits: Float[Tensor, "rows vocab"]) -> tuple[Float[Tensor, " rows"], Float[Tensor, " rows"]]:
    """Replace bfloat16 logits by exp(logit − largest) in place; return each row's largest logit and sum."""
    top, mass = (logits.new_empty(len(logits), dtype=torch.float32) for _ in range(2))
    _library().exponentials(*map(native.address, (logits, top, mass)), *_sizes(*logits.shape), native.threads())
    return top, mass


def _library() -> ctypes.CDLL:
    library = kernels()
    assert library is not None
    return library


def _room(summed: int, columns: int) -> Tensor:
    """Memory for the panels of a matrix."""
    pairs = -(-summed // 32) * 16
    return torch.empty(pairs * (-(-columns // 64) * 64), dtype=torch.int32)


def _sizes(*sizes: int) -> list[ctypes.c_int64]:
    return [ctypes.c_int64(size) for size in sizes]
