"""Recognisers as one graph: from padded recordings to CTC's log-probabilities. A decoder beside it is left out."""

from typing import cast

from torch import nn

from foveate.export.onnx import encoder_graph, subsampling_graph
from foveate.export.onnx.encoder_graph import Texts
from foveate.export.onnx.operator_graph import Graph
from foveate.models.recogniser import Recogniser
from foveate.nn.embed import Tokens, Vectors

INPUTS = (Tokens, Vectors)
"""The inputs of recognisers that can be exported."""


def refusals(model: Recogniser) -> list[str]:
    """The parts of a recogniser that cannot be exported."""
    reasons = encoder_graph.refusals(model.encoder) + subsampling_graph.refusals(model.subsampling)
    if model.ctc_output is None:
        reasons.append("it has no CTC, and graphs contain no decoder of a recogniser")
    return reasons


def max_length(model: Recogniser) -> int | None:
    """The largest number of frames that the graph represents; None without a limit."""
    limit = encoder_graph.max_length(model.encoder)
    return None if limit is None else limit * model.stride


def graphs(model: Recogniser) -> dict[str, Graph]:
    """The graph, by file name. Log-probabilities at padding are undefined."""
    assert model.ctc_output is not None
    graph = Graph("model")
    if isinstance(model.input, Vectors):
        width = model.input.width
        values = graph.input("features", ["recordings", "frames", width])
        texts = Texts.of(graph, values, graph.input("lengths", ["recordings"], integer=True))
        x = graph.shaped(values, -1, width)
    else:
        embedding = cast(nn.Embedding, model.source_embedding)
        texts, width = Texts.given(graph, "tokens", "recordings"), embedding.embedding_dim
        x = texts.embedded(graph, embedding)
    x, texts = subsampling_graph.subsampled(graph, model.subsampling, texts, x, width)
    x = encoder_graph.encoded(graph, model.encoder, texts, x, model.subsampling.output_dim)
    labels = model.ctc_output.out_features
    logits = texts.padded(graph, graph.linear(x, model.ctc_output), labels)
    graph.output("log_probabilities", graph.op("LogSoftmax", logits, axis=-1), ["recordings", "outputs", labels])
    graph.output("output_lengths", texts.lengths, ["recordings"], integer=True)
    return {"model.onnx": graph}
