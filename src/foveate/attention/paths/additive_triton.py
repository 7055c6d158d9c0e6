"""Additive attention on a GPU: which formulas the Triton kernels serve, and what they are handed."""

import math
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor

from foveate.attention.normaliser import softmax_temperature
from foveate.attention.paths import pairwise_triton
from foveate.attention.paths.hidden import nothing_to_silence, silence
from foveate.attention.paths.materialised import ChunkedPath, visible_keys
from foveate.attention.paths.pairwise_triton import Seen
from foveate.attention.paths.path import Cost, Formula, share_heads, tracing_reasons
from foveate.attention.position import Positions
from foveate.attention.score import checked_form
from foveate.attention.score.form import terms
from foveate.attention.visibility import Visibility

UNBOUNDED = 2**30
"""As many positions as no sequence has."""


def reasons(formula: Formula, query: Tensor) -> list[str]:
    """Why the kernels do not serve this attention on this GPU; empty when they do."""
    reasons_against = []
    if query.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        reasons_against.append(f"computes in float32, not in {query.dtype}")
    if softmax_temperature(formula.normaliser) is None:
        reasons_against.append(f"on a GPU only softmax, not {formula.normaliser}")
    if formula.reweight is not None:
        reasons_against.append("weights are reweighted after softmax")
    reasons_against += tracing_reasons()
    if not reasons_against and (missing := pairwise_triton.unavailable(query.device)):
        reasons_against.append(missing)
    return reasons_against


def cost(formula: Formula, query: Tensor, key: Tensor, *, training: bool) -> Cost:
    """Features twice, as they are and transposed; a mask or a bias in full where the kernels do not know the rule."""
    matrices, hidden, least = query.shape[0] * query.shape[1], terms(formula.score), 16
    queries = -(-query.shape[2] // least) * least
    pairs = float(matrices * queries * key.shape[2])
    room = 8.0 * matrices * (queries + key.shape[2]) * hidden
    room += 0.0 if knows(formula.visibility) else float(query.shape[0] * query.shape[2] * key.shape[2])
    room += 0.0 if formula.bias is None else 4.0 * query.shape[1] * query.shape[2] * key.shape[2]
    room += min(float(pairwise_triton.ROOM), 8.0 * pairs) if training else 0.0
    return Cost(5.0 * pairs * hidden, room)


def knows(rule: Visibility) -> bool:
    """Whether the kernels find out themselves who sees whom, from positions and one mask over the keys."""
    return not any(part.reads_query_position for part in rule.split().rest)


def seen_under(rule: Visibility, at: Positions) -> Seen:
    """The rule as the kernels read it: how far a query sees, and a mask for the rest."""
    (left, right), pads, rest = rule.split()
    masks = [part(at) for part in rest]
    if pads and at.real is not None:
        masks.append(at.real)
    mask = reduce(torch.logical_and, masks) if masks else None
    if left == right == math.inf:
        return Seen(mask)
    near, far = (int(min(count, UNBOUNDED)) for count in (left, right))
    return Seen(mask, at.query, at.key, near, far)


def context(
    formula: Formula,
    query: Float[Tensor, "batch heads query query_dim"],
    key: Float[Tensor, "batch kv_heads key key_dim"],
    value: Float[Tensor, "batch kv_heads key value_head_dim"],
    *,
    at: Positions,
    key_features: Float[Tensor, "batch #heads key feature"] | None,
    dropout: float,
) -> Float[Tensor, "batch heads query value_head_dim"]:
    """What the formula says. Where weights are dropped, or a value that only some may see is not finite, plain torch
    computes it in blocks.
    """
    form, normaliser, rule = checked_form(formula.score), formula.normaliser, formula.visibility
    temperature = softmax_temperature(normaliser)
    assert temperature is not None
    heads = query.shape[1]
    keys, values = share_heads(key, heads) if key_features is None else None, share_heads(value, heads)
    shown = None
    if not nothing_to_silence(rule, at):
        shown = visible_keys(rule, at, max(1, pairwise_triton.ROOM // max(1, query.shape[0] * heads * key.shape[2])))
        (values,) = silence(shown, values)
        keys = None if keys is None else silence(shown, keys)[0]
    if dropout or (rule.reads_query_position and not bool(values.detach().isfinite().all())):
        blocks = ChunkedPath()
        return blocks.run(formula, query, key, value, at=at, key_features=key_features, dropout=dropout)
    if keys is not None:
        key_features = form.of_key(keys)
    elif shown is not None and key_features is not None:
        (key_features,) = silence(shown, key_features.expand(-1, heads, -1, -1))
    assert key_features is not None
    queries = form.of_query(query)
    form.require_agreement(formula.score, queries, key_features)
    vector = form.vector.float() / temperature
    bias = None if formula.bias is None else formula.bias(at).float() / temperature
    features = queries, key_features, vector, values
    return pairwise_triton.attend(*features, sight=seen_under(rule, at), bias=bias, leak=form.slope)
