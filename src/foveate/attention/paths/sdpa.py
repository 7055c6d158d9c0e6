"""torch's fused scaled dot-product attention, where it computes exactly what was asked."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from foveate.attention.normaliser import Softmax
from foveate.attention.paths.hidden import finite, nothing_to_silence, silence, some_row_is_empty
from foveate.attention.paths.materialised import materialise
from foveate.attention.paths.path import Cost, Formula, share_heads
from foveate.attention.position import Positions
from foveate.attention.score import Dot, General
from foveate.attention.visibility import Causal, Everything


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
        if isinstance(formula.visibility, Causal) and formula.bias is None:
            return Cost(flops / 2, 0.0)
        return Cost(flops, float(pairs // query.shape[1]) * (1 if formula.bias is None else query.element_size()))

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
        score = formula.score
        assert isinstance(score, Dot | General)
        heads = query.shape[1]
        if key_features is None:
            key_features = score.key_features(share_heads(key, heads))
        features, values = key_features.expand(-1, heads, -1, -1), share_heads(value, heads)
        triangle = isinstance(formula.visibility, Causal) and at.aligned and formula.bias is None
        visible = None if triangle or isinstance(formula.visibility, Everything) else formula.visibility(at)
        if visible is not None and not nothing_to_silence(formula.visibility, at):
            features, values = silence(visible, features, values)
        if (triangle or (visible is not None and visible.shape[-2] > 1)) and not finite(features, values):
            # The kernel multiplies hidden values by 0, and 0 · NaN is NaN: only the reference keeps it from leaking.
            return materialise(formula, query, key, value, at=at, key_features=key_features, dropout=dropout).context
        mask = None if visible is None and formula.bias is None else _mask(formula, visible, query, key, at)
        context = scaled_dot_product_attention(
            query,
            features,
            values,
            attn_mask=mask,
            dropout_p=dropout,
            is_causal=triangle,
            scale=dot_product_scale(formula, query),
        )
        if visible is None or not some_row_is_empty(visible):
            return context
        return torch.where(visible.any(-1, keepdim=True), context, 0.0)


def dot_product_reasons(formula: Formula, query: Tensor, key: Tensor) -> list[str]:
    """Why this is not softmax over dot products; empty when it is."""
    reasons = []
    if not isinstance(formula.score, Dot | General):
        reasons.append(f"{type(formula.score).__name__} is not a dot product")
    if isinstance(formula.score, Dot) and query.shape[-1] != key.shape[-1]:
        reasons.append(f"queries are {query.shape[-1]} wide and keys {key.shape[-1]}")
    if type(formula.normaliser) is not Softmax:
        reasons.append(f"{formula.normaliser} is not softmax")
    elif formula.normaliser.temperature != 1.0 and formula.bias is not None:
        reasons.append("the temperature divides the bias too")
    if formula.reweight is not None:
        reasons.append("weights are reweighted after softmax")
    if query.dtype not in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        reasons.append(f"no kernel for {query.dtype}")
    return reasons


def dot_product_scale(formula: Formula, query: Tensor) -> float:
    """What multiplies the products of queries and key features: the score's factor, divided by the temperature."""
    factor = formula.score.factor(query.shape[-1]) if isinstance(formula.score, Dot) else 1.0
    return factor / formula.normaliser.temperature if isinstance(formula.normaliser, Softmax) else factor


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
