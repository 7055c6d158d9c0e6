"""Classifiers of texts from Hugging Face as one graph: from padded texts to logits of labels."""

from typing import cast

from torch import nn

from foveate.export.onnx import encoder_graph, pooling_graph
from foveate.export.onnx.encoder_graph import Texts
from foveate.export.onnx.operator_graph import Graph
from foveate.models.bert_classifier import FirstTokenClassifier
from foveate.nn.pooling import FirstPooling


def refusals(model: FirstTokenClassifier) -> list[str]:
    """The parts of a model that cannot be exported."""
    return encoder_graph.refusals(model.model)


def max_length(model: FirstTokenClassifier) -> int | None:
    """The largest number of tokens that the graph represents."""
    return model.max_length


def graphs(model: FirstTokenClassifier) -> dict[str, Graph]:
    """The graph, by file name."""
    graph, encoder = Graph("model"), model.model
    texts = Texts.given(graph, "tokens", "texts")
    hidden = encoder_graph.bert(graph, encoder, texts, graph.input("segments", ["texts", "length"], integer=True))
    first, _ = pooling_graph.pooled(graph, FirstPooling(1), texts, hidden, encoder.output_dim)
    inner = graph.op("Relu" if model.relu else "Tanh", graph.linear(first, cast(nn.Linear, model.inner)))
    graph.output("logits", graph.linear(inner, model.output), ["texts", model.output.out_features])
    return {"model.onnx": graph}
