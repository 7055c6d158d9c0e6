"""torch's fused scaled dot-product attention, where it computes exactly what was asked."""

from contextlib import ExitStack
from functools import partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from foveate import machine
from foveate.attention.paths.dot import dot_product_reasons, dots
from foveate.attention.paths.hidden import finite, nothing_to_silence, silence, some_row_is_empty
from foveate.attention.paths.materialised import materialise
from foveate.attention.paths.path import Cost, Formula, asked
from foveate.attention.position import Positions
from foveate.attention.visibility import Causal, Everything

LARGE_BLOCKS = 768
"""Queries from which on torch's kernel for CPUs multiplies blocks that are worth oneDNN's preparations."""


class SDPAPath:
    """Dot products under softmax. Memory is linear in the length when the rule is `everything()` or `causal()`;
    any other rule becomes one Bool mask. Weights dropped in training differ from the reference's only in the noise.
    """

    name = "sdpa"

    def refuses(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> list[str]:
        return dot_product_reasons(formula, query, key)

    def cost(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> Cost:
        pairs = query.shape[0] * query.shape[1] * query.shape[2] * key.shape[2]
        flops = 4.0 * pairs * key.shape[3]
        if isinstance(formula.visibility, Everything) and formula.bias is None:
            return Cost(flops, 0.0)
        if isinstance(formula.visibility, Causal) and at.aligned and formula.bias is None:
            return Cost(flops / 2, 0.0)
        held = float(pairs // query.shape[1]) * (1 if formula.bias is None else query.element_size())
        return Cost(flops, held, told=asked(formula, query, at))

    def run(
        self,
        formula: Formula,
        query: Float[Tensor, "batch heads query query_dim"],
        key: Float[Tensor, "batch kv_heads key key_dim"],
        value: Float[Tensor, "batch kv_heads key value_head_dim"],
        *,
        at: Positions,
        key_features: Float[Tensor, "batch #heads key feature"] | None = None,
        dropout: float = 0.0,
    ) -> Float[Tensor, "batch heads query value_head_dim"]:
        triangle = isinstance(formula.visibility, Causal) and at.aligned and formula.bias is None
        visible = None if triangle or isinstance(formula.visibility, Everything) else formula.visibility(at)
        silent = nothing_to_silence(formula.visibility, at)
        hide = None if visible is None or silent else partial(silence, visible)
        given = dots(formula, query, key, value, key_features, hide)
        if (triangle or (visible is not None and visible.shape[-2] > 1)) and not finite(given.key, given.value):
            # The kernel multiplies hidden values by 0, and 0 · NaN is NaN: only the reference keeps it from leaking.
            return materialise(formula, query, key, value, at=at, key_features=key_features, dropout=dropout).context
        mask = None if visible is None and formula.bias is None else _mask(formula, visible, query, key, at)
        work = float("inf") if query.shape[2] >= LARGE_BLOCKS else 0.0
        with machine.small_products(work):
            context = scaled_dot_product_attention(
                given.query,
                given.key,
                given.value,
                attn_mask=mask,
                dropout_p=dropout,
                is_causal=triangle,
                scale=given.scale,
            )
        if not work and context.grad_fn is not None and machine.current().onednn_matmul:
            _small_products_backward(context.grad_fn)
        if visible is None or not some_row_is_empty(visible):
            return context
        return torch.where(visible.any(-1, keepdim=True), context, 0.0)


def _small_products_backward(node: torch.autograd.graph.Node) -> None:
    """The backward pass, too, multiplies small blocks."""
    switch = ExitStack()

    def off(grads: tuple[Tensor | None, ...]) -> None:
        switch.enter_context(machine.small_products())

    def on(inputs: tuple[Tensor | None, ...], outputs: tuple[Tensor | None, ...]) -> None:
        switch.close()

    node.register_prehook(off)
    node.register_hook(on)


def _mask(
    formula: Formula,
    visible: Bool[Tensor, "#batch #heads #query #key"] | None,
    query: Tensor,
    key: Tensor,
    at: Positions,
) -> Tensor:
    if formula.bias is None:
        assert visible is not None
        mask = visible
    elif visible is None:
        mask = formula.bias(at).to(query.dtype)
    else:
        # An empty row is left open and zeroed afterwards: a row of −∞ alone has NaN gradients.
        closed = torch.where(visible.any(-1, keepdim=True), -torch.inf, 0.0).to(query.dtype)
        mask = torch.where(visible, formula.bias(at).to(query.dtype), closed)
    return mask.expand(query.shape[0], -1, query.shape[2], key.shape[2])
