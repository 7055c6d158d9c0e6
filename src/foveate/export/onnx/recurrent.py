"""The recurrent encoder–decoders as two graphs: the encoder, and one step of the decoder."""

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from foveate.attention import Additive, Attention, Dot, General, padding
from foveate.export.onnx.graph import Graph
from foveate.export.plain import rule_refusals
from foveate.models import Bahdanau, FixedContext, Luong
from foveate.models.recurrent import RecurrentSeq2Seq
from foveate.nn.recurrent import LectureGRU, RecurrentDecoder, RecurrentEncoder, RecurrentLayer

OPERATORS = {"rnn": "RNN", "lstm": "LSTM", "gru": "GRU", "lecture_gru": "GRU"}
Layers = list[list[str]]
"""The state of every layer: one value, or two for an LSTM."""


def refusals(model: RecurrentSeq2Seq) -> list[str]:
    """What of a model has no graph here."""
    if isinstance(model, FixedContext):
        return []
    if not isinstance(model, Bahdanau | Luong):
        return [f"{type(model).__name__} is unknown"]
    attention = model.attention
    if not isinstance(attention, Attention):
        return [f"its attention, {type(attention).__name__}, is a formula of its own"]
    known = isinstance(attention.score, Additive | General | Dot)
    reasons = [] if known else [f"the score of its attention is {type(attention.score).__name__}"]
    return reasons + [f"attention: {reason}" for reason in rule_refusals(attention, padding())]


def encoder(model: RecurrentSeq2Seq) -> Graph:
    """From source ids to the memory, what the score makes of it, and the decoder's state before the first word."""
    graph = Graph("encoder")
    source = graph.input("source", ["sentences", "length"], integer=True)
    lengths = graph.input("lengths", ["sentences"], integer=True)
    visible = graph.visible(lengths, graph.size(source, 1))
    embedded = graph.op("Gather", graph.weight(model.source_embedding.weight), source)
    hidden, finals = _encoded(graph, model.encoder, embedded, lengths, visible)
    if not isinstance(model, FixedContext):
        graph.output("memory.hidden", hidden, ["sentences", "length", model.encoder.output_dim])
        width = _feature_dim(model)
        if width:
            graph.output("memory.features", _features(graph, model, hidden), ["sentences", "length", width])
    layers, feed = _initial(graph, model, finals, graph.size(source, 0))
    for name, value, width in _named(layers, feed, model):
        graph.output(name, value, ["sentences", width])
    return graph


def step(model: RecurrentSeq2Seq) -> Graph:
    """From the newest tokens to the logits of the next."""
    graph = Graph("step")
    token = graph.input("token", ["rows"], integer=True)
    embedded = graph.op("Gather", graph.weight(model.target_embedding.weight), token)
    before: Layers = [
        [graph.input(f"state.layer.{number}.{part}", ["rows", width]) for part in range(parts)]
        for number, (parts, width) in enumerate(_sizes(model))
    ]
    look = (lambda query: query) if isinstance(model, FixedContext) else _memory(graph, model)
    build = {Bahdanau: _bahdanau, Luong: _luong, FixedContext: _fixed_context}[type(model)]
    layers, feed, logits = cast(Any, build)(graph, model, embedded, before, look)
    graph.output("logits", logits, ["rows", model.target_embedding.num_embeddings])
    for name, value, width in _named(layers, feed, model):
        graph.output(f"new.{name}", value, ["rows", width])
    return graph


def _bahdanau(
    graph: Graph, model: Bahdanau, embedded: str, before: Layers, look: Callable[[str], str]
) -> tuple[Layers, str | None, str]:
    ((state, *_),) = before
    context = look(state)
    layer = _advanced(graph, model.decoder, _joined(graph, embedded, context), before[0])
    pairs = graph.linear(_joined(graph, state, embedded, context), model.readout)
    best = graph.op("ReduceMax", graph.shaped(pairs, 0, -1, 2), graph.whole(2), keepdims=0)
    return [layer], None, graph.linear(best, model.output)


def _luong(
    graph: Graph, model: Luong, embedded: str, before: Layers, look: Callable[[str], str]
) -> tuple[Layers, str | None, str]:
    if model.input_feeding:
        embedded = _joined(graph, embedded, graph.input("state.feed", ["rows", model.decoder.output_dim]))
    hidden, layers = _stepped(graph, model.decoder, embedded, before)
    attentional = graph.op("Tanh", graph.linear(_joined(graph, look(hidden), hidden), model.combine))
    return layers, attentional if model.input_feeding else None, graph.linear(attentional, model.output)


