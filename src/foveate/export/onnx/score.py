"""Scores as ONNX operators: what they make of queries, what of keys, and of both."""

from torch import nn

from foveate.attention import Additive, Cosine, Dot, General
from foveate.attention.score import is_one_of
from foveate.export.onnx.graph import Graph

KNOWN = (Dot, General, Cosine, Additive)
Score = Dot | General | Cosine | Additive


def refusals(score: object) -> list[str]:
    """Why a score has no operators; empty where it has."""
    return [] if is_one_of(score, *KNOWN) else [f"its score is {type(score).__name__}"]


def query_features(graph: Graph, score: Score, query: str, head_dim: int) -> str:
    """From [batch, heads, query, head_dim]."""
    if isinstance(score, Dot):
        return graph.op("Mul", query, graph.number(score.factor(head_dim)))
    if isinstance(score, Cosine):
        return graph.op("Mul", normalised(graph, query, score.eps), graph.weight(score.beta[:, None, None]))
    return graph.op("MatMul", query, graph.weight(score.query_weight)) if isinstance(score, Additive) else query


def key_features(graph: Graph, score: Score, key: str) -> str:
    """From [batch, heads, key, dim]: what may be made once and kept."""
    if isinstance(score, Cosine):
        return normalised(graph, key, score.eps)
    if isinstance(score, Dot):
        return key
    weight = score.key_weight if isinstance(score, Additive) else score.weight.mT
    return graph.op("MatMul", key, graph.weight(weight))


def feature_dim(score: object, key_dim: int) -> int:
    """The width of `key_features`."""
    if isinstance(score, Additive):
        return score.key_weight.shape[2]
    return score.weight.shape[1] if isinstance(score, General) else key_dim


def changes_keys(score: object) -> bool:
    """Whether there is something to be made of keys once and kept."""
    return isinstance(score, nn.Module)


def compared(graph: Graph, score: Score, query: str, key: str) -> str:
    """[batch, heads, query, key] from the features of both."""
    if not isinstance(score, Additive):
        return graph.op("MatMul", query, graph.turned(key, 0, 1, 3, 2))
    both = graph.op("Add", graph.op("Unsqueeze", query, graph.whole(3)), graph.op("Unsqueeze", key, graph.whole(2)))
    vector = graph.weight(score.vector[:, None, :, None])
    return graph.op("Squeeze", graph.op("MatMul", graph.op("Tanh", both), vector), graph.whole(4))


def normalised(graph: Graph, x: str, eps: float) -> str:
    """x / ‖x‖"""
    length = graph.op("ReduceL2", x, graph.whole(-1), keepdims=1)
    return graph.op("Div", x, graph.op("Max", length, graph.number(eps)))
