"""Checks whether other engines can express a model: plain dot products, softmax, and full or causal visibility."""

from collections.abc import Iterator, Sequence
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from foveate.attention import Attention, Visibility, causal, padding
from foveate.attention.claim import claim, is_hooked
from foveate.attention.normaliser import softmax_temperature
from foveate.attention.score import dot_factor
from foveate.errors import UsageError
from foveate.models import Seq2Seq, Transformer
from foveate.nn.embed import Tokens, Vectors
from foveate.nn.multihead import MultiHeadAttention
from foveate.nn.position_vector import BinaryCode, NoPosition, UnitInterval
from foveate.nn.ran import RANEncoder
from foveate.nn.transformer_block import DecoderBlock, EncoderBlock

POSITIONS = 2048
"""The number of positions in an exported table if the model has no limit."""


OURS = ("foveate.", "torch.nn.modules.")
"""The packages of modules with a known formula."""


def unknown_layers(model: nn.Module) -> list[str]:
    """The layers with an unknown formula: layers with hooks or parametrisations, and layers of unknown classes. Parts
    of an attention that export themselves are known.
    """
    sites = [site for site in model.modules() if isinstance(site, Attention)]
    parts = (part for site in sites for part in (site.score, site.bias, site.normaliser, *site.transforms))
    written = {id(part) for part in parts if claim(part, "onnx") is not None}
    others = {
        name: "has a hook or a method of its own" if _is_changed(module) else f"is a {type(module).__name__}"
        for name, module in model.named_modules()
        if _is_changed(module) or not (type(module).__module__.startswith(OURS) or id(module) in written)
    }
    reasons = [f"{name or 'the model'} {what}, whose formula is unknown" for name, what in others.items()]
    return [*reasons, *(["all modules have a hook, whose formula is unknown"] if _has_any_global_hook() else [])]


def _is_changed(module: nn.Module) -> bool:
    """Whether a module computes something else than its class."""
    return is_hooked(module) or any(callable(getattr(type(module), name, None)) for name in vars(module))


def input_refusals(model: nn.Module, kinds: tuple[type, ...] = (Tokens,)) -> list[str]:
    """Why the input of a model cannot be exported; empty for an input of these kinds."""
    source = getattr(model, "input", None)
    if source is None or isinstance(source, kinds):
        return []
    supported = " and ".join("vectors" if kind is Vectors else "ids" for kind in kinds)
    return [f"its input is {source}, but graphs support only {supported}"]


def transformer_refusals(model: Seq2Seq) -> list[str]:
    """Why a model is not a plain Transformer; empty if it has only dot products, softmax and the usual rules.

    Position vectors that depend on the position only are supported, as a table.
    """
    if not isinstance(model, Transformer):
        return [f"the model is a {type(model).__name__}, not a Transformer"]
    if isinstance(model.encoder, RANEncoder):
        return ["its encoder is a recurrent attention network"]
    reasons = [*unknown_layers(model), *input_refusals(model)]
    for site, attention, rule in _sites(model):
        reasons += multihead_refusals(site, attention, rule)
    if isinstance(model.position, UnitInterval):
        reasons.append("its positions depend on the length of the sentence")
    return reasons


def multihead_refusals(site: str, attention: MultiHeadAttention, rule: Visibility) -> list[str]:
    """The parts of an attention in a Transformer that are not plain."""
    reasons = attention_refusals(attention.attention, rule)
    if attention.num_kv_heads != attention.num_heads:
        reasons.append("heads share keys and values")
    return [f"{site}: {reason}" for reason in (*reasons, *projection_refusals(attention))]


def projection_refusals(attention: MultiHeadAttention) -> list[str]:
    """Why no engine computes the projections of an attention together."""
    reasons = []
    if attention.value_head_dim != attention.head_dim:
        reasons.append("the widths of its values and keys differ")
    if len({layer.bias is None for layer in (attention.query, attention.key, attention.value)}) > 1:
        reasons.append("some of its projections have a bias and some have none")
    return reasons


def attention_refusals(attention: nn.Module | object, rule: Visibility) -> list[str]:
    """The parts of an attention that differ from a dot product and softmax under the usual rule."""
    if not isinstance(attention, Attention):
        return [f"{type(attention).__name__} has its own formula"]
    reasons = [f"its score is {_name(attention.score)}"] if dot_factor(attention.score, 1) is None else []
    return reasons + rule_refusals(attention, rule)


def rule_refusals(attention: Attention, rule: Visibility) -> list[str]:
    """The parts of an attention, except its score, that differ from softmax under the usual rule."""
    reasons = always_refused(attention)
    if attention.visibility != rule:
        reasons.append(f"its visibility is {attention.visibility}")
    if attention.bias is not None:
        reasons.append("it has a bias")
    return reasons + (["queries and keys are transformed before they are scored"] if attention.transforms else [])


def always_refused(attention: Attention) -> list[str]:
    """The parts of an attention that cannot be exported to any engine."""
    reasons = [f"its normaliser is {_name(attention.normaliser)}"]
    reasons = [] if softmax_temperature(attention.normaliser) == 1.0 else reasons
    return reasons + extra_refusals(attention)


def extra_refusals(attention: Attention) -> list[str]:
    """The parts of an attention that depend on more than scores and positions."""
    extras = {"reweighting": attention.reweight, "centre": attention.centre}
    return [f"it has a {name}" for name, part in extras.items() if part is not None]


def require(reasons: list[str], target: str, instead: str) -> None:
    """Raise UsageError with the reasons why a target cannot express a model."""
    if reasons:
        more = f" ({len(reasons) - 3} more)" if len(reasons) > 3 else ""
        raise UsageError(f"{target} cannot express this model: {'; '.join(reasons[:3])}{more}. {instead}")


def score_factor(attention: MultiHeadAttention) -> float:
    """The factor of the products of queries and keys."""
    inner = attention.attention
    assert isinstance(inner, Attention)
    factor = dot_factor(inner.score, attention.head_dim)
    assert factor is not None
    return factor


def represented(limit: int | None, *positions: nn.Module | None) -> int:
    """The number of positions for which tables are written: as many as a model has, or `POSITIONS` if it has no limit
    or only that of its binary digits, which may be millions.
    """
    digits = any(isinstance(position, BinaryCode) for position in positions)
    return min(limit or POSITIONS, POSITIONS) if digits else limit or POSITIONS


def position_table(position: nn.Module, model_dim: int, limit: int | None) -> Float[Tensor, "length model_dim"] | None:
    """The position vectors up to the limit, or `POSITIONS` vectors; None for a model without positions."""
    if type(position) is NoPosition:
        return None
    with torch.no_grad():
        return position(torch.arange(represented(limit, position))).float().reshape(-1, model_dim)


def _sites(model: Transformer) -> Iterator[tuple[str, MultiHeadAttention, Visibility]]:
    encoder, decoder = cast(Sequence[EncoderBlock], model.encoder), cast(Sequence[DecoderBlock], model.decoder)
    for number, block in enumerate(encoder):
        yield f"encoder layer {number}", block.attention, padding()
    for number, layer in enumerate(decoder):
        yield f"decoder layer {number}", layer.attention, causal()
        yield f"cross-attention of layer {number}", layer.cross_attention, padding()


def _name(part: object) -> str:
    return part.__name__ if isinstance(part, type) else type(part).__name__