def _fixed_context(
    graph: Graph, model: FixedContext, embedded: str, before: Layers, look: Callable[[str], str]
) -> tuple[Layers, str | None, str]:
    context = graph.input("state.feed", ["rows", model.bridge.in_features])
    hidden, layers = _stepped(graph, model.decoder, _joined(graph, embedded, context), before)
    return layers, context, graph.linear(hidden, model.output)


def _initial(graph: Graph, model: RecurrentSeq2Seq, finals: Layers, sentences: str) -> tuple[Layers, str | None]:
    if isinstance(model, Luong):
        zeros = graph.op(
            "ConstantOfShape", graph.op("Concat", sentences, graph.whole(model.decoder.output_dim), axis=0)
        )
        return finals, zeros if model.input_feeding else None
    last = finals[-1][0]
    if isinstance(model, FixedContext):
        start = graph.op("Tanh", graph.linear(last, model.bridge))
        return [[start] * len(layer) for layer in finals], last
    assert isinstance(model, Bahdanau)
    backward = graph.ops("Split", 2, last, axis=1, num_outputs=2)[1]
    return [[graph.op("Tanh", graph.linear(backward, model.bridge))] * len(finals[-1])], None


def _memory(graph: Graph, model: RecurrentSeq2Seq) -> Callable[[str], str]:
    """What attends: from queries, one a row, to contexts. The hypotheses of a sentence share its memory."""
    lengths = graph.input("lengths", ["sentences"], integer=True)
    hidden = graph.input("memory.hidden", ["sentences", "length", model.encoder.output_dim])
    width = _feature_dim(model)
    features = graph.input("memory.features", ["sentences", "length", width]) if width else hidden
    bias = graph.hidden(graph.visible(lengths, graph.size(hidden, 1)), 1)
    sentences, score = graph.size(lengths, 0), cast(Attention, model.attention).score

    def context(query: str) -> str:
        grouped = graph.shaped(query, sentences, -1, _query_dim(model))
        if isinstance(score, Additive):
            asked = graph.op("MatMul", grouped, graph.weight(score.query_weight[0]))
            far = graph.op("Unsqueeze", asked, graph.whole(2))
            both = graph.op("Tanh", graph.op("Add", far, graph.op("Unsqueeze", features, graph.whole(1))))
            scores = graph.op(
                "Squeeze", graph.op("MatMul", both, graph.weight(score.vector[0, :, None])), graph.whole(3)
            )
        else:
            if isinstance(score, Dot):
                grouped = graph.op("Mul", grouped, graph.number(score.factor(_query_dim(model))))
            scores = graph.op("MatMul", grouped, graph.turned(features, 0, 2, 1))
        weights = graph.op("Softmax", graph.op("Add", scores, bias), axis=-1)
        return graph.shaped(graph.op("MatMul", weights, hidden), -1, model.encoder.output_dim)

    return context


def _features(graph: Graph, model: RecurrentSeq2Seq, hidden: str) -> str:
    score = cast(Attention, model.attention).score
    weight = score.key_weight[0] if isinstance(score, Additive) else cast(General, score).weight[0].mT
    return graph.op("MatMul", hidden, graph.weight(weight))


def _feature_dim(model: RecurrentSeq2Seq) -> int:
    """The width of what the score makes of the keys; 0 where it takes them as they are, or nothing attends."""
    score = getattr(getattr(model, "attention", None), "score", None)
    if isinstance(score, Additive):
        return score.key_weight.shape[2]
    return score.weight.shape[1] if isinstance(score, General) else 0


def _query_dim(model: RecurrentSeq2Seq) -> int:
    return _sizes(model)[-1][1]


def _sizes(model: RecurrentSeq2Seq) -> list[tuple[int, int]]:
    """How many values each layer's state of the decoder has, and their width."""
    decoder = cast(RecurrentLayer | RecurrentDecoder, model.decoder)
    layers = [decoder] if isinstance(decoder, RecurrentLayer) else cast(list[RecurrentLayer], list(decoder.layers))
    return [(2 if layer.cell == "lstm" else 1, layer.hidden_dim) for layer in layers]


