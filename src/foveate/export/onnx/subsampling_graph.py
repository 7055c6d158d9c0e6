"""Subsampling in ONNX: from rows of frames to shorter rows of vectors."""

from itertools import pairwise
from typing import cast

from torch import Tensor, nn

from foveate.export.onnx import stack
from foveate.export.onnx.encoder_graph import Texts
from foveate.export.onnx.operator_graph import Graph
from foveate.nn.recurrent_layer import RecurrentEncoder
from foveate.nn.subsampling import PlaneSubsampling, Pyramid, Subsampling, TimeSubsampling


def refusals(layer: Subsampling) -> list[str]:
    """Why a subsampling cannot be exported; empty where it can."""
    known = isinstance(layer, TimeSubsampling | PlaneSubsampling | Pyramid)
    return [] if known else [f"{type(layer).__name__} is unknown"]


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
