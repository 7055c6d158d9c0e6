"""The two functions that the transformers library calls: one for masks, one for attention."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.attention import Mechanism, ScaledDot, causal, everything, padding
from foveate.errors import SetupError, UsageError
from foveate.hugging_face.guest_formula import Guest
from foveate.hugging_face.mask import GIVEN, Sight, sight
from foveate.hugging_face.standing import Standing

NAME = "foveate"
"""The name of our attention: `model.set_attn_implementation("foveate")`."""
CHILD = "foveate"
"""The name of a mechanism as a submodule of a model's attention module."""
REFUSED = {
    "indices": "keys selected by index",
    "block_indices": "blocks of keys selected by index",
    "sinks": "sinks that are vectors",
    "cache": "a paged cache",
}
"""Arguments of attentions that are not supported, with their meaning."""
_unnamed: "WeakKeyDictionary[nn.Module, Guest]" = WeakKeyDictionary()


def register() -> str:
    """Register our attention with the library, for masks and for attention, and return its name.

    This does not compare results. `attend` also runs a small padded batch with both attentions and refuses a model
    whose results would change.

    >>> register()
    'foveate'

    Raises SetupError without the library.
    """
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
    except ImportError as error:
        raise SetupError("Models of Hugging Face need transformers 5 or newer: `pip install 'foveate[hf]'`.") from error
    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, mask)
    return NAME


def mask(**demands: Any) -> Sight:
    """A mask of the library as a rule."""
    from transformers.masking_utils import sdpa_mask

    return sight(exact=sdpa_mask, **demands)


def attention(
    module: nn.Module,
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    value: Float[Tensor, "batch kv_heads key value_head_dim"],
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **others: Any,
) -> tuple[Float[Tensor, "batch query heads value_head_dim"], Float[Tensor, "batch heads query key"] | None]:
    """The function that the library calls for every attention. It returns weights if the caller asks for them."""
    for name, meaning in REFUSED.items():
        if others.get(name) is not None:
            raise UsageError(
                f"{type(module).__name__} has {meaning}, which foveate does not support. "
                "Set its attention to the library's: model.set_attn_implementation('eager')."
            )
    query = query.expand(key.shape[0], -1, -1, -1)  # trained queries may be shared by all examples
    looks = getattr(module, "is_causal", True) if is_causal is None else is_causal
    at = _standing(query, key, attention_mask, bool(looks))
    added = _sum(at.added, None if position_bias is None else position_bias[..., : key.shape[2]])
    at = replace(at, scale=scaling, cap=softcap, sinks=s_aux, added=added)
    mechanism: Any = module._modules.get(CHILD) or _unnamed.get(module)
    if mechanism is None:
        mechanism = _unnamed[module] = Guest()
    if not isinstance(mechanism, Guest):
        query, at = _plain(module, mechanism, query, at)
    context = mechanism.run(query, key, value, at=at, dropout=dropout)
    weights = mechanism.explain(query, key, value, at=at).weights if _weights_wanted(others) else None
    return context.transpose(1, 2).contiguous(), weights


def _standing(query: Tensor, key: Tensor, mask: Tensor | None, looks_back: bool) -> Standing:
    """The positions and the rule of a call, from any kind of mask."""
    lengths = (query.shape[2], key.shape[2])
    if isinstance(mask, Sight) and (mask.at.query.shape[2], mask.at.key.shape[3]) == lengths:
        return mask.at
    if mask is None:
        # One query without a mask is a decoder's next step: its position is the last.
        start = 0 if lengths[0] > 1 else lengths[1] - 1
        rule = causal() if looks_back else everything()
        return Standing.between(*lengths, query_start=start, rule=rule, device=key.device).simplified()
    pairs = mask.visible() if isinstance(mask, Sight) else mask
    pairs = pairs[..., : lengths[1]]
    at = Standing.between(*lengths, query_start=max(lengths[1] - lengths[0], 0), rule=GIVEN, device=key.device)
    if pairs.dtype == torch.bool:
        return replace(at, shown=pairs)
    shown = pairs > torch.finfo(pairs.dtype).min / 2
    floats = torch.where(shown, pairs, 0.0)
    return replace(at, shown=shown, added=floats if bool(floats.any()) else None)


def _plain(module: nn.Module, mechanism: Mechanism, query: Tensor, at: Standing) -> tuple[Tensor, Standing]:
    """The queries, multiplied by a scale, for mechanisms with another formula. Refuses demands that they do not
    support.
    """
    beyond = {"floats added to its scores": at.added, "capped scores": at.cap, "sinks": at.sinks}
    reasons = [what for what, part in beyond.items() if part is not None]
    rule = at.rule if at.whole is None else at.whole
    if rule & padding() != mechanism.visibility & padding():
        reasons.append(f"the rule {rule}, but {type(mechanism).__name__} was built for {mechanism.visibility}")
    if reasons:
        raise UsageError(
            f"{type(module).__name__} has {', '.join(reasons)}: {type(mechanism).__name__} does not support that. "
            "Use it in other layers, or use an Attention in this layer."
        )
    if at.scale is None:
        return query, at
    return query * (at.scale / ScaledDot().factor(query.shape[-1])), at


def _sum(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return other if one is None else one if other is None else one + other


def _weights_wanted(others: dict[str, Any]) -> bool:
    """Whether the caller asks for weights: by an argument, or by the library's collector of outputs."""
    if others.get("output_attentions"):
        return True
    collector: Callable[[], Any] = _collector()
    return any("attentions" in name for name in collector() or ())


def _collector() -> Callable[[], Any]:
    try:
        from transformers.utils.output_capturing import _active_collector
    except ImportError:
        return lambda: None
    return _active_collector.get
