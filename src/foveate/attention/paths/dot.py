"""Softmax over dot products: which attentions are one, and the inputs that its kernels multiply."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from foveate.attention.check import require_equal_width
from foveate.attention.normaliser import Softmax, softmax_temperature
from foveate.attention.paths.hidden import RuleMask, finite, nothing_to_silence, silence, weigh
from foveate.attention.paths.path import Formula, Inputs, share_heads
from foveate.attention.score import Product, checked_form, form_of

Dots = tuple[Tensor, Tensor, Tensor, float]
"""Query, key, value and scale in softmax(scale · query keyᵀ) value, where queries and keys are features that the score
makes, and keys have the heads of the queries. A tuple with names would take 0.2 µs more."""


def dot_product_reasons(formula: Formula, query: Tensor, key: Tensor) -> list[str]:
    """Why this is not softmax over dot products; empty when it is."""
    reasons = []
    if not isinstance(form_of(formula.score), Product):
        reasons.append(f"{type(formula.score).__name__} is not a dot product")
    temperature = softmax_temperature(formula.normaliser)
    if temperature is None:
        reasons.append(f"{formula.normaliser} is not softmax")
    elif temperature != 1.0 and formula.bias is not None:
        reasons.append("the temperature divides the bias too")
    if formula.reweight is not None:
        reasons.append("weights are reweighted after softmax")
    if query.dtype not in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        reasons.append(f"no kernel for {query.dtype}")
    return reasons


def dots(
    inputs: Inputs, visible: Bool[Tensor, "#batch #heads #query #key"] | None, *, reads_hidden: bool = True
) -> Dots:
    """The inputs of a kernel. Keys and values that no query sees are zeroed before the score's weights multiply them; a
    kernel that does not read hidden keys needs this only if the score has weights.
    """
    formula, query, key, value, at, key_features, _ = inputs
    form, (_, heads, _, width), shape = checked_form(formula.score), query.shape, key.shape
    if not reads_hidden and visible is not None and (form.is_plain or finite(key)):
        visible = None
    if visible is None and key_features is None and form.is_plain and shape[1] == heads and shape[3] == width:
        return _dots(formula, form, query, key, value)
    key, value = share_heads(key, heads), share_heads(value, heads)
    query = form.of_query(query)
    if form.features_at is not None:
        key_features = form.features_at(at)
    features = None if key_features is None else key_features.expand(len(query), heads, -1, -1)
    if visible is not None:
        key, value = silence(visible, key if features is None else features, value)
        features = None if features is None else key
    features = form.of_key(key) if features is None else features
    if query.shape[3] != features.shape[3]:
        require_equal_width(type(formula.score).__name__, query, features, formed=not form.is_plain)
    return _dots(formula, form, query, features, value)


def safe_dots(inputs: Inputs, mask: RuleMask | None, *, triangle: bool = False) -> Dots | None:
    """The inputs of a kernel that gives hidden pairs the weight 0, by the mask or as a triangle; None where a hidden
    number would reach the context nevertheless, because 0 · NaN is NaN.
    """
    if mask is None and not triangle:
        return dots(inputs, None)
    key, features = inputs.key, inputs.key_features
    nothing = nothing_to_silence(inputs.formula.visibility, inputs.at)
    alike = mask is not None and mask.visible.shape[-2] == 1
    if (nothing and alike) or finite(key if features is None else features, inputs.value):
        return dots(inputs, None)
    if nothing or mask is None:
        return None
    query, key, value, scale = dots(inputs, mask.visible)
    return (query, key, value, scale) if alike or finite(key, value) else None


def attended(
    query: Float[Tensor, "batch heads query dim"],
    key: Float[Tensor, "batch heads key dim"],
    value: Float[Tensor, "batch heads key value_head_dim"],
    scale: float,
    *,
    visible: Bool[Tensor, "#batch #heads #query #key"] | None = None,
    bias: Float[Tensor, "#batch #heads #query #key"] | None = None,
) -> Float[Tensor, "batch heads query value_head_dim"]:
    """The definition of what these kernels compute, in operations that have derivatives of any order."""
    precise = torch.promote_types(query.dtype, torch.float32)
    query, keys, values = query.to(precise), key.to(precise), value.to(precise)
    if visible is None:
        visible = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=query.device)
    else:
        keys, values = silence(visible, keys, values)
    scores = scale * query @ keys.mT
    scores = scores if bias is None else scores + bias.to(precise)
    return weigh(Softmax()(scores, visible), values, visible).to(value.dtype)


def _dots(formula: Formula, form: Product, query: Tensor, key: Tensor, value: Tensor) -> Dots:
    """In the number type of autocast, as for torch's own kernel: a backward pass of ours runs without autocast.

    A scale that is not positive is multiplied into the queries: kernels that hide by −∞ before they scale would show
    hidden keys, and products by 0 may be skipped, so that uninitialised memory is taken for scores.
    """
    query, factor = form.scaled(query)
    temperature = softmax_temperature(formula.normaliser)
    assert temperature is not None
    scale = factor / temperature
    if scale <= 0:
        query, scale = query * scale, 1.0
    device = "cpu" if query.is_cpu else query.device.type  # `is_cpu` takes a quarter of the time
    if torch.is_autocast_enabled(device) and query.dtype != torch.float64:
        light = torch.get_autocast_dtype(device)
        query, key, value = query.to(light), key.to(light), value.to(light)
    return query, key, value, scale
