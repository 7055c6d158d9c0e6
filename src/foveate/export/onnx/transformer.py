"""A Transformer as two graphs: the encoder, and one step of the decoder."""

import math
from collections.abc import Callable
from typing import Any, cast

from torch import nn

from foveate.export.onnx.graph import Graph
from foveate.export.plain import position_table, score_factor
from foveate.models import Transformer
from foveate.nn.multihead import MultiHeadAttention

GELU = {"gelu": "none", "gelu_tanh": "tanh"}


def encoder(model: Transformer) -> Graph:
    """From source ids to every layer's keys and values of the memory, and caches with nothing in them yet."""
    graph = Graph("encoder")
    source = graph.input("source", ["sentences", "length"], integer=True)
    lengths = graph.input("lengths", ["sentences"], integer=True)
    sentences, length = graph.size(source, 0), graph.size(source, 1)
    bias = graph.hidden(graph.visible(lengths, length), 1, 2)
    x = _embedded(graph, graph.shaped(source, -1), model.source_embedding, model)
    table = position_table(model.position, model.model_dim, model.max_length)
    if table is not None:
        here = graph.op("Slice", graph.weight(table), graph.whole(0), length)
        x = graph.shaped(
            graph.op("Add", graph.shaped(x, sentences, length, model.model_dim), here), -1, model.model_dim
        )
    for block in cast(Any, model.encoder):
        x = _residual(graph, block.attention_residual, x, _self, block, sentences, bias)
        x = _residual(graph, block.feedforward_residual, x, _feedforward, block)
    x = graph.norm(x, model.encoder_norm)
    for number, block in enumerate(cast(Any, model.decoder)):
        _remember(graph, number, block, x, sentences)
    return graph


def step(model: Transformer) -> Graph:
    """From the newest tokens, which stand at `time`, to the logits of the next."""
    graph = Graph("step")
    token, time = graph.input("token", ["rows"], integer=True), graph.input("time", [], integer=True)
    lengths = graph.input("lengths", ["sentences"], integer=True)
    sentences, bias = graph.size(lengths, 0), ""
    x = _embedded(graph, token, model.target_embedding, model)
    table = position_table(model.target_position, model.model_dim, model.max_length)
    if table is not None:
        x = graph.op("Add", x, graph.op("Gather", graph.weight(table), time))
    for number, block in enumerate(cast(Any, model.decoder)):
        memory = tuple(graph.input(f"memory.{number}.{part}", shape) for part, shape in _memory(block).items())
        bias = bias or graph.hidden(graph.visible(lengths, graph.size(memory[0], 3)), 1, 2)
        x = _residual(graph, block.attention_residual, x, _past, block, number)
        x = _residual(graph, block.cross_residual, x, _look_up, block, memory, sentences, bias)
        x = _residual(graph, block.feedforward_residual, x, _feedforward, block)
    x = graph.norm(x, model.decoder_norm)
    logits = graph.product(x, model.output_table, model.output_bias)
    graph.output("logits", logits, ["rows", model.output_table.shape[0]])
    return graph


def _embedded(graph: Graph, ids: str, embedding: nn.Embedding, model: Transformer) -> str:
    vectors = graph.op("Gather", graph.weight(embedding.weight), ids)
    return graph.op("Mul", vectors, graph.number(math.sqrt(model.model_dim)))


def _residual(graph: Graph, residual: Any, x: str, f: Callable[..., str], *given: Any) -> str:
    if residual.place == "pre":
        return graph.op("Add", x, f(graph, graph.norm(x, residual.norm), *given))
    return graph.norm(graph.op("Add", x, f(graph, x, *given)), residual.norm)


def _feedforward(graph: Graph, x: str, block: Any) -> str:
    hidden, activation = graph.linear(x, block.feedforward.expand), block.feedforward.activation
    if activation == "relu":
        hidden = graph.op("Relu", hidden)
    elif activation == "silu":
        hidden = graph.op("Mul", hidden, graph.op("Sigmoid", hidden))
    else:
        hidden = graph.op("Gelu", hidden, approximate=GELU[activation])
    return graph.linear(hidden, block.feedforward.contract)


