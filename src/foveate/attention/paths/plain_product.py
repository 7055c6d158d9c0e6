"""Short sequences on a CPU: plain matrix products with a hand-written backward pass.

At short lengths, fused kernels lose more than they save, above all in bfloat16. The first product includes the scale
and the mask. Softmax runs in float32, which at odd lengths is several times faster than in bfloat16.
"""

from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from foveate import machine
from foveate.attention.bias import bias_values
from foveate.attention.normaliser.normaliser import undecided
from foveate.attention.paths.derivative import by_definition
from foveate.attention.paths.dot import attended, dot_product_reasons, safe_dots
from foveate.attention.paths.hidden import RuleMask, flat, mask_of
from foveate.attention.paths.materialised import materialise
from foveate.attention.paths.path import Cost, Formula, Inputs, ShippedPath, count_pairs
from foveate.attention.position import Positions, transformed


class ProductPath(ShippedPath):
    """Dot products under softmax, at short lengths."""

    name = "product"
    by_kind = True

    def refuses(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> list[str]:
        reasons = dot_product_reasons(formula, query, key)
        if key.device.type != "cpu":
            reasons.append(f"made for CPUs, not for {key.device.type}")
        if transformed():
            reasons.append("its backward pass is written by hand, which torch.func cannot transform")
        return reasons

    def cost(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> Cost:
        pairs = count_pairs(query, key)
        return Cost(4.0 * pairs * key.shape[3], pairs * (4.0 + query.element_size()))

    def context(self, inputs: Inputs) -> Tensor:
        shown = mask_of(inputs.formula.visibility, inputs.at)
        dots = None if inputs.dropout else safe_dots(inputs, shown)
        if dots is None:  # hidden NaN and dropped weights are left to the reference
            return materialise(*inputs).context
        query, key, value, scale = dots
        bias = _bias(inputs.formula, shown, query, inputs.at)
        context: Tensor = _Product.apply(query, key, value, bias, scale)
        sighted = None if shown is None else shown.sighted
        return context if sighted is None else torch.where(sighted, context, 0.0)


def _bias(formula: Formula, shown: RuleMask | None, query: Tensor, at: Positions) -> Tensor | None:
    """Bias and mask for the scores; rows that see nothing are left open, and zeroed afterwards."""
    if formula.bias is None:
        return None if shown is None else shown.flat(len(query), query.shape[1], query.dtype)
    bias = bias_values(formula.bias, at, query.dtype)
    return flat(bias if shown is None else shown.mask(query.dtype) + bias, len(query), query.shape[1])


class _Product(torch.autograd.Function):
    """softmax(scale · Q Kᵀ + B) V"""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, scale: float) -> Tensor:
        batch, heads = query.shape[:2]
        rows = [tensor.flatten(0, 1) for tensor in (query, key, value)]
        ctx.work = _work(rows[0], rows[1])
        with machine.small_products(ctx.work):
            if bias is None:
                scores = torch.baddbmm(rows[0].new_empty(1), rows[0], rows[1].mT, beta=0, alpha=scale)
            else:
                scores = torch.baddbmm(bias, rows[0], rows[1].mT, alpha=scale)
            weights = scores.softmax(-1, dtype=torch.promote_types(query.dtype, torch.float32))
            if undecided(weights):
                weights = weights.masked_fill(scores.amax(-1, keepdim=True) == -torch.inf, 0.0)
            light = weights.to(query.dtype)
            context = torch.bmm(light, rows[2]).unflatten(0, (batch, heads))
        ctx.save_for_backward(*rows, weights, light, query, key, value, bias)
        ctx.scale, ctx.shape = scale, (batch, heads)
        ctx.bias = None if bias is None else (bias.shape, bias.dtype)
        return context

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None, None]:
        query, key, value, weights, light, *inputs = ctx.saved_tensors
        if torch.is_grad_enabled():
            return (*by_definition(partial(_defined, ctx.scale), inputs, grad), None)  # type: ignore[return-value]
        grad = grad.flatten(0, 1)
        with machine.small_products(ctx.work):
            grad_value = torch.bmm(light.mT, grad)
            grad_weights = torch.bmm(grad, value.mT).to(weights.dtype)
        grad_scores = torch.ops.aten._softmax_backward_data(grad_weights, weights, -1, weights.dtype)
        grad_bias = None
        if ctx.needs_input_grad[3]:
            grad_bias = grad_scores.sum_to_size(ctx.bias[0]).to(ctx.bias[1])
        # Not in place: where nothing is summed, these numbers are the gradient of the bias.
        grad_scores = (grad_scores * ctx.scale).to(query.dtype)
        with machine.small_products(ctx.work):
            grads = (torch.bmm(grad_scores, key), torch.bmm(grad_scores.mT, query), grad_value)
        return (*(each.unflatten(0, ctx.shape) for each in grads), grad_bias, None)


def _defined(scale: float, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
    if bias is not None:
        bias = bias[None] if len(bias) == 1 else bias.unflatten(0, query.shape[:2])
    return attended(query, key, value, scale, bias=bias)


def _work(query: Float[Tensor, "matrices query dim"], key: Float[Tensor, "matrices key dim"]) -> float:
    """Multiply-adds of one product; 0 for a few rows, because oneDNN is slow at them."""
    return float(query.numel() * key.shape[1]) if query.shape[1] >= 4 else 0.0
