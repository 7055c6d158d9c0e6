"""Converts GPT-2 between the format of Hugging Face and our GPT."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foveate.models.gpt import GPT, GPTConfig
from foveate.models.hugging_face_folder import (
    activation_of,
    built,
    described,
    is_standard,
    load,
    number,
    read_folder,
    require,
    setting,
    their_name,
    write_folder,
)
from foveate.nn.position_vector import LearnedConfig
from foveate.nn.transformer_block import BlockConfig

EPSILON = 1e-5
TRANSPOSED = {"attention.output": "attn.c_proj", "feedforward.expand": "mlp.c_fc", "feedforward.contract": "mlp.c_proj"}
"""Our names of the parts of a block, with those of Hugging Face, whose matrices are inputs × outputs."""
NORMS = {"attention_residual.norm": "ln_1", "feedforward_residual.norm": "ln_2"}
PROJECTIONS = ("attention.query", "attention.key", "attention.value")
"""These are concatenated on disk, as `attn.c_attn`."""
WHOLE = {
    "embedding.weight": "wte.weight",
    "position.weight": "wpe.weight",
    "norm.weight": "ln_f.weight",
    "norm.bias": "ln_f.bias",
}


def read_gpt2(folder: Path | str) -> GPT:
    """Read a model, in evaluation mode. Raises DataError if the folder contains another model or is damaged."""
    config, tensors = read_folder(folder)
    return from_gpt2(config, tensors)


def write_gpt2(model: GPT, folder: Path | str, *, end: int | None = None) -> None:
    """Write a folder for Hugging Face's GPT2LMHeadModel; `end` is the id of the token between texts.

    Raises ValueError for a model that GPT-2's architecture cannot express.
    """
    config, tensors = to_gpt2(model)
    write_folder(folder, config if end is None else {**config, "bos_token_id": end, "eos_token_id": end}, tensors)


@described()
def from_gpt2(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> GPT:
    """The model that a `config.json` and the tensors of its `model.safetensors` describe, in evaluation mode.

    Names may begin with `transformer.`. The fused projections of query, key and value are split.
    """
    ours = configuration(config)
    model = built(lambda: ours.build(setting(config, "vocab_size")), tensors)
    bare = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    renamed = {own: bare.pop(theirs) for own, theirs in WHOLE.items() if theirs in bare}
    if (output := bare.pop("lm_head.weight", None)) is not None and not ours.tied:
        renamed["output_weight"] = output
    for layer in range(ours.num_layers):
        renamed |= {f"blocks.{layer}.{name}": tensor for name, tensor in _block(bare, f"h.{layer}.")}
    # Old files keep the triangle of visible positions as a tensor.
    left = {name: tensor for name, tensor in bare.items() if not name.endswith((".attn.bias", ".attn.masked_bias"))}
    load(model, {**renamed, **left})
    return model


def configuration(config: Mapping[str, Any]) -> GPTConfig:
    """Our configuration of the architecture that a GPT-2 `config.json` describes."""
    require(config, "model_type", "gpt2")
    require(config, "scale_attn_weights", True, True)
    require(config, "scale_attn_by_inverse_layer_idx", False, False)
    require(config, "add_cross_attention", False, False)
    require(config, "layer_norm_epsilon", EPSILON, EPSILON)
    width = setting(config, "n_embd")
    block = BlockConfig(
        model_dim=width,
        num_heads=setting(config, "n_head"),
        feedforward_dim=setting(config, "n_inner", 4 * width),
        norm="pre",
        activation=activation_of(config, "activation_function", "gelu_new"),
        dropout=number(config, "resid_pdrop", 0.1),
        attention_dropout=number(config, "attn_pdrop", 0.1),
    )
    return GPTConfig(
        block=block,
        num_layers=setting(config, "n_layer"),
        position=LearnedConfig(max_length=setting(config, "n_positions")),
        tied=bool(config.get("tie_word_embeddings", True)),
    )


def to_gpt2(model: GPT) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """`config.json` and tensors under their names on disk. Raises ValueError for a model that is not a GPT-2."""
    block = model.config.block
    _require_gpt2(model.config)
    own = model.state_dict()
    tensors = {f"transformer.{theirs}": own[name] for name, theirs in WHOLE.items()}
    if model.output_weight is not None:
        tensors["lm_head.weight"] = own["output_weight"]
    for layer in range(model.config.num_layers):
        here, there = f"blocks.{layer}.", f"transformer.h.{layer}."
        for kind in ("weight", "bias"):
            joined = torch.cat([own[f"{here}{name}.{kind}"] for name in PROJECTIONS])
            tensors[f"{there}attn.c_attn.{kind}"] = _transposed(joined)
            for name, theirs in TRANSPOSED.items():
                tensors[f"{there}{theirs}.{kind}"] = _transposed(own[f"{here}{name}.{kind}"])
            for name, theirs in NORMS.items():
                tensors[f"{there}{theirs}.{kind}"] = own[f"{here}{name}.{kind}"]
    config = {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": model.embedding.num_embeddings,
        "n_positions": model.max_length,
        "n_embd": block.model_dim,
        "n_layer": model.config.num_layers,
        "n_head": block.num_heads,
        "n_inner": block.feedforward_dim,
        "activation_function": their_name(block.activation),
        "layer_norm_epsilon": EPSILON,
        "resid_pdrop": block.dropout,
        "embd_pdrop": block.dropout,
        "attn_pdrop": block.attention_dropout,
        "tie_word_embeddings": model.config.tied,
    }
    return config, tensors


def _block(tensors: dict[str, Tensor], prefix: str) -> list[tuple[str, Tensor]]:
    """Remove the tensors of one block from `tensors`; return them under our names."""
    renamed = []
    for kind in ("weight", "bias"):
        for name, theirs in (TRANSPOSED | NORMS).items():
            tensor = tensors.pop(f"{prefix}{theirs}.{kind}", None)
            if tensor is not None:
                renamed.append((f"{name}.{kind}", _transposed(tensor) if name in TRANSPOSED else tensor))
        joined = tensors.pop(f"{prefix}attn.c_attn.{kind}", None)
        if joined is not None:
            renamed += [
                (f"{name}.{kind}", part) for name, part in zip(PROJECTIONS, _transposed(joined).chunk(3), strict=True)
            ]
    return renamed


def _transposed(tensor: Tensor) -> Tensor:
    return tensor.mT if tensor.dim() == 2 else tensor


def _require_gpt2(config: GPTConfig) -> None:
    standard = is_standard(config.block, norm="pre", attention=config.block.decoder_attention)
    if not standard or not isinstance(config.position, LearnedConfig):
        raise ValueError(
            "GPT-2 has pre-norm blocks with biases, scaled dot-product attention and learned positions, and this model "
            "differs. Save it as a run, or train one of GPT-2's shape: GPTConfig.gpt2()."
        )
