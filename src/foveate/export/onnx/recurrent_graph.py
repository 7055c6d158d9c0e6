"""The recurrent encoder–decoders as two graphs: the encoder, and one step of the decoder."""

from collections.abc import Callable
from typing import Any, cast

from foveate.attention import Attention, padding
from foveate.export.onnx import score_graph, stack
from foveate.export.onnx.operator_graph import Graph
from foveate.export.onnx.stack import Layers, Sizes
from foveate.export.plain_attention import rule_refusals
from foveate.models import Bahdanau, FixedContext, Luong
from foveate.models.recurrent import RecurrentSeq2Seq
from foveate.nn.recurrent_layer import RecurrentDecoder, RecurrentLayer


def refusals(model: RecurrentSeq2Seq) -> list[str]:
    """The parts of a model that cannot be exported."""
    if isinstance(model, FixedContext):
        return []
    if not isinstance(model, Bahdanau | Luong):
        return [f"{type(model).__name__} is unknown"]
    attention = model.attention
    if not isinstance(attention, Attention):
        return [f"its attention, {type(attention).__name__}, has its own formula"]
    reasons = [*score_graph.refusals(attention.score), *rule_refusals(attention, padding())]
    return [f"attention: {reason}" for reason in reasons]


def max_length(model: RecurrentSeq2Seq) -> int | None:
    """The largest number of positions that the graphs represent; None without a limit."""
    return model.max_length


def graphs(model: RecurrentSeq2Seq) -> dict[str, Graph]:
    """Both graphs, by file name."""
    return {"encoder.onnx": encoder(model), "step.onnx": step(model)}


def encoder(model: RecurrentSeq2Seq) -> Graph:
    """Compute the memory of source ids, its key features, and the decoder's state before the first word."""
    graph = Graph("encoder")
    source = graph.input("source", ["sentences", "length"], integer=True)
    lengths = graph.input("lengths", ["sentences"], integer=True)
    visible = graph.visible(lengths, graph.size(source, 1))
    embedded = graph.op("Gather", graph.weight(model.source_embedding.weight), source)
    hidden, finals = stack.encoded(graph, model.encoder, embedded, lengths, visible)
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
    """Compute the logits of the next tokens from the newest ones."""
    graph = Graph("step")
    token = graph.input("token", ["rows"], integer=True)
    embedded = graph.op("Gather", graph.weight(model.target_embedding.weight), token)
    before = stack.states(graph, _sizes(model))
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
    x = graph.op("Unsqueeze", _joined(graph, embedded, context), graph.whole(0))
    _, layer = stack.advanced(graph, model.decoder, x, before[0])
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


def _stepped(graph: Graph, decoder: RecurrentDecoder, x: str, before: Layers) -> tuple[str, Layers]:
    """The decoder's layers for a sequence of length one."""
    hidden, layers = stack.continued(graph, decoder, graph.op("Unsqueeze", x, graph.whole(0)), before)
    return graph.op("Squeeze", hidden, graph.whole(0)), layers


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
    """A function from queries, one per row, to contexts. The hypotheses of a sentence share its memory."""
    lengths = graph.input("lengths", ["sentences"], integer=True)
    hidden = graph.input("memory.hidden", ["sentences", "length", model.encoder.output_dim])
    width, head = _feature_dim(model), graph.whole(1)
    features = graph.input("memory.features", ["sentences", "length", width]) if width else hidden
    bias = graph.hidden(graph.visible(lengths, graph.size(hidden, 1)), 1, 2)
    sentences, asks = graph.size(lengths, 0), _score(model)
    keys, values = (graph.op("Unsqueeze", part, head) for part in (features, hidden))

    def context(query: str) -> str:
        grouped = graph.shaped(query, sentences, 1, -1, _query_dim(model))
        scores = score_graph.compared(graph, asks, grouped, keys, head_dim=_query_dim(model))
        weights = graph.op("Softmax", graph.op("Add", scores, bias), axis=-1)
        return graph.shaped(graph.op("MatMul", weights, values), -1, model.encoder.output_dim)

    return context


def _features(graph: Graph, model: RecurrentSeq2Seq, hidden: str) -> str:
    head = graph.whole(1)
    return graph.op(
        "Squeeze", score_graph.key_features(graph, _score(model), graph.op("Unsqueeze", hidden, head)), head
    )


def _feature_dim(model: RecurrentSeq2Seq) -> int:
    """The width of the score's key features; 0 if it uses the keys themselves."""
    asks = _score(model)
    return score_graph.feature_dim(asks, model.encoder.output_dim) if score_graph.changes_keys(asks) else 0


def _score(model: RecurrentSeq2Seq) -> Any:
    return cast(Attention, model.attention).score


def _query_dim(model: RecurrentSeq2Seq) -> int:
    return _sizes(model)[-1][1]


def _sizes(model: RecurrentSeq2Seq) -> Sizes:
    decoder = cast(RecurrentLayer | RecurrentDecoder, model.decoder)
    return stack.sizes([decoder] if isinstance(decoder, RecurrentLayer) else decoder.layers)


def _named(layers: Layers, feed: str | None, model: RecurrentSeq2Seq) -> list[tuple[str, str, int]]:
    """The names of the state in both graphs, with widths."""
    named = stack.named(layers, _sizes(model))
    if feed is None:
        return named
    width = model.bridge.in_features if isinstance(model, FixedContext) else _query_dim(model)
    return [*named, ("state.feed", feed, width)]


def _joined(graph: Graph, *parts: str) -> str:
    return graph.op("Concat", *parts, axis=1)
