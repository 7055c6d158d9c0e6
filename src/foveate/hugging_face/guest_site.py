"""Replaces attentions of a model by mechanisms, by the names of its modules."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from fnmatch import fnmatchcase
from inspect import unwrap
from typing import Any, Literal

from torch import nn

from foveate.attention import Attention, Mechanism, MechanismConfig, causal, everything, padding
from foveate.errors import UsageError
from foveate.hugging_face.agreement import require_agreement
from foveate.hugging_face.guest_formula import Guest
from foveate.hugging_face.interface import CHILD, NAME, register
from foveate.suggestion import did_you_mean

Chosen = Mechanism | MechanismConfig
WIDTHS = ("head_dim", "attention_head_size", "key_value_proj_dim", "d_kv")
HEADS = ("num_heads", "num_attention_heads", "n_heads", "num_q_heads", "n_head", "encoder_attention_heads")
CROSS = ("encoder_attn", "crossattention", "cross_attn", "encdecattention", "cross_attention")


def attend(
    model: nn.Module,
    mechanism: Chosen | Mapping[str, Chosen] | None = None,
    *,
    inputs: Mapping[str, Any] | None = None,
) -> dict[str, nn.Module]:
    """Replace the attentions of a model of the transformers library by ours, and return ours by name.

    Without a mechanism the results are the same as before. With a mechanism, or with a mapping from patterns of names
    to mechanisms ("*" matches anything; the last matching pattern counts), the matching layers use it. A mechanism is
    an `AttentionConfig`, the configuration of another formula, which every layer builds for itself, or an `Attention`.
    The first matching layer gets this `Attention`, every other layer a copy with its own weights. The model's own
    demands remain: its rule is combined with the new one, its scale and bias with the new score and bias. Mechanisms
    with weights become part of the model and are trained and saved with it.

    First a small padded batch always runs with the model's eager attention and with ours. A model whose results differ
    is refused and unchanged. `inputs` is that batch, for models with unusual inputs.

    Raises UsageError for a model whose attention does not use the library's interface, for one that gives other results
    here, and for a pattern without a match; ValueError for a mechanism that does not suit its layer.
    """
    register()
    names = sites_of(model)
    if not names:
        kind = getattr(getattr(model, "config", None), "model_type", type(model).__name__)
        raise UsageError(
            f"The attention of {kind} does not use the library's attention interface and cannot be replaced. The same "
            "holds for Longformer, BigBird, Reformer and LED."
        )
    choices = mechanism if isinstance(mechanism, Mapping) else {} if mechanism is None else {"*": mechanism}
    for pattern in choices:
        if not any(fits(name, pattern, model) for name in names):
            some = ", ".join(list(names)[:4])
            raise UsageError(
                f"No attention matches {pattern!r}.{did_you_mean(pattern, names)} The model has {len(names)}: {some} …"
            )
    guests: dict[str, nn.Module] = {}
    used: list[Chosen] = []
    for name, module in names.items():
        choice = next((choices[pattern] for pattern in reversed(list(choices)) if fits(name, pattern, model)), None)
        if isinstance(choice, nn.Module) and any(choice is one for one in used):
            guests[name] = _built(name, module, deepcopy(choice))
        else:
            guests[name] = _built(name, module, choice)
            used += [] if choice is None else [choice]
    require_agreement(model, names, inputs)
    for name, module in names.items():
        setattr(module, CHILD, guests[name])
    model.set_attn_implementation(NAME)  # type: ignore[operator]
    return guests


def release(model: nn.Module, implementation: str = "sdpa") -> None:
    """Remove our attentions from a model, with their weights, and select one of the library's implementations."""
    for module in sites_of(model).values():
        if CHILD in module._modules:
            delattr(module, CHILD)
    model.set_attn_implementation(implementation)  # type: ignore[operator]


def sites_of(model: nn.Module) -> dict[str, nn.Module]:
    """The modules of a model whose `forward` uses the library's attention interface, by name."""
    return {name: module for name, module in model.named_modules() if _passes(type(module))}


def fits(name: str, pattern: str, model: nn.Module) -> bool:
    """Whether a pattern matches the name of a module, in the model or in its base model: `encoder.layer.1.*` matches a
    layer of a BertModel and of a BertForMaskedLM."""
    inner = name.removeprefix(f"{getattr(model, 'base_model_prefix', '')}.")
    return fnmatchcase(name, pattern) or fnmatchcase(inner, pattern)


def kind_of(name: str, module: nn.Module) -> Literal["self", "cross"]:
    """Whether an attention attends to an encoder, judged by its name, because the library does not tell otherwise."""
    names = f"{name} {type(module).__name__}".lower()
    return "cross" if any(mark in names for mark in CROSS) else "self"


def _passes(kind: type[nn.Module]) -> bool:
    forward: Callable[..., Any] = unwrap(kind.forward)
    code = getattr(forward, "__code__", None)
    return code is not None and "ALL_ATTENTION_FUNCTIONS" in code.co_names


def _built(name: str, module: nn.Module, choice: Chosen | None) -> nn.Module:
    kind = kind_of(name, module)
    if choice is None:
        return Guest(kind=kind)
    if not isinstance(choice, Mechanism):
        looks_back = bool(getattr(module, "is_causal", False)) and kind == "self"
        head_dim, num_heads = (_number(name, module, names) for names in (WIDTHS, HEADS))
        plain = everything()
        demanded = (causal() if looks_back else plain) & padding()
        sizes: dict[str, Any] = {"query_dim": head_dim, "key_dim": head_dim, "num_heads": num_heads, "kind": kind}
        own = choice.build(**sizes, visibility=plain)
        choice = own if type(own) is Attention else choice.build(**sizes, visibility=demanded)
    # A subclass may have its own formula, which its parts do not determine.
    if isinstance(choice, Attention) and type(choice) in (Attention, Guest):
        return Guest.of(choice, kind)
    assert isinstance(choice, nn.Module)
    return choice


def _number(name: str, module: nn.Module, names: tuple[str, ...]) -> int:
    """A size that the module or its configuration has under one of these names."""
    for place in (module, getattr(module, "config", None)):
        for each in names:
            if isinstance(number := getattr(place, each, None), int):
                return number
    config = getattr(module, "config", None)
    hidden, heads = getattr(config, "hidden_size", None), getattr(config, "num_attention_heads", None)
    if names is WIDTHS and isinstance(hidden, int) and isinstance(heads, int):
        return hidden // heads
    raise UsageError(
        f"{name} does not have {names[0]}, which the mechanism needs. Build an Attention yourself and pass that."
    )
