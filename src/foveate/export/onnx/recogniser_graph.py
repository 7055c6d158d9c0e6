"""Recognisers as one graph: from padded recordings to CTC's log-probabilities. A decoder beside it is left out."""

from itertools import pairwise
from typing import cast

from torch import Tensor, nn

from foveate.export.onnx import encoder_graph, stack
from foveate.export.onnx.encoder_graph import Texts
from foveate.export.onnx.operator_graph import Graph
from foveate.models.recogniser import Recogniser
from foveate.nn.embed import Tokens, Vectors
from foveate.nn.recurrent_layer import RecurrentEncoder
from foveate.nn.subsampling import PlaneSubsampling, Pyramid, Subsampling, TimeSubsampling

INPUTS = (Tokens, Vectors)
"""The inputs of recognisers that can be exported."""


def refusals(model: Recogniser) -> list[str]:
    """The parts of a recogniser that cannot be exported."""
    reasons = encoder_graph.refusals(model.encoder)
    if not isinstance(model.subsampling, TimeSubsampling | PlaneSubsampling | Pyramid):
        reasons.append(f"{type(model.subsampling).__name__} is unknown")
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
    x, texts = subsampled(graph, model.subsampling, texts, x, width)
    x = encoder_graph.encoded(graph, model.encoder, texts, x, model.subsampling.output_dim)
    labels = model.ctc_output.out_features
    logits = texts.padded(graph, graph.linear(x, model.ctc_output), labels)
    graph.output("log_probabilities", graph.op("LogSoftmax", logits, axis=-1), ["recordings", "outputs", labels])
    graph.output("output_lengths", texts.lengths, ["recordings"], integer=True)
    return {"model.onnx": graph}


def subsampled(graph: Graph, layer: Subsampling, texts: Texts, x: str, width: int) -> tuple[str, Texts]:
    """Rows [batch · outputs, output_dim] from rows [batch · frames, width], and the shorter sequences."""
    if isinstance(layer, TimeSubsampling):
        return _over_time(graph, layer, texts, x, width)
    if isinstance(layer, PlaneSubsampling):
        return _over_plane(graph, layer, texts, x, width)
    assert isinstance(layer, Pyramid)
    return _pyramid(graph, layer, texts, x, width)


def _over_time(graph: Graph, layer: TimeSubsampling, texts: Texts, x: str, width: int) -> tuple[str, Texts]:
    layers = [cast(nn.Linear, each) for each in layer.layers]
    if layer.factor == 1:
        return graph.linear(x, layers[0]), texts
    side, widths = layer.width // 2, [width, *[layer.output_dim] * len(layers)]
    for each, (inputs, outputs) in zip(layers, pairwise(widths), strict=True):
        channels = graph.turned(texts.silent(graph, texts.padded(graph, x, inputs)), 0, 2, 1)
        weight = graph.weight(each.weight.unflatten(1, (layer.width, -1)).mT.contiguous())
        bias = graph.weight(cast(Tensor, each.bias))
        sums = graph.op("Conv", channels, weight, bias, pads=[side, side], strides=[2])
        x = graph.shaped(graph.turned(graph.op("Relu", sums), 0, 2, 1), -1, outputs)
        texts = _halved(graph, texts)
    return x, texts


def _over_plane(graph: Graph, layer: PlaneSubsampling, texts: Texts, x: str, width: int) -> tuple[str, Texts]:
    silent = texts.silent(graph, texts.padded(graph, x, width))
    plane = graph.turned(graph.shaped(silent, 0, 0, layer.spectra, layer.bands), 0, 2, 1, 3)
    for each in layer.layers:
        convolution = cast(nn.Conv2d, each)
        parts = [graph.weight(convolution.weight), graph.weight(cast(Tensor, convolution.bias))]
        side = convolution.kernel_size[0] // 2
        plane = graph.op("Relu", graph.op("Conv", plane, *parts, pads=[side] * 4, strides=[2, 2]))
        texts = _halved(graph, texts)
        plane = graph.op("Where", graph.op("Unsqueeze", texts.real, graph.whole(1, 3)), plane, graph.number(0.0))
    rows = graph.shaped(graph.turned(plane, 0, 2, 1, 3), -1, layer.project.in_features)
    return graph.linear(rows, layer.project), texts


def _pyramid(graph: Graph, layer: Pyramid, texts: Texts, x: str, width: int) -> tuple[str, Texts]:
    for each in layer.layers:
        padded = texts.silent(graph, texts.padded(graph, x, width))
        if layer.joins == 2:
            odd = graph.op("Mod", texts.length, graph.whole(2))
            pads = graph.op("Concat", graph.whole(0, 0, 0, 0), odd, graph.whole(0), axis=0)
            padded = graph.op("Pad", padded, pads)
            texts = _halved(graph, texts)
            padded = graph.shaped(padded, texts.batch, texts.length, 2 * width)
        hidden, _ = stack.encoded(graph, cast(RecurrentEncoder, each), padded, texts.lengths, texts.real)
        width = layer.output_dim
        x = graph.shaped(hidden, -1, width)
    return x, texts


def _halved(graph: Graph, texts: Texts) -> Texts:
    """The sequences with ⌈n/2⌉ positions."""
    lengths, length = (
        graph.op("Div", graph.op("Add", size, one), two)
        for size, one, two in (
            (texts.lengths, graph.single(1), graph.single(2)),
            (texts.length, graph.whole(1), graph.whole(2)),
        )
    )
    return Texts("", lengths, texts.batch, length, graph.visible(lengths, length))