def _named(layers: Layers, feed: str | None, model: RecurrentSeq2Seq) -> list[tuple[str, str, int]]:
    """The state by the names it has in both graphs, with widths."""
    named = [
        (f"state.layer.{number}.{part}", value, width)
        for number, (layer, (_, width)) in enumerate(zip(layers, _sizes(model), strict=True))
        for part, value in enumerate(layer)
    ]
    if feed is None:
        return named
    width = model.bridge.in_features if isinstance(model, FixedContext) else _query_dim(model)
    return [*named, ("state.feed", feed, width)]


def _joined(graph: Graph, *parts: str) -> str:
    return graph.op("Concat", *parts, axis=1)


def _encoded(graph: Graph, stack: RecurrentEncoder, embedded: str, lengths: str, visible: str) -> tuple[str, Layers]:
    """Outputs of the last layer, zero at padding, and every layer's final state, directions joined."""
    x, finals, real = embedded, [], graph.op("Unsqueeze", visible, graph.whole(2))
    short = graph.op("Cast", lengths, to=6)  # int32, as these operators want it
    for number, layer in enumerate(stack.forwards):
        directions = [layer, *(stack.backwards[number] for _ in range(min(len(stack.backwards), 1)))]
        parts = cast(list[RecurrentLayer], directions)
        outputs, *final = _run(graph, parts, graph.turned(x, 1, 0, 2), short, [])
        width = sum(part.hidden_dim for part in parts)
        outputs = graph.shaped(
            graph.turned(outputs, 2, 0, 1, 3), 0, 0, width
        )  # from [length, directions, sentences, …]
        finals.append([graph.shaped(graph.turned(part, 1, 0, 2), 0, width) for part in final])
        same = (stack.output_dim if number else embedding_dim(layer)) == width
        outputs = _ended(graph, stack.after, number, x, outputs, same)
        x = graph.op("Where", real, outputs, graph.number(0.0))
    return x, finals


def embedding_dim(layer: nn.Module) -> int:
    """The width of a layer's input."""
    rnn: Any = layer.rnn
    return int(rnn.weight_input.shape[1] if isinstance(rnn, LectureGRU) else rnn.input_size)


def _stepped(graph: Graph, stack: RecurrentDecoder, x: str, before: Layers) -> tuple[str, Layers]:
    """One step of a stack, and the states after it."""
    layers = []
    for number, (layer, state) in enumerate(zip(stack.layers, before, strict=True)):
        after = _advanced(graph, cast(RecurrentLayer, layer), x, state)
        x = _ended(graph, stack.after, number, x, after[0], embedding_dim(layer) == stack.output_dim)
        layers.append(after)
    return x, layers


def _ended(graph: Graph, after: Any, number: int, x: str, outputs: str, same_width: bool) -> str:
    """What follows a layer: skip connection and layer norm."""
    if after.skip and same_width:
        outputs = graph.op("Add", outputs, x)
    return graph.norm(outputs, after.norms[number]) if len(after.norms) else outputs


def _advanced(graph: Graph, layer: RecurrentLayer, x: str, state: list[str]) -> list[str]:
    """One step of a layer: a sequence of length one."""
    axis = graph.whole(0)
    initial = [graph.op("Unsqueeze", part, axis) for part in state]
    _, *after = _run(graph, [layer], graph.op("Unsqueeze", x, axis), "", initial)
    return [graph.op("Squeeze", part, axis) for part in after]


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

    Its z is 1 − u of the lectures' GRU, and 1 − σ(a) = σ(−a).
    """
    rnn: Any = layer.rnn
    if isinstance(rnn, LectureGRU):
        bias = torch.cat([rnn.bias, torch.zeros_like(rnn.bias)])
        given = [rnn.weight_input, rnn.weight_hidden, *bias.chunk(2)]
        arranged = [torch.cat([-update, reset, new]) for reset, update, new in (part.chunk(3) for part in given)]
    else:
        order = {"rnn": [0], "gru": [1, 0, 2], "lstm": [0, 3, 1, 2]}[layer.cell]
        given = [rnn.weight_ih_l0, rnn.weight_hh_l0, rnn.bias_ih_l0, rnn.bias_hh_l0]
        arranged = [torch.cat([part.chunk(len(order))[gate] for gate in order]) for part in given]
    return arranged[0], arranged[1], torch.cat(arranged[2:])
