"""Exports models to ONNX. An encoder–decoder has two graphs: `encoder.onnx` reads sentences, `step.onnx` computes the
logits of the next word. A language model is one `step.onnx`, which also reads; other models are one `model.onnx`.
"""

from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from foveate.errors import UsageError
from foveate.export.onnx import (
    bert_classifier_graph,
    bert_graph,
    labelling_graph,
    language_model_graph,
    operator_graph,
    recogniser_graph,
    recurrent_graph,
    transformer_graph,
)
from foveate.export.onnx.operator_graph import Graph, weight_bytes
from foveate.export.onnx.runtime import OnnxEngine, OnnxState
from foveate.export.plain_attention import input_refusals, require, unknown_layers
from foveate.export.target import require_export_folder
from foveate.models import BERT, LanguageModel, Seq2Seq, Transformer
from foveate.models.bert_classifier import FirstTokenClassifier
from foveate.models.classifier import Classifier
from foveate.models.picture_encoder import PictureEncoder
from foveate.models.recogniser import Recogniser
from foveate.models.recurrent import RecurrentSeq2Seq
from foveate.models.tagger import FrameTagger, PieceTagger, Tagger
from foveate.nn.embed import PatchEmbedding, Tokens
from foveate.storage.draft import draft_folder

INSTEAD = "Foveate's own engine runs every model."
FLOAT = 1
"""The number of the type float32 in ONNX."""
Signature = dict[str, dict[str, str]]
"""The type and shape of each input and output, by name, under the keys "inputs" and "outputs"."""
FAMILIES: tuple[tuple[Any, ModuleType], ...] = (
    (Transformer, transformer_graph),
    (RecurrentSeq2Seq, recurrent_graph),
    (Recogniser, recogniser_graph),
    (LanguageModel, language_model_graph),
    (BERT, bert_graph),
    (FirstTokenClassifier, bert_classifier_graph),
    ((Tagger, PieceTagger, FrameTagger, Classifier), labelling_graph),
)
"""The modules that export each class of models, with functions `refusals`, `max_length` and `graphs`, and `INPUTS` if
they support other inputs than tokens."""


def refusals(model: nn.Module) -> list[str]:
    """Why ONNX cannot express a model; empty if it can."""
    family = _family(model)
    if family is None:
        return [f"{type(model).__name__} is unknown"]
    inputs = [] if _reads_pictures(model) else input_refusals(model, getattr(family, "INPUTS", (Tokens,)))
    return list(dict.fromkeys([*family.refusals(model), *inputs, *unknown_layers(model)]))


def max_length(model: nn.Module) -> int | None:
    """The largest number of positions that the graphs represent; None without a limit."""
    family = _family(model)
    return None if family is None else family.max_length(model)


def graphs(model: nn.Module) -> dict[str, Any]:
    """ONNX models by file name. Raises UsageError for a model that ONNX cannot express."""
    require(refusals(model), "ONNX", INSTEAD)
    family = _family(model)
    assert family is not None
    with torch.no_grad():
        return {name: graph.model() for name, graph in family.graphs(model).items()}


def save_onnx(model: nn.Module, folder: Path | str) -> dict[str, Signature]:
    """Write the model's graphs, all or none, in place of an earlier export; return the inputs and outputs of each file.
    Weights of 2 GB or more are in a second file, `NAME.onnx.data`.

    Raises UsageError for a model that ONNX cannot express and for a folder with other content, SetupError if the
    package onnx is not installed.
    """
    require_export_folder(Path(folder))
    named = graphs(model)
    with draft_folder(Path(folder), size=sum(map(weight_bytes, named.values()))) as draft:
        for name, graph in named.items():
            _write(graph, draft / name)
    return {name: signature(graph) for name, graph in named.items()}


def _write(graph: Any, path: Path) -> None:
    if weight_bytes(graph) <= operator_graph.LARGEST:
        path.write_bytes(graph.SerializeToString())
        return
    onnx = operator_graph.package()
    onnx.save_model(graph, str(path), save_as_external_data=True, location=f"{path.name}.data")
    onnx.checker.check_model(str(path))


def signature(model: Any) -> Signature:
    """The types and shapes of an ONNX model's inputs and outputs, by name."""
    sides = {"inputs": model.graph.input, "outputs": model.graph.output}
    return {side: {each.name: _described(each.type.tensor_type) for each in values} for side, values in sides.items()}


def onnx_engine(model: Seq2Seq) -> OnnxEngine:
    """An encoder–decoder in ONNX Runtime, with the methods start, step and select for `foveate.decode`."""
    named = graphs(model)
    if any(weight_bytes(graph) > operator_graph.LARGEST for graph in named.values()):
        raise UsageError(
            f"The engine onnx reads models of up to {operator_graph.LARGEST:,} bytes of weights. {INSTEAD}"
        )
    content_of = {name: graph.SerializeToString() for name, graph in named.items()}
    return OnnxEngine(content_of["encoder.onnx"], content_of["step.onnx"], max_length(model))


def _described(tensor: Any) -> str:
    sizes = (size.dim_param or str(size.dim_value) for size in tensor.shape.dim)
    return f"{'float32' if tensor.elem_type == FLOAT else 'int64'} [{', '.join(sizes)}]"


def _reads_pictures(model: nn.Module) -> bool:
    """Whether a model embeds pictures by an encoder of theirs, or is a classifier of patches."""
    embeds = isinstance(model, Classifier) and isinstance(model.embedding, PatchEmbedding)
    return embeds or isinstance(getattr(model, "encoder", None), PictureEncoder)


def _family(model: nn.Module) -> ModuleType | None:
    return next((family for kinds, family in FAMILIES if isinstance(model, kinds)), None)


__all__ = ["Graph", "OnnxEngine", "OnnxState", "graphs", "max_length", "onnx_engine", "refusals", "save_onnx"]
