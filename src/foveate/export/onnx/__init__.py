"""Encoder–decoders as ONNX files: `encoder.onnx` reads sentences, `step.onnx` says the next word's logits."""

from pathlib import Path
from typing import Any

import torch

from foveate.export.onnx import recurrent, transformer
from foveate.export.onnx.engine import OnnxEngine, OnnxState
from foveate.export.onnx.graph import Graph
from foveate.export.plain import POSITIONS, require, transformer_refusals
from foveate.models import Seq2Seq, Transformer
from foveate.models.recurrent import RecurrentSeq2Seq
from foveate.storage.draft import draft_folder

INSTEAD = "The own engine runs every model."


def refusals(model: Seq2Seq) -> list[str]:
    """Why a model has no ONNX graphs; empty where it has."""
    if isinstance(model, RecurrentSeq2Seq):
        return recurrent.refusals(model)
    return transformer_refusals(model)


def max_length(model: Seq2Seq) -> int | None:
    """The most positions that the graphs represent; None when there is no limit."""
    return (model.max_length or POSITIONS) if isinstance(model, Transformer) else model.max_length


def graphs(model: Seq2Seq) -> tuple[Any, Any]:
    """The encoder and one step of the decoder as ONNX models. Raises UsageError for a model that has none."""
    require(refusals(model), "ONNX", INSTEAD)
    with torch.no_grad():
        if isinstance(model, Transformer):
            return transformer.encoder(model).model(), transformer.step(model).model()
        assert isinstance(model, RecurrentSeq2Seq)
        return recurrent.encoder(model).model(), recurrent.step(model).model()


def save_onnx(model: Seq2Seq, folder: Path | str) -> None:
    """Write `encoder.onnx` and `step.onnx`: whole or not at all.

    Raises UsageError for a model that has no graphs, SetupError where the package onnx is not installed.
    """
    found = [graph.SerializeToString() for graph in graphs(model)]
    with draft_folder(Path(folder), size=sum(map(len, found))) as draft:
        for name, content in zip(("encoder.onnx", "step.onnx"), found, strict=True):
            (draft / name).write_bytes(content)


def onnx_engine(model: Seq2Seq) -> OnnxEngine:
    """A model as ONNX Runtime runs it: start, step and select, as `foveate.decode` wants them."""
    encoder, step = (graph.SerializeToString() for graph in graphs(model))
    return OnnxEngine(encoder, step, max_length(model))


__all__ = ["Graph", "OnnxEngine", "OnnxState", "graphs", "max_length", "onnx_engine", "refusals", "save_onnx"]
