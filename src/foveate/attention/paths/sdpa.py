"""torch's fused scaled dot-product attention, where it computes exactly this attention."""

from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from functools import partial

import torch
from jaxtyping import Bool
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from foveate import machine
from foveate.attention.bias import bias_values
from foveate.attention.paths.derivative import by_definition, refused
from foveate.attention.paths.dot import attended, dot_product_reasons, safe_dots
from foveate.attention.paths.hidden import RuleMask, mask_of
from foveate.attention.paths.materialised import materialise
from foveate.attention.paths.path import Cost, Formula, Inputs, ShippedPath, count_pairs
from foveate.attention.position import Positions, transformed
from foveate.attention.visibility import TRIANGLE

LARGE_BLOCKS = 768
"""From this many queries on, torch's kernel for CPUs multiplies blocks so large that oneDNN pays."""


class SDPAPath(ShippedPath):
    """Dot products under softmax. Memory is linear in the length when the rule is `everything()` or `causal()`;
    any other rule becomes one mask. Weights dropped in training differ from the reference's only in the noise.
    """

    name = "sdpa"
    by_kind = True
    traceable = True

    def refuses(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> list[str]:
        reasons = dot_product_reasons(formula, query, key)
        if transformed() and (formula.bias is not None or not torch.compiler.is_compiling()):
            reasons.append("under torch.func, torch's kernel lacks derivatives")
        return reasons

    def cost(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> Cost:
        pairs = count_pairs(query, key)
        flops = 4.0 * pairs * key.shape[3]
        if not formula.visibility.hides and formula.bias is None:
            return Cost(flops, 0.0)
        if at.aligned and formula.visibility.band == TRIANGLE and formula.bias is None:
            return Cost(flops / 2, 0.0)
        return Cost(flops, pairs / query.shape[1] * (1 if formula.bias is None else query.element_size()))

    def context(self, inputs: Inputs) -> Tensor:
        formula, at, dropout = inputs.formula, inputs.at, inputs.dropout
        triangle = formula.bias is None and at.aligned and formula.visibility.band == TRIANGLE
        shown = None if triangle else mask_of(formula.visibility, at)
        dots = safe_dots(inputs, shown, triangle=triangle)
        if dots is None:
            return materialise(*inputs).context
        query, key, value, scale = dots
        mask = _mask(formula, shown, query, key, at)
        shut = None
        if mask is not None and formula.bias is not None and query.device.type != "cpu":
            shut = _shut(mask)
            mask = mask.masked_fill(shut, 0.0)
        large = query.shape[2] >= LARGE_BLOCKS or query.dtype != torch.float32
        with _AS_IT_IS if large else machine.small_products():
            context = scaled_dot_product_attention(
                query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=triangle, scale=scale
            )
        if context.grad_fn is not None:
            if context.grad_fn.name() in _FUSED:
                defined = partial(_defined, triangle, scale)
                context.grad_fn.register_hook(partial(_again, defined, (query, key, value, mask), dropout))
            if not large and machine.current().onednn_matmul:
                _small_products_backward(context.grad_fn)
        if shut is not None:
            context = torch.where(shut, 0.0, context)
        if shown is None or shown.sighted is None:
            return context
        return torch.where(shown.sighted, context, 0.0)


_AS_IT_IS = nullcontext()
_FUSED = {
    "ScaledDotProductFlashAttentionForCpuBackward0",
    "ScaledDotProductFlashAttentionBackward0",
    "ScaledDotProductEfficientAttentionBackward0",
    "ScaledDotProductCudnnAttentionBackward0",
    "ScaledDotProductFusedAttentionOverrideableBackward0",
}
"""Backward passes of torch that cannot be differentiated."""


def _again(
    definition: Callable[..., Tensor],
    inputs: tuple[Tensor | None, ...],
    dropout: float,
    grads: tuple[Tensor | None, ...],
    above: tuple[Tensor | None, ...],
) -> tuple[Tensor | None, ...] | None:
    """The gradients of the definition in place of the kernel's, where a graph is wanted: of queries, keys, values and,
    in kernels where a bias learns, the mask.
    """
    if not torch.is_grad_enabled() or above[0] is None:
        return None
    pairs = zip(grads, inputs, strict=False)
    if dropout or any(grad is not None and x is not None and grad.shape != x.shape for grad, x in pairs):
        return tuple(refused(grads, SECOND))
    slopes = by_definition(definition, inputs, above[0])
    return (*slopes[: len(grads)], *grads[len(slopes) :])


SECOND = (
    "torch's kernel has no second derivative with these sizes or with dropped weights, and one is asked for. Choose "
    "the path that keeps everything: Attention(..., paths=(MaterialisedPath(),))."
)


def _defined(causal: bool, scale: float, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    if causal:
        mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()[None, None]
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, -torch.inf)
    return attended(query, key, value, scale, bias=mask)


def _small_products_backward(node: torch.autograd.graph.Node) -> None:
    """Sets the switch for small products during the backward pass."""
    switch = ExitStack()

    def off(grads: tuple[Tensor | None, ...]) -> None:
        switch.enter_context(machine.small_products())

    def on(inputs: tuple[Tensor | None, ...], outputs: tuple[Tensor | None, ...]) -> None:
        switch.close()

    node.register_prehook(off)
    node.register_hook(on)


def _shut(mask: Tensor) -> Bool[Tensor, "batch #heads query 1"]:
    """Rows whose mask is −∞ everywhere: on a CPU torch's kernel gives zeros and zero gradients, elsewhere NaN."""
    return mask.detach().amax(-1, keepdim=True) == -torch.inf


def _mask(formula: Formula, shown: RuleMask | None, query: Tensor, key: Tensor, at: Positions) -> Tensor | None:
    """Bias and mask for the scores; rows that see nothing are left open, and zeroed afterwards."""
    if formula.bias is None:
        return None if shown is None else shown.over(len(query), query.shape[2], key.shape[2], query.dtype)
    bias = bias_values(formula.bias, at, query.dtype)
    mask = bias if shown is None else shown.mask(query.dtype) + bias
    return mask.expand(len(query), -1, query.shape[2], key.shape[2])
