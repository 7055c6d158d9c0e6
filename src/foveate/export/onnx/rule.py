"""Which keys are visible, and what is added to scores, as ONNX operators over places."""

from dataclasses import dataclass
from functools import reduce
from typing import cast

import torch

from foveate.attention import Alibi, Positions, RelativeBuckets, Visibility
from foveate.attention.bias import Gaussian
from foveate.attention.visibility.rule import And, Everything
from foveate.attention.visibility.segment import Padding
from foveate.attention.visibility.window import Causal, Window
from foveate.export.onnx.operator_graph import Graph

BIASES = (Alibi, Gaussian, RelativeBuckets)


@dataclass(frozen=True)
class Places:
    """Where the queries and the keys of a self-attention stand, as lists of whole numbers from 0."""

    query: str
    key: str
    limit: int
    """Positions that tables have."""
    real: str = ""
    """Which keys are real, [batch, key]; empty where all are."""
    newest: bool = False
    """Whether there is one query, and no key after it."""


def hidden(graph: Graph, rule: Visibility, places: Places) -> str:
    """What is added to scores so that nothing but the visible is seen; empty where everything is visible."""
    visible = _visible(graph, rule, places)
    return graph.hidden(visible) if visible else ""


def _visible(graph: Graph, rule: Visibility, places: Places) -> str:
    """Bool that broadcasts to [batch, heads, query, key]; empty for everything."""
    if isinstance(rule, Everything) or (isinstance(rule, Causal) and places.newest):
        return ""
    if isinstance(rule, Padding):
        return graph.op("Unsqueeze", places.real, graph.whole(1, 2)) if places.real else ""
    if isinstance(rule, And):
        parts = [part for part in (_visible(graph, each, places) for each in rule.rules) if part]
        return reduce(lambda one, other: graph.op("And", one, other), parts) if parts else ""
    left, right = (rule.left, rule.right) if isinstance(rule, Window) else (float("inf"), 0)
    distance, sides = _distance(graph, places), []
    if left != float("inf"):
        sides.append(graph.op("GreaterOrEqual", distance, graph.single(-int(left))))
    if right != float("inf"):
        sides.append(graph.op("LessOrEqual", distance, graph.single(int(right))))
    return reduce(lambda one, other: graph.op("And", one, other), sides)


def unknown(rule: Visibility) -> list[str]:
    """The parts of a rule that have no operators."""
    if isinstance(rule, And):
        return [part for inner in rule.rules for part in unknown(inner)]
    known = isinstance(rule, Everything | Causal | Window) or (isinstance(rule, Padding) and rule.lengths is None)
    return [] if known else [str(rule)]


def _distance(graph: Graph, places: Places) -> str:
    """j − i for query i and key j: [query, key]."""
    first, second = (
        graph.op("Unsqueeze", places.key, graph.whole(0)),
        graph.op("Unsqueeze", places.query, graph.whole(1)),
    )
    return graph.op("Sub", first, second)


def added(graph: Graph, bias: object, places: Places) -> str:
    """[heads, query, key], or with one head for all; empty where there is none."""
    if bias is None:
        return ""
    distance = _distance(graph, places)
    if isinstance(bias, RelativeBuckets):
        # Beyond the widest distance all share a bucket.
        far = bias.max_distance
        table = bias.weight[bias.bucket(torch.arange(-far, far + 1))]
        place = graph.op("Add", graph.op("Clip", distance, graph.single(-far), graph.single(far)), graph.single(far))
        return graph.turned(graph.op("Gather", graph.table(table), place), 2, 0, 1)
    away = graph.op("Cast", graph.op("Abs", distance), to=1)  # float32
    if isinstance(bias, Gaussian):
        return graph.op("Mul", graph.op("Mul", away, away), graph.number(-0.5 / bias.sigma**2))
    (slopes,) = cast(Alibi, bias)(Positions.of(1, 2))[:, :, :, 1:]  # at distance 1
    return graph.op("Mul", graph.op("Unsqueeze", away, graph.whole(0)), graph.table(slopes))
