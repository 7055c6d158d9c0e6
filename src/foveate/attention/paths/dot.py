"""What kernels for softmax over dot products have in common: whom they serve, and what they are given."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from foveate.attention.check import require_equal_width
from foveate.attention.normaliser import Softmax, softmax_temperature
from foveate.attention.paths.hidden import finite, nothing_to_silence, silence, weigh
from foveate.attention.paths.path import Formula, share_heads
from foveate.attention.position import Positions
from foveate.attention.score import Product, checked_form, form_of


class Dots(NamedTuple):
    """softmax(scale · query keyᵀ) value, with queries and keys as the score sees them."""

    query: Float[Tensor, "batch heads query dim"]
    key: Float[Tensor, "batch heads key dim"]
    value: Float[Tensor, "batch heads key value_head_dim"]
    scale: float


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
    formula: Formula,
    query: Float[Tensor, "batch heads query query_dim"],
    key: Float[Tensor, "batch kv_heads key key_dim"],
    value: Float[Tensor, "batch kv_heads key value_head_dim"],
    at: Positions,
    key_features: Float[Tensor, "batch #heads key feature"] | None,
    hide: Callable[..., tuple[Tensor, ...]] | None,
    *,
    reads_hidden: bool = True,
) -> Dots:
    """What a kernel multiplies. `hide` zeroes hidden keys and values, before the score's weights could meet them; a
    kernel that does not read what is hidden needs it only there.
    """
    form, (_, heads, _, width), shape = checked_form(formula.score), query.shape, key.shape
    if not reads_hidden and hide is not None and (form.is_plain or finite(key)):
        hide = None
    if hide is None and key_features is None and form.is_plain and shape[1] == heads and shape[3] == width:
        query, factor = form.scaled(query)
        return _alike(Dots(query, key, value, factor / _temperature(formula)))
    key, value = share_heads(key, heads), share_heads(value, heads)
    query = form.of_query(query)
    if form.features_at is not None:
        key_features = form.features_at(at)
    features = None if key_features is None else key_features.expand(len(query), heads, -1, -1)
    if hide is not None:
        key, value = hide(key if features is None else features, value)
        features = None if features is None else key
    features = form.of_key(key) if features is None else features
    width = query.shape[-1]
    if width != features.shape[-1]:
        require_equal_width(type(formula.score).__name__, query, features, formed=not form.is_plain)
    query, factor = form.scaled(query)
    return _alike(Dots(query, features, value, factor / _temperature(formula)))


def safe_dots(
    formula: Formula,
    query: Float[Tensor, "batch heads query query_dim"],
    key: Float[Tensor, "batch kv_heads key key_dim"],
    value: Float[Tensor, "batch kv_heads key value_head_dim"],
    at: Positions,
    key_features: Float[Tensor, "batch #heads key feature"] | None,
    visible: Bool[Tensor, "#batch #heads #query #key"] | None,
) -> Dots | None:
    """What a kernel multiplies that gives hidden pairs the weight 0; None where something hidden would reach the
    context all the same, for 0 · NaN is NaN. `visible` is None for a triangle that the kernel knows.
    """
    nothing = nothing_to_silence(formula.visibility, at)
    alike = visible is not None and visible.shape[-2] == 1
    if (nothing and alike) or finite(key if key_features is None else key_features, value):
        return dots(formula, query, key, value, at, key_features, None)
    if nothing or visible is None:
        return None
    inputs = dots(formula, query, key, value, at, key_features, partial(silence, visible))
    return inputs if alike or finite(inputs.key, inputs.value) else None


def attended(
    query: Float[Tensor, "batch heads query dim"],
    key: Float[Tensor, "batch heads key dim"],
    value: Float[Tensor, "batch heads key value_head_dim"],
    scale: float,
    *,
    visible: Bool[Tensor, "#batch #heads #query #key"] | None = None,
    bias: Float[Tensor, "#batch #heads #query #key"] | None = None,
) -> Float[Tensor, "batch heads query value_head_dim"]:
    """What all these kernels compute, in operations that torch differentiates as often as it is asked."""
    precise = torch.promote_types(query.dtype, torch.float32)
    query, keys, values = query.to(precise), key.to(precise), value.to(precise)
    if visible is not None:
        keys, values = silence(visible, keys, values)
    scores = scale * query @ keys.mT
    scores = scores if bias is None else scores + bias.to(precise)
    if visible is None:
        visible = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=query.device)
    return weigh(Softmax()(scores, visible), values, visible).to(value.dtype)


def _alike(inputs: Dots) -> Dots:
    """In the number type of autocast, as for torch's own kernel: a backward pass of ours runs without autocast.

    A scale that is not positive is multiplied in: kernels that hide by −∞ before they scale would show what is hidden,
    and products by 0 may be skipped, so that what the memory held before is taken for scores.
    """
    if inputs.scale <= 0:
        inputs = inputs._replace(query=inputs.query * inputs.scale, scale=1.0)
    device = "cpu" if inputs.query.is_cpu else inputs.query.device.type  # the first takes a quarter of the time
    if not torch.is_autocast_enabled(device) or inputs.query.dtype == torch.float64:
        return inputs
    query, key, value = (tensor.to(torch.get_autocast_dtype(device)) for tensor in inputs[:3])
    return Dots(query, key, value, inputs.scale)


def _temperature(formula: Formula) -> float:
    temperature = softmax_temperature(formula.normaliser)
    assert temperature is not None
    return temperature
