"""torch's fused scaled dot-product attention, where it computes exactly what was asked."""

from contextlib import ExitStack, nullcontext

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from foveate import machine
from foveate.attention.paths.dot import dot_product_reasons, dots, safe_dots
from foveate.attention.paths.materialised import materialise
from foveate.attention.paths.path import Cost, Formula, asked
from foveate.attention.paths.seen import Seen, hiding
from foveate.attention.position import Positions
from foveate.attention.visibility import Causal, Everything

LARGE_BLOCKS = 768
"""Queries from which on torch's kernel for CPUs multiplies blocks that are worth oneDNN's preparations."""


class SDPAPath:
    """Dot products under softmax. Memory is linear in the length when the rule is `everything()` or `causal()`;
    any other rule becomes one mask. Weights dropped in training differ from the reference's only in the noise.
    """

    name = "sdpa"
    by_kind = True

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
        rule = formula.visibility
        triangle = formula.bias is None and isinstance(rule, Causal) and at.aligned
        shown = None if triangle else hiding(rule, at)
        if triangle or shown is not None:
            visible = None if shown is None else shown.visible
            given = safe_dots(formula, query, key, value, at, key_features, visible)
            if given is None:
                return materialise(
                    formula, query, key, value, at=at, key_features=key_features, dropout=dropout
                ).context
        else:
            given = dots(formula, query, key, value, at, key_features, None)
        mask = _mask(formula, shown, given.query, key, at)
        large = query.shape[2] >= LARGE_BLOCKS or given.query.dtype != torch.float32
        with _AS_IT_IS if large else machine.small_products():
            context = scaled_dot_product_attention(
                given.query,
                given.key,
                given.value,
                attn_mask=mask,
                dropout_p=dropout,
                is_causal=triangle,
                scale=given.scale,
            )
        if not large and context.grad_fn is not None and machine.current().onednn_matmul:
            _small_products_backward(context.grad_fn)
        if shown is None or shown.sighted is None:
            return context
        return torch.where(shown.sighted, context, 0.0)


_AS_IT_IS = nullcontext()


def _small_products_backward(node: torch.autograd.graph.Node) -> None:
    """The backward pass, too, multiplies small blocks."""
    switch = ExitStack()

    def off(grads: tuple[Tensor | None, ...]) -> None:
        switch.enter_context(machine.small_products())

    def on(inputs: tuple[Tensor | None, ...], outputs: tuple[Tensor | None, ...]) -> None:
        switch.close()

    node.register_prehook(off)
    node.register_hook(on)


def _mask(formula: Formula, shown: Seen | None, query: Tensor, key: Tensor, at: Positions) -> Tensor | None:
    """What is added to scores; rows that see nothing are left open, and zeroed afterwards."""
    batch, _, queries, _ = query.shape
    if formula.bias is None:
        return None if shown is None else shown.over(batch, queries, key.shape[2], query.dtype)
    bias = formula.bias(at).to(query.dtype)
    mask = bias if shown is None else shown.mask(query.dtype) + bias
    return mask.expand(batch, -1, queries, key.shape[2])
