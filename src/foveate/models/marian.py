"""Converts Marian translation models, such as those of the OPUS-MT project, to our Transformer and back."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from foveate.attention import AttentionConfig
from foveate.errors import DataError
from foveate.models.hugging_face_folder import (
    ACTIVATIONS,
    built,
    described,
    number,
    read_folder,
    setting,
    their_name,
    write_folder,
)
from foveate.models.transformer import Transformer, TransformerConfig
from foveate.nn.position_vector import SinusoidalConfig
from foveate.nn.transformer_block import BlockConfig
from foveate.suggestion import listing

MODULES = {
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.output": "self_attn.out_proj",
    "attention_residual.norm": "self_attn_layer_norm",
    "cross_attention.query": "encoder_attn.q_proj",
    "cross_attention.key": "encoder_attn.k_proj",
    "cross_attention.value": "encoder_attn.v_proj",
    "cross_attention.output": "encoder_attn.out_proj",
    "cross_residual.norm": "encoder_attn_layer_norm",
    "feedforward.expand": "fc1",
    "feedforward.contract": "fc2",
    "feedforward_residual.norm": "final_layer_norm",
}
"""Our name of a part of a block, and Marian's name on disk."""
OTHER_DESIGNS = ("normalize_before", "normalize_embedding", "add_final_layer_norm")
"""Settings of old configurations that move or add layer norms."""
POSITIONS = re.compile(r"model\.(encoder|decoder)\.embed_positions\.weight")


def read_marian(folder: Path | str) -> Transformer:
    """Read a model, in evaluation mode. Raises DataError if the folder contains another model or is damaged."""
    return from_marian(*read_folder(folder))


def write_marian(model: Transformer, folder: Path | str, config: TransformerConfig, *, pad: int, end: int) -> None:
    """Write a folder for Hugging Face's MarianMTModel. Raises ValueError for a model of another architecture."""
    write_folder(folder, *to_marian(model, config, pad=pad, end=end))


