"""Transformer blocks in ONNX operators, on rows [batch · length, model_dim]."""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch import nn

from foveate.attention.onnx import Places
from foveate.export.onnx import attention_graph
from foveate.export.onnx.operator_graph import Graph
from foveate.export.plain_attention import position_table, represented
from foveate.nn.position_vector import NoPosition, UnitInterval

GELU = {"gelu": "none", "gelu_tanh": "tanh"}
STATE = ("key", "value")


def refusals(name: str, blocks: Iterable[nn.Module]) -> list[str]:
    """The parts of the blocks' self-attention that cannot be exported."""
    return [
        reason
        for number, block in enumerate(blocks)
        for reason in attention_graph.refusals(f"{name} {number}", block.attention)  # type: ignore[arg-type]
    ]


def limit(max_length: int | None, position: nn.Module | None, blocks: Iterable[nn.Module]) -> int | None:
    """The largest number of positions that graphs of these blocks represent; None without a limit."""
    endless = position is None or type(position) in (NoPosition, UnitInterval)
    if endless and not any(attention_graph.uses_tables(block.attention) for block in blocks):  # type: ignore[arg-type]
        return max_length
    return represented(max_length, position)


def placed(
    graph: Graph, x: str, position: nn.Module | None, shape: tuple[str, str, int], places: Places, lengths: str
) -> str:
    """Rows plus their position vectors; `shape` is [batch, length, model_dim]."""
    if isinstance(position, UnitInterval):
        share = _shares(graph, places.query, lengths)
    else:
        table = None if position is None else position_table(position, shape[2], places.limit)
        if table is None:
            return x
        share = graph.op("Gather", graph.table(table), places.query)
    return graph.shaped(graph.op("Add", graph.shaped(x, *shape), share), -1, shape[2])


def _shares(graph: Graph, place: str, lengths: str) -> str:
    """i / (n − 1) for every position of every sequence: [batch, length, 1]."""
    last = graph.op("Max", graph.op("Sub", lengths, graph.single(1)), graph.single(1))
    whole, part = (graph.op("Cast", value, to=1) for value in (last, place))
    share = graph.op("Div", graph.op("Unsqueeze", part, graph.whole(0)), graph.op("Unsqueeze", whole, graph.whole(1)))
    return graph.op("Unsqueeze", share, graph.whole(2))


def encoded(graph: Graph, blocks: Iterable[Any], x: str, batch: str, places: Places) -> str:
    """The output of the encoder blocks."""
    for block in blocks:
        x = residual(graph, block.attention_residual, x, _look, block.attention, batch, places)
        x = residual(graph, block.feedforward_residual, x, feedforward, block)
    return x


def _look(graph: Graph, x: str, *rest: Any) -> str:
    return attention_graph.attended(graph, x, *rest)[0]


def pasts(graph: Graph, blocks: Iterable[Any]) -> Iterator[tuple[str, ...]]:
    """The keys and values of earlier positions as inputs, for each block."""
    for number, block in enumerate(blocks):
        own = block.attention
        yield tuple(
            graph.input(f"state.{number}.{part}", ["rows", own.num_kv_heads, "past", own.head_dim]) for part in STATE
        )


def past(graph: Graph, x: str, block: Any, before: tuple[str, ...], rows: str, places: Places) -> str:
    """Self-attention of new positions to themselves and to earlier ones; their keys and values join the state."""
    own = block.attention
    output, present = attention_graph.attended(graph, x, own, rows, places, before)
    for name, value in zip(before, present, strict=True):
        graph.output(f"new.{name}", value, ["rows", own.num_kv_heads, "present", own.head_dim])
    return output


def residual(graph: Graph, residual: Any, x: str, f: Callable[..., str], *rest: Any) -> str:
    if getattr(residual, "place", "pre") == "pre":
        return graph.op("Add", x, f(graph, graph.norm(x, residual.norm), *rest))
    return graph.norm(graph.op("Add", x, f(graph, x, *rest)), residual.norm)


def feedforward(graph: Graph, x: str, block: Any) -> str:
    inner, hidden = block.feedforward, graph.linear(x, block.feedforward.expand)
    if hasattr(inner, "gate"):
        hidden = graph.op("Mul", activated(graph, graph.linear(x, inner.gate), "silu"), hidden)
    else:
        hidden = activated(graph, hidden, inner.activation)
    return graph.linear(hidden, inner.contract)


def activated(graph: Graph, x: str, activation: str) -> str:
    if activation == "relu":
        return graph.op("Relu", x)
    if activation == "silu":
        return graph.op("Mul", x, graph.op("Sigmoid", x))
    return graph.op("Gelu", x, approximate=GELU[activation])


def embedded(graph: Graph, ids: str, embedding: nn.Embedding, model_dim: int) -> str:
    """E y √d"""
    vectors = graph.op("Gather", graph.weight(embedding.weight), ids)
    return graph.op("Mul", vectors, graph.number(math.sqrt(model_dim)))
