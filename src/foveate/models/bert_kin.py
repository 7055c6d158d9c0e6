"""Converts RoBERTa and DistilBERT of Hugging Face to the names and settings of a BERT."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from foveate.models.hugging_face_folder import require, setting

BERTS = ("bert", "roberta", "distilbert")
"""The kinds of models whose encoder computes BERT's formula."""
ROBERTA_HEAD = {
    "lm_head.dense.": "cls.predictions.transform.dense.",
    "lm_head.layer_norm.": "cls.predictions.transform.LayerNorm.",
    "lm_head.decoder.": "cls.predictions.decoder.",
    "lm_head.bias": "cls.predictions.bias",
}
DISTILBERT = {
    "distilbert.transformer.layer.": "bert.encoder.layer.",
    "distilbert.": "bert.",
    "vocab_transform.": "cls.predictions.transform.dense.",
    "vocab_layer_norm.": "cls.predictions.transform.LayerNorm.",
    "vocab_projector.weight": "cls.predictions.decoder.weight",
    "vocab_projector.bias": "cls.predictions.bias",
}
DISTILBERT_BLOCK = {
    ".attention.q_lin.": ".attention.self.query.",
    ".attention.k_lin.": ".attention.self.key.",
    ".attention.v_lin.": ".attention.self.value.",
    ".attention.out_lin.": ".attention.output.dense.",
    ".sa_layer_norm.": ".attention.output.LayerNorm.",
    ".ffn.lin1.": ".intermediate.dense.",
    ".ffn.lin2.": ".output.dense.",
    ".output_layer_norm.": ".output.LayerNorm.",
}
POSITIONS = "bert.embeddings.position_embeddings.weight"


def as_bert(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The configuration and tensors of a BERT with the same numbers. A BERT is returned unchanged."""
    kind = config.get("model_type")
    if kind == "roberta":
        return _roberta(config, tensors)
    return _distilbert(config, tensors) if kind == "distilbert" else (dict(config), dict(tensors))


def _roberta(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Position numbers begin after the id of padding; the rest of the formula is the same."""
    if "lm_head.dense.weight" in tensors:  # the head has gelu whatever the blocks have, and ours has that of the blocks
        require(config, "hidden_act", "gelu", "gelu")
    first = setting(config, "pad_token_id", 1) + 1
    bare = ("embeddings.", "encoder.", "pooler.")
    renamed = {
        f"bert.{name}" if name.startswith(bare) else _renamed(name, {"roberta.": "bert.", **ROBERTA_HEAD}): each
        for name, each in tensors.items()
    }
    if POSITIONS in renamed:
        renamed[POSITIONS] = renamed[POSITIONS][first:].clone()
    positions = setting(config, "max_position_embeddings") - first
    return {**config, "model_type": "bert", "max_position_embeddings": positions}, renamed


def _distilbert(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """A DistilBERT has other names and no segment embeddings."""
    bare = ("embeddings.", "transformer.")
    whole = {f"distilbert.{name}" if name.startswith(bare) else name: each for name, each in tensors.items()}
    renamed = {_renamed(name, DISTILBERT, DISTILBERT_BLOCK): each for name, each in whole.items()}
    dim = setting(config, "dim")
    renamed["bert.embeddings.token_type_embeddings.weight"] = torch.zeros(1, dim)
    sizes = {
        "hidden_size": dim,
        "num_hidden_layers": setting(config, "n_layers"),
        "num_attention_heads": setting(config, "n_heads"),
        "intermediate_size": setting(config, "hidden_dim"),
        "hidden_act": config.get("activation", "gelu"),
        "hidden_dropout_prob": config.get("dropout", 0.1),
        "attention_probs_dropout_prob": config.get("attention_dropout", 0.1),
        "type_vocab_size": 1,
        "layer_norm_eps": 1e-12,
    }
    return {**config, "model_type": "bert", **sizes}, renamed


def _renamed(name: str, beginnings: Mapping[str, str], parts: Mapping[str, str] | None = None) -> str:
    """A tensor's name with the first matching prefix and all parts replaced."""
    theirs = next((beginning for beginning in beginnings if name.startswith(beginning)), "")
    name = beginnings.get(theirs, "") + name.removeprefix(theirs)
    for part, own in (parts or {}).items():
        name = name.replace(part, own)
    return name
