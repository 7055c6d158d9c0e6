"""Mechanisms put in the place of a model's attentions, by the names of its modules."""

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
    """Let the attentions of a model of the transformers library run here, and return them by their names.

    Without a mechanism the results are the model's own. With one, or with one for each of some patterns of names
    ("*" fits anything; of several that fit, the last counts), those layers attend by it: an `AttentionConfig`, the
    configuration of another formula, which every layer builds for itself, or an `Attention`. This one is the first
    layer's that it fits; every other layer gets a copy, which begins with the same weights and learns its own. What the
    model demands stays: its rule is joined to the new one, its scale and bias to a score and a bias. Mechanisms with
    weights are part of the model from now on, are trained with it and saved with it.

    First a small padded batch runs with the model's eager attention and with ours, always, and a model whose numbers
    differ is refused and left as it was. `inputs` is that batch for models that take something unusual.

    Raises UsageError for a model whose attention does not pass the library's interface, for one that gives other
    numbers here, and for a pattern that fits nothing; ValueError where a mechanism cannot stand in such a place.
    """
    register()
    names = sites_of(model)
    if not names:
        kind = getattr(getattr(model, "config", None), "model_type", type(model).__name__)
        raise UsageError(
            f"The attention of {kind} does not pass the library's attention interface, so that nothing can stand in "
            "its place. Such are Longformer, BigBird, Reformer and LED."
        )
    chosen = mechanism if isinstance(mechanism, Mapping) else {} if mechanism is None else {"*": mechanism}
    for pattern in chosen:
        if not any(fits(name, pattern, model) for name in names):
            some = ", ".join(list(names)[:4])
            raise UsageError(
                f"No attention is called {pattern!r}.{did_you_mean(pattern, names)} There are {len(names)}: {some} …"
            )
    made: dict[str, nn.Module] = {}
    used: list[Chosen] = []
    for name, module in names.items():
        choice = next((chosen[pattern] for pattern in reversed(list(chosen)) if fits(name, pattern, model)), None)
        if isinstance(choice, nn.Module) and any(choice is one for one in used):
            made[name] = _built(name, module, deepcopy(choice))
        else:
            made[name] = _built(name, module, choice)
            used += [] if choice is None else [choice]
    require_agreement(model, names, inputs)
    for name, module in names.items():
        setattr(module, CHILD, made[name])
    model.set_attn_implementation(NAME)  # type: ignore[operator]
    return made


def release(model: nn.Module, implementation: str = "sdpa") -> None:
    """Take our attentions out of a model again, with their weights, and leave it to one of the library's."""
    for module in sites_of(model).values():
        if CHILD in module._modules:
            delattr(module, CHILD)
    model.set_attn_implementation(implementation)  # type: ignore[operator]


def sites_of(model: nn.Module) -> dict[str, nn.Module]:
    """The modules of a model whose `forward` passes the library's attention interface, by their names."""
    return {name: module for name, module in model.named_modules() if _passes(type(module))}


def fits(name: str, pattern: str, model: nn.Module) -> bool:
    """Whether a pattern names a module, counted from the model or from the encoder or decoder that its head stands on:
    `encoder.layer.1.*` is one layer of a BertModel and of a BertForMaskedLM alike."""
    inner = name.removeprefix(f"{getattr(model, 'base_model_prefix', '')}.")
    return fnmatchcase(name, pattern) or fnmatchcase(inner, pattern)


def kind_of(name: str, module: nn.Module) -> Literal["self", "cross"]:
    """Whether an attention looks across to an encoder, by what it is called: the library has no other sign of it."""
    said = f"{name} {type(module).__name__}".lower()
    return "cross" if any(mark in said for mark in CROSS) else "self"


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
    # A subclass has a formula of its own, which its parts alone do not tell.
    if isinstance(choice, Attention) and type(choice) in (Attention, Guest):
        return Guest.of(choice, kind)
    assert isinstance(choice, nn.Module)
    return choice


def _number(name: str, module: nn.Module, names: tuple[str, ...]) -> int:
    """A size that the module or its configuration tells by one of these names."""
    for place in (module, getattr(module, "config", None)):
        for each in names:
            if isinstance(number := getattr(place, each, None), int):
                return number
    config = getattr(module, "config", None)
    hidden, heads = getattr(config, "hidden_size", None), getattr(config, "num_attention_heads", None)
    if names is WIDTHS and isinstance(hidden, int) and isinstance(heads, int):
        return hidden // heads
    raise UsageError(
        f"{name} does not say its {names[0]}, which the mechanism needs to be built. Build an Attention yourself "
        "and pass that."
    )
