"""Encoders of pictures in ONNX operators: a vector for each place of a grid, from pixels."""

from typing import Any, cast

from torch import nn

from foveate.attention.onnx import Places
from foveate.export.onnx import block_graph
from foveate.export.onnx.encoder_graph import Texts
from foveate.export.onnx.operator_graph import Graph
from foveate.models.convolution import Convolution, GridNetwork, ResidualBlock
from foveate.models.picture_encoder import PictureEncoder
from foveate.models.vit import ViT
from foveate.nn.embed import PatchEmbedding, Patches


def refusals(encoder: PictureEncoder) -> list[str]:
    """The parts of an encoder that cannot be exported."""
    if isinstance(encoder, ViT):
        return block_graph.refusals("layer", encoder.blocks)
    return [] if isinstance(encoder, GridNetwork) else [f"{type(encoder).__name__} is unknown"]


def given(graph: Graph, patches: Patches, count: int) -> tuple[str, Texts]:
    """Pixels [pictures, height, width, channels] as the input of the graph, and the vectors, `count` of each picture,
    that become of them.
    """
    height, width = (count * patches.size for count in patches.grid)
    pixels = graph.input("pixels", ["pictures", height, width, patches.channels])
    batch, length = graph.size(pixels, 0), graph.whole(count)
    lengths = graph.op("Expand", length, batch)
    return pixels, Texts("", lengths, batch, length, graph.visible(lengths, length))


def embedded(graph: Graph, patches: Patches, embedding: PatchEmbedding, pixels: str, batch: str) -> str:
    """Rows [pictures · patches, dim] of patches with their places in learned rows and columns"""
    rows, columns = embedding.row.weight[:, None], embedding.column.weight[None]
    place, dim = (rows + columns).flatten(0, 1), embedding.project.out_features
    x = graph.shaped(graph.linear(_squares(graph, patches, pixels, batch), embedding.project), batch, -1, dim)
    return graph.shaped(graph.op("Add", x, graph.table(place)), -1, dim)


def encoded(graph: Graph, encoder: PictureEncoder, pixels: str, texts: Texts) -> str:
    """Rows [pictures · vectors, output_dim]"""
    if isinstance(encoder, ViT):
        return _vit(graph, encoder, pixels, texts)
    x = graph.turned(pixels, 0, 3, 1, 2)
    for module in cast(Any, encoder).network:
        x = _layer(graph, module, x)
    return graph.shaped(graph.turned(x, 0, 2, 3, 1), -1, encoder.output_dim)


def _vit(graph: Graph, encoder: ViT, pixels: str, texts: Texts) -> str:
    patches, dim, before = encoder.patches, encoder.output_dim, encoder.class_tokens
    squares = _squares(graph, patches, pixels, texts.batch)
    x = graph.shaped(graph.linear(squares, encoder.project), texts.batch, -1, dim)
    x = graph.op("Add", x, graph.table(encoder.position(encoder.standard)))
    if encoder.class_token is not None:
        tokens = graph.op("Unsqueeze", graph.weight(encoder.class_token), graph.whole(0))
        shape = graph.op("Concat", texts.batch, graph.whole(before, dim), axis=0)
        x = graph.op("Concat", graph.op("Expand", tokens, shape), x, axis=1)
    place = graph.places(graph.whole(0), texts.length)
    places = Places(place, place, before + patches.count)
    blocks = cast(Any, encoder.blocks)
    x = block_graph.encoded(graph, blocks, graph.shaped(x, -1, dim), texts.batch, places)
    return graph.norm(x, encoder.norm)


def _squares(graph: Graph, patches: Patches, pixels: str, batch: str) -> str:
    """Rows [pictures · patches, width] of the pixels of each patch"""
    (rows, columns), size = patches.grid, patches.size
    cut = graph.shaped(pixels, batch, rows, size, columns, size, patches.channels)
    return graph.shaped(graph.turned(cut, 0, 1, 3, 2, 4, 5), -1, patches.width)


def _layer(graph: Graph, module: nn.Module, x: str) -> str:
    if isinstance(module, Convolution):
        return _convolution(graph, module, x)
    if isinstance(module, ResidualBlock):
        inner = graph.op("Relu", _convolution(graph, module.first, x))
        shortcut = x if isinstance(module.shortcut, nn.Identity) else _layer(graph, module.shortcut, x)
        return graph.op("Relu", graph.op("Add", shortcut, _convolution(graph, module.second, inner)))
    if isinstance(module, nn.MaxPool2d):
        return graph.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    assert isinstance(module, nn.ReLU)
    return graph.op("Relu", x)


def _convolution(graph: Graph, layer: Convolution, x: str) -> str:
    own = layer.convolution
    side = cast(int, own.padding[0])
    x = graph.op("Conv", x, graph.weight(own.weight), pads=[side] * 4, strides=list(own.stride))
    norm: Any = layer.norm
    if isinstance(norm, nn.BatchNorm2d):
        parts: Any = (norm.weight, norm.bias, norm.running_mean, norm.running_var)
        return graph.op("BatchNormalization", x, *map(graph.weight, parts), epsilon=norm.eps)
    # Group norm is an instance norm of groups; the operator for it has a scale for each group in this version.
    ones, zeros = (graph.table(norm.weight.new_full((norm.num_groups,), value)) for value in (1.0, 0.0))
    groups = graph.shaped(x, 0, norm.num_groups, -1)
    normed = graph.op("InstanceNormalization", groups, ones, zeros, epsilon=norm.eps)
    scale, shift = (graph.table(part[:, None, None]) for part in (norm.weight, norm.bias))
    whole = graph.op("Reshape", normed, graph.op("Shape", x))
    return graph.op("Add", graph.op("Mul", whole, scale), shift)
