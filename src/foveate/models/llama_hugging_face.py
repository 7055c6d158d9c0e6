"""Converts Llama between the format of Hugging Face and our model."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from foveate.attention import AttentionConfig, Rotary
from foveate.errors import DataError
from foveate.models.hugging_face_folder import (
    block_names,
    built,
    described,
    load,
    number,
    read_folder,
    require,
    setting,
    write_folder,
)
from foveate.models.llama import Llama, LlamaConfig

EPSILON, ROTARY_BASE = 1e-6, 10000.0
"""The default of Hugging Face, for a `config.json` without this value."""
PARTS = {
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.output": "self_attn.o_proj",
    "feedforward.gate": "mlp.gate_proj",
    "feedforward.expand": "mlp.up_proj",
    "feedforward.contract": "mlp.down_proj",
    "attention_residual.norm": "input_layernorm",
    "feedforward_residual.norm": "post_attention_layernorm",
}
"""Our names of the parts of a block, with those of Hugging Face."""
WHOLE = {"embedding.weight": "embed_tokens.weight", "norm.weight": "norm.weight"}
OUTPUT = "lm_head.weight"


def read_llama(folder: Path | str) -> Llama:
    """Read a model, in evaluation mode. Raises DataError if the folder contains another model or is damaged."""
    return from_llama(*read_folder(folder))


def write_llama(model: Llama, folder: Path | str, *, begin: int | None = None, end: int | None = None) -> None:
    """Write a folder for Hugging Face's LlamaForCausalLM; `begin` and `end` are the ids around a text.

    Raises ValueError for a model that Llama's architecture cannot express.
    """
    config, tensors = to_llama(model)
    ids = {"bos_token_id": begin, "eos_token_id": end}
    write_folder(folder, config | {name: number for name, number in ids.items() if number is not None}, tensors)


@described()
def from_llama(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Llama:
    """The model that a `config.json` and its tensors describe, in evaluation mode."""
    ours = configuration(config)
    model = built(lambda: ours.build(setting(config, "vocab_size")), tensors)
    bare = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}
    renamed = {own: bare.pop(theirs) for own, theirs in WHOLE.items() if theirs in bare}
    if (output := bare.pop(OUTPUT, None)) is not None and not ours.tied:
        renamed["output_weight"] = output
    names = block_names(PARTS, ours.num_layers, "layers")
    renamed |= {own: bare.pop(theirs) for own, theirs in names.items() if theirs in bare}
    # Old files keep the angles of rotary positions, which follow from the configuration.
    left = {name: tensor for name, tensor in bare.items() if not name.endswith(".rotary_emb.inv_freq")}
    load(model, {**renamed, **left})
    return model


def configuration(config: Mapping[str, Any]) -> LlamaConfig:
    """Our configuration of the architecture that a Llama `config.json` describes."""
    require(config, "model_type", "llama")
    require(config, "hidden_act", "silu", "silu")
    require(config, "mlp_bias", False, False)
    rotary = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(rotary, Mapping):
        raise DataError(
            "config.json has rope_parameters that are not a table. Pass the config.json that belongs to the weights."
        )
    require({"rope_type": rotary.get("rope_type", rotary.get("type", "default"))}, "rope_type", "default")
    for settings in (config, rotary):
        require(settings, "partial_rotary_factor", 1.0, 1.0)
    heads = setting(config, "num_attention_heads")
    transform = Rotary(
        base=number(rotary, "rope_theta", number(config, "rope_theta", ROTARY_BASE)),
        layout="halves",
    )
    return LlamaConfig(
        model_dim=setting(config, "hidden_size"),
        num_heads=heads,
        num_kv_heads=setting(config, "num_key_value_heads", heads),
        head_dim=None if config.get("head_dim") is None else setting(config, "head_dim"),
        feedforward_dim=setting(config, "intermediate_size"),
        num_layers=setting(config, "num_hidden_layers"),
        max_length=setting(config, "max_position_embeddings"),
        tied=bool(config.get("tie_word_embeddings", False)),
        bias=bool(config.get("attention_bias", False)),
        epsilon=number(config, "rms_norm_eps", EPSILON),
        dropout=0.0,
        attention_dropout=number(config, "attention_dropout", 0.0),
        attention=AttentionConfig(transforms=(transform,)),
    )


def to_llama(model: Llama) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """`config.json` and tensors under their names on disk. Raises ValueError for a model that is not a Llama."""
    ours, own = model.config, model.state_dict()
    transform = _rotary(ours)
    tensors = {f"model.{theirs}": own[name] for name, theirs in WHOLE.items()}
    if model.output_weight is not None:
        tensors[OUTPUT] = own["output_weight"]
    names = block_names(PARTS, ours.num_layers, "model.layers")
    tensors |= {theirs: own[name] for name, theirs in names.items() if name in own}
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": model.embedding.num_embeddings,
        "hidden_size": ours.model_dim,
        "intermediate_size": ours.feedforward_dim,
        "num_hidden_layers": ours.num_layers,
        "num_attention_heads": ours.num_heads,
        "num_key_value_heads": ours.num_kv_heads,
        "head_dim": ours.head_dim or ours.model_dim // ours.num_heads,
        "max_position_embeddings": ours.max_length,
        "hidden_act": "silu",
        "rms_norm_eps": ours.epsilon,
        "rope_theta": transform.base,
        "attention_bias": ours.bias,
        "attention_dropout": ours.attention_dropout,
        "mlp_bias": False,
        "tie_word_embeddings": ours.tied,
    }
    return config, tensors


def _rotary(config: LlamaConfig) -> Rotary:
    """The rotary transform. Raises ValueError if the attention differs from Llama's."""
    attention = config.attention
    transforms = attention.transforms if isinstance(attention, AttentionConfig) else ()
    transform = transforms[0] if len(transforms) == 1 else None
    plain = isinstance(transform, Rotary) and transform == replace(transform, layout="halves", dims=None)
    if not plain or attention != AttentionConfig(transforms=transforms):
        raise ValueError(
            "Llama has scaled dot-product attention with rotary positions in halves and nothing else, and this model "
            "differs. Save it as a run, or train one of Llama's shape: LlamaConfig()."
        )
    assert isinstance(transform, Rotary)
    return transform
