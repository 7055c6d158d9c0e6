"""What happens to queries and keys before they are scored, as ONNX operators."""

from typing import Literal

import torch

from foveate.attention.onnx import unit
from foveate.attention.transform import QKNorm, Rotary
from foveate.export.onnx.operator_graph import Graph
from foveate.export.onnx.rule import Places


def applied(
    graph: Graph, transform: Rotary | QKNorm, x: str, side: Literal["query", "key"], places: Places, dim: int
) -> str:
    """Queries or new keys, [batch, heads, length, dim], which stand where the queries of these places do."""
    if isinstance(transform, Rotary):
        return _turned(graph, x, transform, places, dim)
    if transform.norm == "l2":
        normed = unit(graph, x, transform.eps)
        return graph.op("Mul", normed, graph.weight(transform.scale)) if side == "query" else normed
    if transform.norm == "layer":
        x = graph.op("Sub", x, graph.op("ReduceMean", x, graph.whole(-1), keepdims=1))
    weight = transform.query_weight if side == "query" else transform.key_weight
    return graph.op("Mul", graph.rescaled(x, transform.eps), graph.weight(weight))


def _turned(graph: Graph, x: str, rotary: Rotary, places: Places, dim: int) -> str:
    """Pairs of features turned by the angles of their place, which stand in a table."""
    dims = rotary.dims or dim
    rest: list[str] = []
    if dims < dim:
        x, *rest = graph.ops("Split", 2, x, graph.whole(dims, dim - dims), axis=-1)
    angle = _angles(rotary, dims, places.limit)
    cos, sin = (graph.op("Gather", graph.table(table), places.query) for table in (angle.cos(), angle.sin()))
    axis = -1
    if rotary.layout == "interleaved":
        x, axis = graph.shaped(x, 0, 0, 0, dims // 2, 2), 4
        cos, sin = (graph.op("Unsqueeze", table, graph.whole(2)) for table in (cos, sin))
    first, second = graph.ops("Split", 2, x, axis=axis, num_outputs=2)
    turned = graph.op(
        "Concat",
        graph.op("Sub", graph.op("Mul", first, cos), graph.op("Mul", second, sin)),
        graph.op("Add", graph.op("Mul", first, sin), graph.op("Mul", second, cos)),
        axis=axis,
    )
    turned = graph.shaped(turned, 0, 0, 0, dims) if rotary.layout == "interleaved" else turned
    return graph.op("Concat", turned, *rest, axis=-1) if rest else turned


def _angles(rotary: Rotary, dims: int, limit: int) -> torch.Tensor:
    # In float64, as our own.
    pairs = torch.arange(0, dims, 2, dtype=torch.float64)
    return torch.arange(limit)[:, None] * rotary.base ** (-pairs / dims)
