"""Self-attention in ONNX operators: scores, biases, transforms and rules that depend on positions only."""

import math
from collections.abc import Iterator
from functools import reduce
from typing import Any

from foveate.attention import Attention, Visibility
from foveate.attention.claim import claim
from foveate.attention.onnx import Places
from foveate.attention.visibility.rule import Not, Or
from foveate.export.onnx import score_graph
from foveate.export.onnx.operator_graph import Graph
from foveate.export.plain_attention import extra_refusals, projection_refusals
from foveate.nn.multihead import MultiHeadAttention


def refusals(site: str, attention: MultiHeadAttention) -> list[str]:
    """The parts of a self-attention that cannot be exported."""
    inner = attention.attention
    if type(inner) is not Attention:
        return [f"{site}: {type(inner).__name__} has its own formula"]
    parts: list[tuple[str, object]] = [("its normaliser is", inner.normaliser), ("its bias is", inner.bias)]
    parts += [("its queries pass", transform) for transform in inner.transforms]
    reasons = [*score_graph.refusals(inner.score), *extra_refusals(inner)]
    without = _unwritten(inner.visibility)
    reasons += [f"its visibility contains {part}, which has no method `onnx`" for part in without]
    reasons += [
        f"{what} {getattr(part, '__name__', type(part).__name__)}, which has no method `onnx`"
        for what, part in parts
        if part is not None and claim(part, "onnx") is None
    ]
    return [f"{site}: {reason}" for reason in (*reasons, *projection_refusals(attention))]


def uses_tables(attention: MultiHeadAttention) -> bool:
    """Whether the export contains a table of angles, which has a limited length."""
    return any(claim(each, "tabled", False) for each in getattr(attention.attention, "transforms", ()))


def attended(
    graph: Graph, x: str, attention: MultiHeadAttention, batch: str, places: Places, past: tuple[str, ...] = ()
) -> tuple[str, tuple[str, str]]:
    """Self-attention of positions to themselves and to the past: rows, and the keys and values of all so far."""
    inner: Any = attention.attention
    query, key, value = _projected(graph, x, attention, batch)
    for each in inner.transforms:
        query = each.onnx(graph, query, places, side="query", head_dim=attention.head_dim)
        key = each.onnx(graph, key, places, side="key", head_dim=attention.head_dim)
    if past:
        key, value = (graph.op("Concat", old, new, axis=2) for old, new in zip(past, (key, value), strict=True))
    shared_key, shared_value = (_shared(graph, part, attention) for part in (key, value))
    features = score_graph.key_features(graph, inner.score, shared_key)
    scores = score_graph.compared(
        graph, inner.score, query, features, heads=attention.num_heads, head_dim=attention.head_dim
    )
    if inner.bias is not None:
        scores = graph.op("Add", scores, inner.bias.onnx(graph, places))
    if visible := visible_pairs(graph, inner.visibility, places):
        scores = graph.op("Add", scores, graph.hidden(visible))
    weights = inner.normaliser.onnx(graph, scores)
    if visible and inner.visibility.split().rest:  # a query may see nothing at all
        weights = graph.op("Mul", weights, graph.op("Cast", visible, to=1))
    context = graph.op("MatMul", weights, shared_value)
    return joined_heads(graph, context, attention), (key, value)


def visible_pairs(graph: Graph, rule: Visibility, places: Places) -> str:
    """A Bool value that broadcasts to [batch, heads, query, key]; empty if all pairs are visible."""
    (left, right), pads, rest = rule.split()
    parts = [graph.op("Unsqueeze", places.real, graph.whole(1, 2))] if pads and places.real else []
    if left != math.inf:
        parts.append(graph.op("GreaterOrEqual", places.distance(graph), graph.single(-int(left))))
    if right != math.inf and not places.newest:
        parts.append(graph.op("LessOrEqual", places.distance(graph), graph.single(int(right))))
    parts += filter(None, (_written(graph, part, places) for part in rest))
    return reduce(lambda one, other: graph.op("And", one, other), parts) if parts else ""


def _written(graph: Graph, rule: Visibility, places: Places) -> str:
    """As `visible_pairs`, for a part of a rule that is neither a band nor the padding."""
    if not isinstance(rule, Or | Not):
        return rule.onnx(graph, places)  # type: ignore[misc]
    parts = [visible_pairs(graph, part, places) for part in rule.rules]
    if isinstance(rule, Not):
        return graph.op("Not", parts[0]) if parts[0] else graph.op("Less", graph.single(0), graph.single(0))
    return reduce(lambda one, other: graph.op("Or", one, other), parts) if all(parts) else ""


def _unwritten(rule: Visibility) -> Iterator[Visibility]:
    """The parts of a rule that cannot be exported."""
    for part in rule.split().rest:
        if isinstance(part, Or | Not):
            for inner in part.rules:
                yield from _unwritten(inner)
        elif part.onnx is None:
            yield part


def heads(graph: Graph, x: str, count: int, dim: int, batch: str) -> str:
    """From rows to [batch, heads, length, head_dim]."""
    return graph.turned(graph.shaped(x, batch, -1, count, dim), 0, 2, 1, 3)


def joined_heads(graph: Graph, context: str, attention: MultiHeadAttention) -> str:
    """From [batch, heads, length, head_dim] to rows, through the output product."""
    rows = graph.shaped(graph.turned(context, 0, 2, 1, 3), -1, attention.num_heads * attention.value_head_dim)
    return graph.linear(rows, attention.output)


def _projected(graph: Graph, x: str, attention: MultiHeadAttention, batch: str) -> list[str]:
    """Queries, keys and values of all heads, in one product."""
    joined = graph.linear(x, attention.query, attention.key, attention.value)
    counts, dim = (attention.num_heads, attention.num_kv_heads, attention.num_kv_heads), attention.head_dim
    parts = graph.ops("Split", 3, joined, graph.whole(*(count * dim for count in counts)), axis=1)
    return [heads(graph, part, count, dim, batch) for part, count in zip(parts, counts, strict=True)]


def _shared(graph: Graph, x: str, attention: MultiHeadAttention) -> str:
    """Repeat each head of keys or values for all heads of queries that share it."""
    group = attention.num_heads // attention.num_kv_heads
    if group == 1:
        return x
    often = graph.op("Expand", graph.op("Unsqueeze", x, graph.whole(2)), graph.whole(1, 1, group, 1, 1))
    return graph.shaped(often, 0, attention.num_heads, -1, attention.head_dim)