@described()
def from_marian(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Transformer:
    """The model that a Marian `config.json` and the tensors of its `model.safetensors` describe, in evaluation
    mode.

    Blocks are post-norm, embeddings are multiplied by √d, sines precede cosines, and every logit has a bias. Padding
    has its own id (`pad_token_id`), which this package ignores, because it uses lengths. To decode like Marian, begin
    with `decoder_start_token_id` (which is the padding id), end with `eos_token_id` and forbid the padding id.

    Raises DataError for a setting of another architecture, and for missing, unknown or misshapen tensors.
    """
    own_config, sizes = configuration(config), _vocabularies(config)
    model = built(lambda: own_config.build(*sizes), tensors)
    own = model.state_dict()
    names = {ours: _on_disk(ours, config) for ours in own}
    _require_same_names(set(names.values()), tensors, config)
    for ours, theirs in names.items():
        tensor = tensors[theirs].reshape(-1) if ours == "output_bias" else tensors[theirs]
        if tensor.shape != own[ours].shape:
            raise DataError(
                f"Marian tensor {theirs} has shape {tuple(tensor.shape)}, but config.json makes it "
                f"{tuple(own[ours].shape)}. The two files belong to different models: take both from one folder."
            )
        own[ours] = tensor
    model.load_state_dict(own)
    _require_sinusoids(model, tensors)
    return model


def to_marian(
    model: Transformer, ours: TransformerConfig, *, pad: int, end: int
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """`config.json` and tensors under their names on disk. Decoding begins with the id `pad`.

    Raises ValueError for a model that is not a Marian model.
    """
    _require_marian(ours)
    block, shared = ours.block, ours.share == "all"
    config = {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "vocab_size": model.source_embedding.num_embeddings,
        "decoder_vocab_size": model.target_embedding.num_embeddings,
        "d_model": block.model_dim,
        "activation_function": their_name(block.activation),
        "dropout": block.dropout,
        "attention_dropout": block.attention_dropout,
        "activation_dropout": block.feedforward_dropout,
        "max_position_embeddings": 512,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": shared,
        "tie_word_embeddings": ours.share != "none",
        "is_encoder_decoder": True,
        "pad_token_id": pad,
        "eos_token_id": end,
        "decoder_start_token_id": pad,
        "forced_eos_token_id": None,
    }
    for side, layers in (("encoder", ours.encoder_layers), ("decoder", ours.decoder_layers)):
        config |= {f"{side}_layers": layers, f"{side}_attention_heads": block.num_heads}
        config[f"{side}_ffn_dim"] = block.feedforward_dim
    tensors = {_on_disk(name, config): tensor for name, tensor in model.state_dict().items()}
    tensors["final_logits_bias"] = tensors["final_logits_bias"][None]
    return config, tensors


def _require_marian(config: TransformerConfig) -> None:
    plain = AttentionConfig()
    mechanisms = {f"{place}_attention": plain for place in ("encoder", "decoder", "cross")}
    block = replace(config.block, norm="post", bias=True, **mechanisms)  # type: ignore[arg-type]
    positions = config.position == SinusoidalConfig(layout="blocks") and config.target_position == "same"
    if config.block != block or config.encoder is not None or not positions or not config.output_bias:
        raise ValueError(
            "Marian has post-norm blocks with biases, scaled dot-product attention, sines before cosines and a bias on "
            "every logit, and this model differs. Save it as a run, or export it to an engine."
        )


def configuration(config: Mapping[str, Any]) -> TransformerConfig:
    """Our configuration of the architecture that a Marian `config.json` describes."""
    _require(config, "model_type", "marian")
    _require(config, "scale_embedding", True)
    for name in OTHER_DESIGNS:
        if config.get(name):
            raise _unsupported(name, True, "false")
    for part in ("attention_heads", "ffn_dim"):
        _require(config, f"decoder_{part}", _setting(config, f"encoder_{part}"))
    activation = _setting(config, "activation_function")
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise _unsupported("activation_function", activation, ", ".join(ACTIVATIONS))
    block = BlockConfig(
        model_dim=setting(config, "d_model"),
        num_heads=setting(config, "encoder_attention_heads"),
        feedforward_dim=setting(config, "encoder_ffn_dim"),
        norm="post",
        activation=ACTIVATIONS[activation],
        dropout=number(config, "dropout", 0.1),
        attention_dropout=number(config, "attention_dropout", 0.0),
        feedforward_dropout=number(config, "activation_dropout", 0.0),
    )
    return TransformerConfig(
        block=block,
        encoder_layers=setting(config, "encoder_layers"),
        decoder_layers=setting(config, "decoder_layers"),
        position=SinusoidalConfig(layout="blocks"),
        share=_share(config),
        output_bias=True,
    )


def _share(config: Mapping[str, Any]) -> Literal["none", "output", "all"]:
    tied = config.get("tie_word_embeddings", True)
    if not config.get("share_encoder_decoder_embeddings", True):
        return "output" if tied else "none"
    if not tied:
        raise _unsupported("tie_word_embeddings", False, "true when share_encoder_decoder_embeddings is")
    return "all"


def _vocabularies(config: Mapping[str, Any]) -> tuple[int, int]:
    source = setting(config, "vocab_size")
    return source, source if _share(config) == "all" else setting(config, "decoder_vocab_size", source)


def _on_disk(ours: str, config: Mapping[str, Any]) -> str:
    """Marian's name for one of our tensors."""
    shared = _share(config) == "all"
    embeddings = {
        "source_embedding.weight": "model.shared.weight" if shared else "model.encoder.embed_tokens.weight",
        "target_embedding.weight": "model.shared.weight" if shared else "model.decoder.embed_tokens.weight",
        "output_weight": "lm_head.weight",
        "output_bias": "final_logits_bias",
    }
    if ours in embeddings:
        return embeddings[ours]
    stack, layer, rest = ours.split(".", 2)
    module, kind = rest.rsplit(".", 1)
    return f"model.{stack}.layers.{layer}.{MODULES[module]}.{kind}"


def _require_same_names(required: set[str], tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> None:
    """Raise DataError for missing or unknown tensors. Tied matrices may be stored again under their other names."""
    copies = {"lm_head.weight"}
    if _share(config) == "all":
        copies |= {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"}
    missing = sorted(required - tensors.keys())
    unknown = sorted(name for name in tensors.keys() - required - copies if not POSITIONS.fullmatch(name))
    for what, names in (("lack", missing), ("hold unknown tensors:", unknown)):
        if names:
            raise DataError(
                f"Marian weights {what} {listing(names, 3)}. Check that config.json and model.safetensors "
                "come from one folder, and that it holds a translation model."
            )


def _require_sinusoids(model: Transformer, tensors: Mapping[str, Tensor]) -> None:
    """Raise DataError if a stored position table, as in old files, is a trained one, which would be lost."""
    for name, table in _position_tables(tensors):
        place = torch.arange(len(table))
        if table.shape[1] != model.model_dim or not torch.allclose(model.position(place), table.float(), atol=1e-4):
            raise DataError(
                f"Marian tensor {name} is not the sinusoidal table. Learned positions cannot be read into this model."
            )


def _position_tables(tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    return ((name, table) for name, table in tensors.items() if POSITIONS.fullmatch(name))


def _setting(config: Mapping[str, Any], name: str) -> Any:
    if config.get(name) is None:
        raise DataError(f"Marian config.json lacks {name!r}. Pass the config.json that belongs to the weights.")
    return config[name]


def _require(config: Mapping[str, Any], name: str, value: object) -> None:
    if (actual := _setting(config, name)) != value:
        raise _unsupported(name, actual, repr(value))


def _unsupported(name: str, actual: object, supported: str) -> DataError:
    return DataError(
        f"Marian config.json has {name}={actual!r:.60}, which this model does not support; it needs {supported}."
    )
