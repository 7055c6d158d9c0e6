"""Additive attention (Bahdanau et al. 2015) and GATv2 over all pairs without the (query, key, hidden) tensor."""

import torch
from jaxtyping import Float
from torch import Tensor

from foveate.attention.normaliser import softmax_temperature
from foveate.attention.paths import additive_triton
from foveate.attention.paths.hidden import nothing_to_silence, silence, suits_few, weigh, weigh_few
from foveate.attention.paths.materialised import visible_keys
from foveate.attention.paths.pairwise_cpp import pair_weights, unavailable
from foveate.attention.paths.path import Cost, Formula, cutting_reasons, share_heads, tracing_reasons
from foveate.attention.paths.recomputation import by_rows
from foveate.attention.position import Positions, traced
from foveate.attention.score import PairNetwork, checked_form, form_of
from foveate.attention.score.form import terms

ROOM = 2**26
"""Bytes that the weights may take; where they would take more, blocks of queries come one after the other."""


class AdditivePath:
    """vᵀ tanh(W_q q + W_k k) in one native kernel, with softmax or before any other normaliser; leaky ReLU for tanh in
    those of graph attention (GATv2).

    Hidden pairs cost nothing. Memory is O((query + key) · hidden) and the weights, or a block of them; the backward
    pass computes the terms again. On a GPU the kernels are Triton's and hold softmax and the context too: no weights
    are kept, and other normalisers are refused.
    """

    name = "additive"
    by_kind = True

    def refuses(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> list[str]:
        reasons = []
        form = form_of(formula.score)
        if not isinstance(form, PairNetwork) or form.vector is None or form.between is not None:
            reasons.append(f"{type(formula.score).__name__} is not a sum of tanh or leaky ReLU")
        if key.device.type not in ("cpu", "cuda"):
            reasons.append(f"made for CPUs and CUDA, not for {key.device.type}")
        if reasons:
            return reasons
        if key.device.type == "cuda":
            return additive_triton.reasons(formula, query)
        if query.dtype not in (torch.float32, torch.bfloat16):
            reasons.append(f"computes in float32, not in {query.dtype}")
        reasons += tracing_reasons()
        if query.shape[2] > _rows(query, key):
            reasons += cutting_reasons(formula)
        if not reasons and (missing := unavailable()):
            reasons.append(missing)
        return reasons

    def cost(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> Cost:
        if key.device.type == "cuda":
            return additive_triton.cost(formula, query, key, training=torch.is_grad_enabled())
        matrices, hidden = query.shape[0] * query.shape[1], terms(formula.score)
        pairs = matrices * query.shape[2] * key.shape[2]
        rows = min(_rows(query, key), query.shape[2])
        features = 2.0 * matrices * (query.shape[2] + key.shape[2]) * hidden
        room = 4.0 * (features + 3.0 * matrices * rows * key.shape[2])
        return Cost(5.0 * pairs * hidden, room)

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
        if key.device.type == "cuda":
            return additive_triton.context(
                formula, query, key, value, at=at, key_features=key_features, dropout=dropout
            )
        form, rows = checked_form(formula.score), _rows(query, key)
        hides, once = formula.visibility.hides, query.shape[2] <= rows
        visible = formula.visibility(at) if hides and once else None
        values = share_heads(value, query.shape[1])
        if hides and not nothing_to_silence(formula.visibility, at):
            shown = visible_keys(formula.visibility, at, rows) if visible is None else visible
            values = values if suits_few(query, values) else silence(shown, values)[0]
            key = key if key_features is not None else silence(shown, share_heads(key, query.shape[1]))[0]
        if key_features is None:
            key_features = form.of_key(share_heads(key, query.shape[1]))

        def block(query: Tensor, at: Positions, features: Tensor, values: Tensor) -> Tensor:
            here = formula.visibility(at) if hides and visible is None else visible
            weights = _weights(formula, form, form.of_query(query), features, here, at)
            dropped = torch.nn.functional.dropout(weights, dropout) if dropout else weights
            if suits_few(query, values):
                return weigh_few(dropped, values, here)
            return weigh(dropped.to(query.dtype), values, _ALL if here is None else here)

        return by_rows(block, query, at, rows, key_features.float(), values)


def looked_back(
    formula: Formula,
    query: Float[Tensor, "batch heads query query_dim"],
    key: Float[Tensor, "batch kv_heads key key_dim"],
    value: Float[Tensor, "batch kv_heads key value_head_dim"],
    *,
    at: Positions,
    key_features: Float[Tensor, "batch #heads key feature"] | None,
) -> tuple[Float[Tensor, "batch heads query value_head_dim"], Float[Tensor, "batch heads query key"]] | None:
    """Context and weights of one query that sees where the step before looked: for it, U f is a part of the keys.

    None where the kernel does not run, or another score is asked for.
    """
    form, heads = form_of(formula.score), query.shape[1]
    kind = (query.shape[2], query.dtype, query.device.type)
    if not isinstance(form, PairNetwork) or form.between is None or form.vector is None:
        return None
    if kind != (1, torch.float32, "cpu") or traced() or unavailable():
        return None
    visible = formula.visibility(at) if formula.visibility.hides else None
    shown = _ALL if visible is None else visible
    values, native = share_heads(value, heads), suits_few(query, value)
    if visible is not None and not nothing_to_silence(formula.visibility, at):
        values = values if native else silence(visible, values)[0]
        key = key if key_features is not None else silence(visible, share_heads(key, heads))[0]
    features = form.of_key(share_heads(key, heads)) if key_features is None else key_features
    asking, between = form.of_query(query), form.between(query, at)[:, :, 0]
    form.require_agreement(formula.score, asking, between)
    features = features + between
    weights = _weights(formula, form, asking, features, visible, at)
    context = weigh_few(weights, values, visible) if native else weigh(weights.to(value.dtype), values, shown)
    return context, weights


_ALL = torch.ones(1, 1, 1, 1, dtype=torch.bool)


def _weights(
    formula: Formula, form: PairNetwork, query: Tensor, key: Tensor, visible: Tensor | None, at: Positions
) -> Float[Tensor, "batch heads query key"]:
    """The weights, from the features of queries and of keys."""
    assert form.vector is not None
    form.require_agreement(formula.score, query, key)
    softmax = softmax_temperature(formula.normaliser) == 1.0
    bias = None if formula.bias is None else formula.bias(at).float()
    sides = query.float(), key.float(), form.vector.float()
    weights = pair_weights(*sides, visible=visible, bias=bias, softmax=softmax, slope=form.slope)
    if not softmax:
        weights = formula.normaliser(weights, _ALL if visible is None else visible)
    return weights if formula.reweight is None else weights * formula.reweight(at).exp().float()


def _rows(query: Tensor, key: Tensor) -> int:
    return max(1, ROOM // max(1, 4 * query.shape[0] * query.shape[1] * key.shape[2]))
