"""Converts ViT and DeiT between the format of Hugging Face and our classifier."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from foveate.data.picture_processor import processor_of
from foveate.data.reader import RowMaker
from foveate.errors import DataError
from foveate.models.classifier import Classifier, ClassifierConfig
from foveate.models.hugging_face_folder import (
    CONFIG,
    WEIGHTS,
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
from foveate.models.vit import ViT, ViTConfig
from foveate.nn.embed import Patches
from foveate.nn.grid_position import LearnedGrid
from foveate.nn.pooling import FirstPooling, FirstPoolingConfig
from foveate.nn.transformer_block import BlockConfig

KINDS = {"vit": 1, "deit": 2}
"""The kinds of models, with the number of their class tokens: DeiT has a distillation token, too."""
TEACHER = ("cls_classifier", "distillation_classifier")
"""DeiT's two heads, whose logits are averaged."""
BLOCK = {
    "attention.query": "attention.attention.query",
    "attention.key": "attention.attention.key",
    "attention.value": "attention.attention.value",
    "attention.output": "attention.output.dense",
    "attention_residual.norm": "layernorm_before",
    "feedforward.expand": "intermediate.dense",
    "feedforward.contract": "output.dense",
    "feedforward_residual.norm": "layernorm_after",
}
"""Our names of the parts of a block, with those of Hugging Face."""
POSITIONS = "embeddings.position_embeddings"
PROJECTION = "embeddings.patch_embeddings.projection"
SPARE = ("pooler.", "embeddings.mask_token", "decoder.")
"""Tensors for pretraining, which a classifier does not read."""


def read_vit(folder: Path | str) -> Classifier:
    """Read a ViT or DeiT that classifies pictures, in evaluation mode.

    Its input has the values of `ImageReader`, from −1 to 1, where the folder's `preprocessor_config.json` has means and
    deviations of 0.5, as ViT's have. Raises DataError if the folder contains another model, has no classifier, or is
    damaged.
    """
    return from_vit(*read_folder(folder))


def read_vit_encoder(folder: Path | str) -> ViT:
    """Read the encoder of a ViT or DeiT, whatever head it has. Raises DataError as `read_vit` does."""
    return encoder_of(*read_folder(folder))


def write_vit(
    model: Classifier, folder: Path | str, *, labels: Sequence[str] = (), rows: RowMaker | None = None
) -> None:
    """Write a folder for Hugging Face's ViTForImageClassification, or for those of DeiT if there is a distillation
    token. Raises ValueError for a model of another architecture.

    `rows` prepares the model's pictures, such as the `rows` of a `RowClassifier`: they become
    `preprocessor_config.json`, which Hugging Face's AutoImageProcessor and `foveate classify` read. See `processor_of`
    for what it cannot say, which is a ValueError. Without `rows` this file is not written, because a model does not
    know how its pictures were prepared.
    """
    config, tensors = to_vit(model, labels=labels)
    if rows is None:
        write_folder(folder, config, tensors)
        return
    processor, patches = processor_of(rows), cast(ViT, model.encoder).patches
    if rows.input != patches:
        raise ValueError(f"The model reads {patches}, but the rows are {rows.input}.")
    write_folder(folder, config, tensors, preprocessor_config=processor)


