"""What of a model other engines can say: plain dot products, softmax, sentences seen whole or from left to right."""

from collections.abc import Iterator, Sequence
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.attention import Attention, Visibility, causal, padding
from foveate.attention.claim import claim, is_hooked
from foveate.attention.normaliser import softmax_temperature
from foveate.attention.score import dot_factor
from foveate.errors import UsageError
from foveate.models import Seq2Seq, Transformer
from foveate.nn.embed import Tokens
from foveate.nn.multihead import MultiHeadAttention
from foveate.nn.position_vector import NoPosition, UnitInterval
from foveate.nn.ran import RANEncoder
from foveate.nn.transformer_block import DecoderBlock, EncoderBlock

POSITIONS = 2048
"""Positions that an exported table has where the model itself has no limit."""


OURS = ("foveate.", "torch.nn.modules.")
"""Where classes of modules are defined whose formula is known."""


def exchanged(model: nn.Module) -> list[str]:
    """The layers that compute something of their own: hooked, parametrised, or of a class that is not known here. Parts
    of an attention that write themselves as operators are known.
    """
    sites = [site for site in model.modules() if isinstance(site, Attention)]
    parts = (part for site in sites for part in (site.score, site.bias, site.normaliser, *site.transforms))
    written = {id(part) for part in parts if claim(part, "onnx") is not None}
    others = {
        name: "has a hook or a forward of its own" if is_hooked(module) else f"is a {type(module).__name__}"
        for name, module in model.named_modules()
        if is_hooked(module) or not (type(module).__module__.startswith(OURS) or id(module) in written)
    }
    return [f"{name or 'the model'} {what}, whose formula nobody here knows" for name, what in others.items()]


def input_refusals(model: nn.Module) -> list[str]:
    """Why a model has no graph that begins with ids; empty for one that reads tokens."""
    source = getattr(model, "input", None)
    return [] if source is None or isinstance(source, Tokens) else [f"its input is {source}, and graphs begin with ids"]


def transformer_refusals(model: Seq2Seq) -> list[str]:
    """Why a model is not a plain Transformer; empty for one with nothing but dot products, softmax and the usual rules.

    Position vectors may be any that depend on the place alone: they become a table.
    """
    if not isinstance(model, Transformer):
        return [f"the model is a {type(model).__name__}, not a Transformer"]
    if isinstance(model.encoder, RANEncoder):
        return ["its encoder is a recurrent attention network"]
    reasons = [*exchanged(model), *input_refusals(model)]
    for site, attention, rule in _sites(model):
        reasons += multihead_refusals(site, attention, rule)
    if isinstance(model.position, UnitInterval):
        reasons.append("its positions depend on the length of the sentence")
    return reasons


def multihead_refusals(site: str, attention: MultiHeadAttention, rule: Visibility) -> list[str]:
    """What of an attention in a Transformer is not plain."""
    reasons = attention_refusals(attention.attention, rule)
    if attention.num_kv_heads != attention.num_heads:
        reasons.append("heads share keys and values")
    return [f"{site}: {reason}" for reason in reasons]


def attention_refusals(attention: nn.Module | object, rule: Visibility) -> list[str]:
    """What of an attention is not a dot product with softmax over what the usual rule shows."""
    if not isinstance(attention, Attention):
        return [f"{type(attention).__name__} is a formula of its own"]
    reasons = [f"its score is {_name(attention.score)}"] if dot_factor(attention.score, 1) is None else []
    return reasons + rule_refusals(attention, rule)


def rule_refusals(attention: Attention, rule: Visibility) -> list[str]:
    """What of an attention, beside its score, is not softmax over what the usual rule shows."""
    reasons = always_refused(attention)
    if attention.visibility != rule:
        reasons.append(f"its visibility is {attention.visibility}")
    if attention.bias is not None:
        reasons.append("it has a bias")
    return reasons + (["queries and keys are transformed before they are scored"] if attention.transforms else [])


def always_refused(attention: Attention) -> list[str]:
    """What of an attention no other engine is told about."""
    reasons = [f"its normaliser is {_name(attention.normaliser)}"]
    reasons = [] if softmax_temperature(attention.normaliser) == 1.0 else reasons
    return reasons + extra_refusals(attention)


def extra_refusals(attention: Attention) -> list[str]:
    """What of an attention depends on more than scores and places."""
    extras = {"reweighting": attention.reweight, "centre": attention.centre}
    return [f"it has a {name}" for name, part in extras.items() if part is not None]


def require(reasons: list[str], target: str, instead: str) -> None:
    """Raises UsageError with the reasons why a model cannot be said in a target's terms."""
    if reasons:
        more = f" ({len(reasons) - 3} more)" if len(reasons) > 3 else ""
        raise UsageError(f"{target} cannot express this model: {'; '.join(reasons[:3])}{more}. {instead}")


def score_factor(attention: MultiHeadAttention) -> float:
    """What multiplies the products of queries and keys."""
    inner = attention.attention
    assert isinstance(inner, Attention)
    factor = dot_factor(inner.score, attention.head_dim)
    assert factor is not None
    return factor


def position_table(position: nn.Module, model_dim: int, limit: int | None) -> Float[Tensor, "length model_dim"] | None:
    """The position vectors from 0 up to the limit, or `POSITIONS` of them; None where there are none."""
    if type(position) is NoPosition:
        return None
    with torch.no_grad():
        return position(torch.arange(limit or POSITIONS)).float().reshape(-1, model_dim)


def _sites(model: Transformer) -> Iterator[tuple[str, MultiHeadAttention, Visibility]]:
    encoder, decoder = cast(Sequence[EncoderBlock], model.encoder), cast(Sequence[DecoderBlock], model.decoder)
    for number, block in enumerate(encoder):
        yield f"encoder layer {number}", block.attention, padding()
    for number, layer in enumerate(decoder):
        yield f"decoder layer {number}", layer.attention, causal()
        yield f"cross-attention of layer {number}", layer.cross_attention, padding()


def _name(part: object) -> str:
    return part.__name__ if isinstance(part, type) else type(part).__name__
