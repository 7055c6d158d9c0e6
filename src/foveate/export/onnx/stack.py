"""Stacks of recurrent layers in ONNX operators, over whole sentences or continuing from a state."""

from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn

from foveate.export.onnx.operator_graph import Graph
from foveate.nn.recurrent_layer import LectureGRU, RecurrentDecoder, RecurrentEncoder, RecurrentLayer

OPERATORS = {"rnn": "RNN", "lstm": "LSTM", "gru": "GRU", "lecture_gru": "GRU"}
Layers = list[list[str]]
"""The state of every layer: one value, or two for an LSTM."""
Sizes = list[tuple[int, int]]
"""The number of values in the state of each layer, and their width."""


def sizes(layers: Iterable[nn.Module]) -> Sizes:
    """The sizes of the states of these layers."""
    recurrent = cast(Iterable[RecurrentLayer], layers)
    return [(2 if layer.cell == "lstm" else 1, layer.hidden_dim) for layer in recurrent]


def named(layers: Layers, widths: Sizes) -> list[tuple[str, str, int]]:
    """The names of states in all graphs, with widths."""
    return [
        (f"state.layer.{number}.{part}", value, width)
        for number, (layer, (_, width)) in enumerate(zip(layers, widths, strict=True))
        for part, value in enumerate(layer)
    ]


def states(graph: Graph, widths: Sizes) -> Layers:
    """States that are inputs of the graph."""
    return [
        [graph.input(f"state.layer.{number}.{part}", ["rows", width]) for part in range(parts)]
        for number, (parts, width) in enumerate(widths)
    ]


def encoded(graph: Graph, stack: RecurrentEncoder, embedded: str, lengths: str, visible: str) -> tuple[str, Layers]:
    """Outputs of the last layer, zero at padding, and every layer's final state, directions joined."""
    x, finals, real = embedded, [], graph.op("Unsqueeze", visible, graph.whole(2))
    short = graph.op("Cast", lengths, to=6)  # these operators require int32
    for number, layer in enumerate(stack.forwards):
        directions = [layer, *(stack.backwards[number] for _ in range(min(len(stack.backwards), 1)))]
        parts = cast(list[RecurrentLayer], directions)
        outputs, *final = _run(graph, parts, graph.turned(x, 1, 0, 2), short, [])
        width = sum(part.hidden_dim for part in parts)
        outputs = graph.shaped(
            graph.turned(outputs, 2, 0, 1, 3), 0, 0, width
        )  # from [length, directions, sentences, …]
        finals.append([graph.shaped(graph.turned(part, 1, 0, 2), 0, width) for part in final])
        same = (stack.output_dim if number else input_dim(layer)) == width
        outputs = _ended(graph, stack.after, number, x, outputs, same)
        x = graph.op("Where", real, outputs, graph.number(0.0))
    return x, finals


def continued(graph: Graph, stack: RecurrentDecoder, x: str, before: Layers) -> tuple[str, Layers]:
    """Outputs for more inputs in the operators' layout [length, rows, dim], and the states after the last input."""
    layers = []
    for number, (layer, state) in enumerate(zip(stack.layers, before, strict=True)):
        outputs, after = advanced(graph, cast(RecurrentLayer, layer), x, state)
        x = _ended(graph, stack.after, number, x, outputs, input_dim(layer) == stack.output_dim)
        layers.append(after)
    return x, layers


def advanced(graph: Graph, layer: RecurrentLayer, x: str, state: list[str]) -> tuple[str, list[str]]:
    """One layer's outputs for more inputs, [length, rows, dim], and its state after the last."""
    axis = graph.whole(0)
    initial = [graph.op("Unsqueeze", part, axis) for part in state]
    outputs, *after = _run(graph, [layer], x, "", initial)
    return graph.op("Squeeze", outputs, graph.whole(1)), [graph.op("Squeeze", part, axis) for part in after]


def input_dim(layer: nn.Module) -> int:
    """The width of a layer's input."""
    rnn: Any = layer.rnn
    return int(rnn.weight_input.shape[1] if isinstance(rnn, LectureGRU) else rnn.input_size)


def _ended(graph: Graph, after: Any, number: int, x: str, outputs: str, same_width: bool) -> str:
    """The operations after a layer: skip connection and layer norm."""
    if after.skip and same_width:
        outputs = graph.op("Add", outputs, x)
    return graph.norm(outputs, after.norms[number]) if number < len(after.norms) else outputs


def _run(graph: Graph, directions: list[RecurrentLayer], x: str, lengths: str, initial: list[str]) -> list[str]:
    """The operator over sequences [length, sentences, dim]: all outputs and the final state, directions first."""
    cell, attributes = directions[0].cell, {"hidden_size": directions[0].hidden_dim}
    weights = [torch.stack(parts) for parts in zip(*map(_arranged, directions), strict=True)]
    if cell in ("gru", "lecture_gru"):
        attributes["linear_before_reset"] = int(cell == "gru")
    direction = "bidirectional" if len(directions) == 2 else "forward"
    inputs = [x, *map(graph.weight, weights), lengths, *initial]
    return graph.ops(OPERATORS[cell], 3 if cell == "lstm" else 2, *inputs, direction=direction, **attributes)


def _arranged(layer: RecurrentLayer) -> tuple[Tensor, Tensor, Tensor]:
    """Input weights, state weights and biases with gates in ONNX's order: z r h for a GRU, i o f c for an LSTM.

    The z of ONNX is 1 − u of the lectures' GRU, and 1 − σ(a) = σ(−a).
    """
    rnn: Any = layer.rnn
    if isinstance(rnn, LectureGRU):
        bias = torch.cat([rnn.bias, torch.zeros_like(rnn.bias)])
        weights = [rnn.weight_input, rnn.weight_hidden, *bias.chunk(2)]
        arranged = [torch.cat([-update, reset, new]) for reset, update, new in (part.chunk(3) for part in weights)]
    else:
        order = {"rnn": [0], "gru": [1, 0, 2], "lstm": [0, 3, 1, 2]}[layer.cell]
        weights = [rnn.weight_ih_l0, rnn.weight_hh_l0, rnn.bias_ih_l0, rnn.bias_hh_l0]
        arranged = [torch.cat([part.chunk(len(order))[gate] for gate in order]) for part in weights]
    return arranged[0], arranged[1], torch.cat(arranged[2:])