@described()
def from_vit(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Classifier:
    """The classifier that a `config.json` and the tensors of its `model.safetensors` describe, in evaluation mode.

    DeiT's two heads become one: the mean of their logits is a product with the joined vectors of both tokens.
    """
    weight, bias, count = _head(tensors)
    ours, patches = configuration(config), _patches(config)
    whole = ClassifierConfig(encoder=ours, pooling=FirstPoolingConfig(count=count), dropout=0.0)
    model = built(lambda: whole.build(patches, len(bias)), tensors)
    _load_encoder(cast(ViT, model.encoder), config, tensors)
    load(model.output, {"weight": weight, "bias": bias})
    return model


@described()
def encoder_of(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> ViT:
    """The encoder that a `config.json` and tensors describe, in evaluation mode; heads are ignored."""
    ours = configuration(config)
    encoder = built(lambda: ours.build_encoder(_patches(config)), tensors)
    _load_encoder(encoder, config, tensors)
    return encoder


def configuration(config: Mapping[str, Any]) -> ViTConfig:
    """Our configuration of the architecture that a ViT's or DeiT's `config.json` describes."""
    kind = config.get("model_type")
    if kind not in KINDS:
        raise DataError(f"config.json has model_type={kind!r}, and this reads {' and '.join(KINDS)}.")
    require(config, "qkv_bias", True, True)
    block = BlockConfig(
        model_dim=setting(config, "hidden_size", 768),
        num_heads=setting(config, "num_attention_heads", 12),
        feedforward_dim=setting(config, "intermediate_size", 3072),
        norm="pre",
        activation=activation_of(config, "hidden_act", "gelu"),
        dropout=number(config, "hidden_dropout_prob", 0.0),
        attention_dropout=number(config, "attention_probs_dropout_prob", 0.0),
    )
    return ViTConfig(
        block=block,
        num_layers=setting(config, "num_hidden_layers", 12),
        class_tokens=KINDS[kind],
        norm_epsilon=number(config, "layer_norm_eps", 1e-12),
    )


def to_vit(model: Classifier, *, labels: Sequence[str] = ()) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """`config.json` and tensors under their names on disk. Raises ValueError for a model that is not a ViT or DeiT."""
    encoder, pooling = model.encoder, model.pooling
    if not isinstance(encoder, ViT) or not isinstance(pooling, FirstPooling):
        raise ValueError('A ViT of Hugging Face is a classifier with the encoder "vit" and the pooling "first".')
    _require_vit(encoder)
    kind = "deit" if encoder.class_tokens == 2 else "vit"
    head = _their_head(model.output.weight, model.output.bias, pooling.count)
    tensors = {f"{kind}.{name}": tensor for name, tensor in _their_encoder(encoder).items()} | head
    count, block = model.output.out_features, encoder.config.block
    names = list(labels) or [f"LABEL_{label}" for label in range(count)]
    if len(names) != count:
        raise ValueError(f"The model has {count} labels, but {len(names)} names are given.")
    rows, columns = (side * encoder.patches.size for side in encoder.grid)
    title = {"vit": "ViT", "deit": "DeiT"}[kind]
    config = {
        "architectures": [f"{title}ForImageClassification{'WithTeacher' if pooling.count == 2 else ''}"],
        "model_type": kind,
        "hidden_size": block.model_dim,
        "num_hidden_layers": encoder.config.num_layers,
        "num_attention_heads": block.num_heads,
        "intermediate_size": block.feedforward_dim,
        "hidden_act": their_name(block.activation),
        "hidden_dropout_prob": block.dropout,
        "attention_probs_dropout_prob": block.attention_dropout,
        "layer_norm_eps": encoder.config.norm_epsilon,
        "image_size": rows if rows == columns else [rows, columns],
        "patch_size": encoder.patches.size,
        "num_channels": encoder.patches.channels,
        "qkv_bias": True,
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
    }
    return config, {name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()}


def _patches(config: Mapping[str, Any]) -> Patches:
    size, sides = setting(config, "patch_size", 16), config.get("image_size", 224)
    both = [sides, sides] if type(sides) is int else sides
    if not isinstance(both, list) or len(both) != 2 or any(type(side) is not int or side < 1 for side in both):
        raise DataError(f"config.json has image_size={sides!r}, which must be one or two whole numbers.")
    if any(side % size for side in both):
        raise DataError(f"config.json has image_size={sides!r}, which patch_size={size} does not divide.")
    return Patches(size=size, channels=setting(config, "num_channels", 3), grid=(both[0] // size, both[1] // size))


def _head(tensors: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, int]:
    """Weight and bias over the joined class tokens, and the number of these."""
    heads = [name for name in ("classifier", *TEACHER) if f"{name}.weight" in tensors and f"{name}.bias" in tensors]
    if heads not in (["classifier"], list(TEACHER)):
        raise DataError("The weights have no classifier of pictures. Read the encoder alone: read_vit_encoder(folder).")
    weight = torch.cat([tensors[f"{name}.weight"] for name in heads], dim=1) / len(heads)
    return weight, torch.stack([tensors[f"{name}.bias"] for name in heads]).mean(0), len(heads)


def _their_head(weight: Tensor, bias: Tensor, count: int) -> dict[str, Tensor]:
    """One head, or two whose mean is ours."""
    names = ("classifier",) if count == 1 else TEACHER
    parts = zip(names, (count * weight).chunk(count, dim=1), strict=True)
    return {f"{name}.{kind}": tensor for name, own in parts for kind, tensor in (("weight", own), ("bias", bias))}


def _load_encoder(encoder: ViT, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    bare = {name.removeprefix(f"{config['model_type']}."): tensor for name, tensor in tensors.items()}
    names = {theirs: own for own, theirs in _names(encoder.config.num_layers).items()}
    renamed = {names[name]: tensor for name, tensor in bare.items() if name in names}
    heads = ("classifier.", *(f"{name}." for name in TEACHER), *SPARE)
    special = ("embeddings.cls_token", "embeddings.distillation_token")[: encoder.class_tokens]
    whole = (*special, POSITIONS, f"{PROJECTION}.weight")
    used = {*names, *whole}
    unknown = {name: tensor for name, tensor in bare.items() if name not in used and not name.startswith(heads)}
    missing = [name for name in whole if name not in bare]
    if missing:
        raise DataError(f"The weights lack {', '.join(missing)}. Take {CONFIG} and {WEIGHTS} from one folder.")
    table, kernel = bare[POSITIONS], bare[f"{PROJECTION}.weight"]
    count, dim = encoder.class_tokens, encoder.output_dim
    if table.shape != (1, count + encoder.patches.count, dim) or kernel.dim() != 4:
        raise DataError(
            f"The position embeddings have shape {tuple(table.shape)}, but {CONFIG} makes it "
            f"{(1, count + encoder.patches.count, dim)}. Take both files from one folder."
        )
    tokens = torch.cat([bare[name] for name in special], dim=1)
    renamed |= {
        "class_token": (tokens + table[:, :count])[0],
        "position.weight": table[0, count:],
        "project.weight": kernel.permute(0, 2, 3, 1).flatten(1),
    }
    load(encoder, {**renamed, **unknown})


def _their_encoder(encoder: ViT) -> dict[str, Tensor]:
    """Their position embeddings of class tokens are zero, because ours are a part of the tokens."""
    own = encoder.state_dict()
    count, patches = encoder.class_tokens, encoder.patches
    tokens, table = own["class_token"], own["position.weight"]
    tensors = {theirs: own[name] for name, theirs in _names(encoder.config.num_layers).items()}
    names = ("embeddings.cls_token", "embeddings.distillation_token")[:count]
    tensors |= {name: token[None, None] for name, token in zip(names, tokens, strict=True)}
    tensors[POSITIONS] = torch.cat([torch.zeros_like(tokens), table])[None]
    kernel = own["project.weight"].reshape(-1, patches.size, patches.size, patches.channels)
    return {**tensors, f"{PROJECTION}.weight": kernel.permute(0, 3, 1, 2)}


def _names(num_layers: int) -> dict[str, str]:
    """Our name of every tensor that has the same shape in the file, with its name there, without the model's prefix."""
    names = {"project.bias": f"{PROJECTION}.bias", "norm.weight": "layernorm.weight", "norm.bias": "layernorm.bias"}
    return {**names, **block_names(BLOCK, num_layers, "encoder.layer")}


def _require_vit(encoder: ViT) -> None:
    block = encoder.config.block
    standard = is_standard(block, norm="pre", attention=block.encoder_attention)
    if not standard or not isinstance(encoder.position, LearnedGrid) or not encoder.class_tokens:
        raise ValueError(
            "ViT has pre-norm blocks with biases, scaled dot-product attention, learned positions and a class token, "
            "and this model differs. Save it as a run, or train one of ViT's shape: ViTConfig.base()."
        )