def _self(graph: Graph, x: str, block: Any, sentences: str, bias: str) -> str:
    """Attention of whole sentences to themselves."""
    attention = block.attention
    joined = graph.linear(x, attention.query, attention.key, attention.value)
    query, key, value = graph.ops("Split", 3, joined, axis=1, num_outputs=3)
    query, value = (_heads(graph, part, attention, sentences) for part in (query, value))
    return _attended(graph, attention, query, _heads(graph, key, attention, sentences, (0, 2, 3, 1)), value, bias)


def _remember(graph: Graph, number: int, block: Any, x: str, sentences: str) -> None:
    attention = block.cross_attention
    key, value = graph.ops("Split", 2, graph.linear(x, attention.key, attention.value), axis=1, num_outputs=2)
    memory = (_heads(graph, key, attention, sentences, (0, 2, 3, 1)), _heads(graph, value, attention, sentences))
    for (part, shape), kept in zip(_memory(block).items(), memory, strict=True):
        graph.output(f"memory.{number}.{part}", kept, shape)
    own = block.attention
    nothing = graph.op("Concat", sentences, graph.whole(own.num_heads, 0, own.head_dim), axis=0)
    for part in ("key", "value"):
        graph.output(
            f"state.{number}.{part}",
            graph.op("ConstantOfShape", nothing),
            ["sentences", own.num_heads, "nothing", own.head_dim],
        )


def _past(graph: Graph, x: str, block: Any, number: int) -> str:
    """Attention of the newest position to all so far: it joins the state."""
    attention = block.attention
    joined = graph.linear(x, attention.query, attention.key, attention.value)
    query, *new = (
        graph.shaped(part, 0, attention.num_heads, 1, attention.head_dim)
        for part in graph.ops("Split", 3, joined, axis=1, num_outputs=3)
    )
    kept = []
    for part, here in zip(("key", "value"), new, strict=True):
        name, shape = f"state.{number}.{part}", ["rows", attention.num_heads, "past", attention.head_dim]
        kept.append(graph.op("Concat", graph.input(name, list(shape)), here, axis=2))
        graph.output(f"new.{name}", kept[-1], ["rows", attention.num_heads, "present", attention.head_dim])
    return _attended(graph, attention, query, graph.turned(kept[0], 0, 1, 3, 2), kept[1], "")


def _look_up(graph: Graph, x: str, block: Any, memory: tuple[str, str], sentences: str, bias: str) -> str:
    """Attention to the memory: the hypotheses of a sentence are queries to one."""
    attention = block.cross_attention
    query = _heads(graph, graph.linear(x, attention.query), attention, sentences)
    return _attended(graph, attention, query, *memory, bias)


def _attended(graph: Graph, attention: MultiHeadAttention, query: str, key: str, value: str, bias: str) -> str:
    """softmax(q K · factor + bias) V for keys of shape [batch, heads, head_dim, length], and the output product."""
    query = graph.op("Mul", query, graph.number(score_factor(attention)))
    scores = graph.op("MatMul", query, key)
    weights = graph.op("Softmax", graph.op("Add", scores, bias) if bias else scores, axis=-1)
    context = graph.turned(graph.op("MatMul", weights, value), 0, 2, 1, 3)
    return graph.linear(graph.shaped(context, -1, attention.num_heads * attention.value_head_dim), attention.output)


def _heads(
    graph: Graph, x: str, attention: MultiHeadAttention, sentences: str, order: tuple[int, ...] = (0, 2, 1, 3)
) -> str:
    return graph.turned(graph.shaped(x, sentences, -1, attention.num_heads, attention.head_dim), *order)


def _memory(block: Any) -> dict[str, list[int | str]]:
    heads, dim = block.cross_attention.num_heads, block.cross_attention.head_dim
    return {"key": ["sentences", heads, dim, "length"], "value": ["sentences", heads, "length", dim]}
