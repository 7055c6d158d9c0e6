"""Scores in ONNX operators: the score exports its features, and its form compares them."""

from typing import Any

import torch
from torch import nn

from foveate.attention.claim import claim
from foveate.attention.score import form_of
from foveate.attention.score.form import Features, Form
from foveate.export.onnx.operator_graph import Graph


def refusals(score: object) -> list[str]:
    """Why a score cannot be exported; empty if it can."""
    form, name = form_of(score), type(score).__name__
    if form is None or form.depends_on_places:
        return [f"its score is {name}"]
    features = form.query_features is not None or form.key_features is not None
    if features and claim(score, "onnx") is None:
        return [f"its score {name} has no method onnx(graph, x, side=) that writes its features"]
    return []


def compared(graph: Graph, score: Any, query: str, key_features: str, *, heads: int = 1, head_dim: int) -> str:
    """Scores [batch, heads, query, key] of queries [batch, heads, query, head_dim] and key features."""
    form = _form(score)
    features = query if form.query_features is None else score.onnx(graph, query, side="query")
    return form.onnx(graph, features, key_features, _width(score, form.of_query, heads, head_dim))


def key_features(graph: Graph, score: Any, key: str) -> str:
    """The features of keys [batch, heads, key, dim], which are computed once per sentence."""
    return score.onnx(graph, key, side="key") if changes_keys(score) else key


def feature_dim(score: Any, key_dim: int) -> int:
    """The width of `key_features`, of one head."""
    return _width(score, _form(score).of_key, 1, key_dim)


def changes_keys(score: object) -> bool:
    """Whether the score has features of keys that differ from the keys."""
    return _form(score).key_features is not None


def _width(score: Any, features: Features, heads: int, dim: int) -> int:
    """The number of features of vectors of this width."""
    weight = next(score.parameters(), torch.empty(0)) if isinstance(score, nn.Module) else torch.empty(0)
    return features(weight.new_zeros(1, heads, 1, dim)).shape[-1]


def _form(score: object) -> Form:
    form = form_of(score)
    assert form is not None
    return form
