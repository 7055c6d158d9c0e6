"""Pooling in ONNX operators: one vector for a whole text."""

from typing import Any

from torch import nn

from foveate.attention import Attention, padding
from foveate.export.onnx import score_graph
from foveate.export.onnx.encoder_graph import Texts
from foveate.export.onnx.operator_graph import Graph
from foveate.export.plain_attention import rule_refusals
from foveate.nn.pooling import AttentionPooling, FirstPooling, MaxPooling


def refusals(pooling: nn.Module) -> list[str]:
    """The parts of a pooling that cannot be exported."""
    if not isinstance(pooling, AttentionPooling):
        return []
    attention = pooling.attention
    if not isinstance(attention, Attention):
        return [f"pooling: {type(attention).__name__} has its own formula"]
    return [f"pooling: {why}" for why in (*score_graph.refusals(attention.score), *rule_refusals(attention, padding()))]


def pooled(graph: Graph, pooling: nn.Module, texts: Texts, x: str, dim: int) -> tuple[str, str]:
    """Convert rows [batch · length, dim] to [batch, dim], zeros for a text without tokens; with attention, also return
    the weights [batch, length].
    """
    padded = texts.silent(graph, texts.padded(graph, x, dim))
    if isinstance(pooling, AttentionPooling):
        return _attended(graph, pooling, texts, padded, dim)
    if isinstance(pooling, FirstPooling):
        first = graph.op("Slice", padded, graph.whole(0), graph.whole(pooling.count), graph.whole(1))
        return graph.shaped(first, 0, pooling.count * dim), ""
    if isinstance(pooling, MaxPooling):
        real = graph.op("Unsqueeze", texts.real, graph.whole(2))
        hidden = graph.op("Where", real, padded, graph.number(float("-inf")))
        largest = graph.op("ReduceMax", hidden, graph.whole(1), keepdims=0)
        some = graph.op("Unsqueeze", graph.op("Greater", texts.lengths, graph.single(0)), graph.whole(1))
        return graph.op("Where", some, largest, graph.number(0.0)), ""
    total = graph.op("ReduceSum", padded, graph.whole(1), keepdims=0)
    least = graph.op("Max", texts.lengths, graph.single(1))
    count = graph.op("Unsqueeze", graph.op("Cast", least, to=1), graph.whole(1))
    return graph.op("Div", total, count), ""


def _attended(graph: Graph, pooling: AttentionPooling, texts: Texts, padded: str, dim: int) -> tuple[str, str]:
    asks: Any = pooling.attention.score  # type: ignore[attr-defined]
    keys = graph.op("Unsqueeze", padded, graph.whole(1))
    query = graph.table(pooling.query[None, None, None])
    scores = score_graph.compared(graph, asks, query, score_graph.key_features(graph, asks, keys), head_dim=dim)
    weights = graph.op("Softmax", graph.op("Add", scores, graph.hidden(texts.real, 1, 2)), axis=-1)
    real = graph.op("Unsqueeze", graph.op("Cast", texts.real, to=1), graph.whole(1, 2))
    weights = graph.op("Mul", weights, real)  # a text without tokens has none
    context = graph.op("Squeeze", graph.op("MatMul", weights, keys), graph.whole(1, 2))
    return context, graph.op("Squeeze", weights, graph.whole(1, 2))
