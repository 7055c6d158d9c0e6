"""Converts BERT between the format of Hugging Face and our model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from foveate.models.bert import BERT, BERTConfig
from foveate.models.bert_kin import as_bert
from foveate.models.hugging_face_folder import (
    activation_of,
    block_names,
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
from foveate.nn.transformer_block import BlockConfig

BLOCK = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "attention_residual.norm": "attention.output.LayerNorm",
    "feedforward.expand": "intermediate.dense",
    "feedforward.contract": "output.dense",
    "feedforward_residual.norm": "output.LayerNorm",
}
"""Our names of the parts of a block, with those of Hugging Face."""
WHOLE = {
    "embedding.weight": "bert.embeddings.word_embeddings.weight",
    "position.weight": "bert.embeddings.position_embeddings.weight",
    "segment.weight": "bert.embeddings.token_type_embeddings.weight",
    "embedding_norm.weight": "bert.embeddings.LayerNorm.weight",
    "embedding_norm.bias": "bert.embeddings.LayerNorm.bias",
    "pooler.weight": "bert.pooler.dense.weight",
    "pooler.bias": "bert.pooler.dense.bias",
    "head.dense.weight": "cls.predictions.transform.dense.weight",
    "head.dense.bias": "cls.predictions.transform.dense.bias",
    "head.norm.weight": "cls.predictions.transform.LayerNorm.weight",
    "head.norm.bias": "cls.predictions.transform.LayerNorm.bias",
    "head.bias": "cls.predictions.bias",
}
SPARE = ("pooler.", "head.")
"""The beginnings of our names of parts that bare encoders and fine-tuned models may lack as a whole."""
DECODER_BIAS = "cls.predictions.decoder.bias"
"""The bias of the head's logits once more, or alone."""
COPIES = ("cls.predictions.decoder.weight", DECODER_BIAS, "bert.embeddings.position_ids")
NEXT_SENTENCE = ("cls.seq_relationship.weight", "cls.seq_relationship.bias")
"""The head that predicted whether one sentence follows the other, which this package does not use."""
TASK_HEADS = ("classifier.", "pre_classifier.", "qa_outputs.")
"""Heads of fine-tuned models. Only those of classifiers are read, by `tasks.guest`."""
GAP_HEAD = "cls.predictions.transform.dense.weight"


def read_bert(folder: Path | str) -> BERT:
    """Read a BERT, RoBERTa or DistilBERT, in evaluation mode, whatever it was fine-tuned for.

    Raises DataError if the folder contains another model or is damaged.
    """
    return from_bert(*read_folder(folder))


def write_bert(model: BERT, folder: Path | str) -> None:
    """Write a folder for Hugging Face's BertForMaskedLM. Raises ValueError for a model of another architecture."""
    write_folder(folder, *to_bert(model))


@described()
def from_bert(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> BERT:
    """The model that a `config.json` and the tensors of its `model.safetensors` describe, in evaluation mode.

    Bare encoders (names without `bert.`) and old files (`LayerNorm.gamma`, `LayerNorm.beta`) are supported. If a file
    lacks pooler or head, these keep their initial values.
    """
    config, tensors = as_bert(config, tensors)
    ours = configuration(config)
    model = built(lambda: ours.build(setting(config, "vocab_size")), tensors)
    names = {theirs: own for own, theirs in _names(ours.num_layers).items()}
    modern = {_modern(name): tensor for name, tensor in tensors.items()}
    renamed = {names.get(name, name): tensor for name, tensor in modern.items()}
    heads = [name for name in renamed if name.startswith(TASK_HEADS)]
    if GAP_HEAD in modern and DECODER_BIAS in modern:
        renamed.setdefault("head.bias", modern[DECODER_BIAS])
    missing = [part for part in SPARE if not any(name.startswith(part) for name in renamed)]
    spare = [name for name in WHOLE if name.startswith(tuple(missing))]
    load(model, renamed, optional=spare, ignored=(*COPIES, *NEXT_SENTENCE, *heads))
    return model


def configuration(config: Mapping[str, Any]) -> BERTConfig:
    """Our configuration of the architecture that a BERT `config.json` describes."""
    require(config, "model_type", "bert")
    require(config, "position_embedding_type", "absolute", "absolute")
    require(config, "is_decoder", False, False)
    require(config, "tie_word_embeddings", True, True)
    block = BlockConfig(
        model_dim=setting(config, "hidden_size"),
        num_heads=setting(config, "num_attention_heads"),
        feedforward_dim=setting(config, "intermediate_size"),
        norm="post",
        activation=activation_of(config, "hidden_act", "gelu"),
        dropout=number(config, "hidden_dropout_prob", 0.1),
        attention_dropout=number(config, "attention_probs_dropout_prob", 0.1),
    )
    return BERTConfig(
        block=block,
        num_layers=setting(config, "num_hidden_layers"),
        max_length=setting(config, "max_position_embeddings"),
        num_segments=setting(config, "type_vocab_size", 2),
        norm_epsilon=number(config, "layer_norm_eps", 1e-12),
    )


def to_bert(model: BERT) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """`config.json` and tensors under their names on disk. Raises ValueError for a model that is not a BERT."""
    ours, block = model.config, model.config.block
    _require_bert(ours)
    own = model.state_dict()
    tensors = {theirs: own[name] for name, theirs in _names(ours.num_layers).items()}
    config = {
        "architectures": ["BertForMaskedLM"],
        "model_type": "bert",
        "vocab_size": model.embedding.num_embeddings,
        "hidden_size": block.model_dim,
        "num_hidden_layers": ours.num_layers,
        "num_attention_heads": block.num_heads,
        "intermediate_size": block.feedforward_dim,
        "hidden_act": their_name(block.activation),
        "hidden_dropout_prob": block.dropout,
        "attention_probs_dropout_prob": block.attention_dropout,
        "max_position_embeddings": ours.max_length,
        "type_vocab_size": ours.num_segments,
        "layer_norm_eps": ours.norm_epsilon,
        "pad_token_id": 0,
        "tie_word_embeddings": True,
    }
    return config, tensors


def _names(num_layers: int) -> dict[str, str]:
    """Our name of every tensor, with the name in the file."""
    return {**WHOLE, **block_names(BLOCK, num_layers, "bert.encoder.layer")}


def _modern(name: str) -> str:
    """The present name of a tensor, for names of old files and of bare encoders."""
    if name.startswith(("embeddings.", "encoder.", "pooler.")):
        name = f"bert.{name}"
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def _require_bert(config: BERTConfig) -> None:
    if not is_standard(config.block, norm="post", attention=config.block.encoder_attention):
        raise ValueError(
            "BERT has post-norm blocks with biases and scaled dot-product attention, and this model differs. "
            "Save it as a run, or train one of BERT's shape: BERTConfig.base()."
        )
