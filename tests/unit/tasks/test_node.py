"""Nodes in use: answers follow the model's weights, and a graph cannot change under them."""

from argparse import Namespace

import numpy as np
import pytest
import torch

from foveate.data.graph import Graph
from foveate.data.graph_batch import GraphBatch
from foveate.data.sparse_row import SparseRows
from foveate.errors import DataError
from foveate.tasks.node.side import NodeSide, _named
from foveate.tasks.node.task import NodeConfig
from foveate.tasks.node.use import NodeClassifier


def graph(features: np.ndarray, edges: np.ndarray) -> Graph:
    return Graph(features=features, edges=edges, labels=np.array([0, 1, 0, 1]), classes=("a", "b"))


def test_answers_are_those_of_the_weights_after_a_change() -> None:
    known = graph(np.eye(4, dtype=np.float32), np.array([[0, 1, 2], [1, 2, 3]]))
    classifier = NodeClassifier(NodeConfig().built(known), known)
    before = classifier.classify(["0"])
    with torch.no_grad():
        for weight in classifier.model.parameters():
            weight.mul_(-3)
    fresh = NodeClassifier(classifier.model, known).classify(["0"])
    assert classifier.classify(["0"]) == fresh != before


def test_an_unknown_name_does_not_make_a_pass_over_the_graph_for_each_of_the_others() -> None:
    known = graph(np.eye(4, dtype=np.float32), np.array([[0, 1, 2], [1, 2, 3]]))
    classifier = NodeClassifier(NodeConfig().built(known), known)
    passes: list[str] = []
    classifier.model.register_forward_hook(lambda *_: passes.append("pass"))
    answers = _named(classifier, Namespace(command="predict", inputs=["0", "x", "3", "1"]))
    assert [one and one.name for _, one in zip(range(4), answers, strict=False)] == ["0", None, "3", "1"]
    assert passes == ["pass"]
    with pytest.raises(DataError, match="1 of 4 inputs"):
        next(answers)


def test_a_command_to_try_quotes_the_name_of_its_node() -> None:
    known = Graph(
        features=np.eye(2, dtype=np.float32), edges=np.array([[0], [1]]), names=("a b", "c"), classes=("x", "y")
    )
    assert NodeSide().trial(NodeClassifier(NodeConfig().built(known), known)) == "'a b'"


def test_a_graph_keeps_its_numbers_when_the_arrays_that_it_was_made_of_change() -> None:
    features, edges, between = np.eye(4, dtype=np.float32), np.array([[0, 1], [1, 2]]), np.ones((2, 1), np.float32)
    known = Graph(features=features, edges=edges, edge_features=between)
    view = features.view()
    view.flags.writeable = False  # which the array below it changes all the same
    viewing = Graph(features=view, edges=edges)
    features[:], edges[:], between[:] = 7, 3, 9
    assert viewing.features[0].tolist() == [1, 0, 0, 0]
    assert known.features[0].tolist() == [1, 0, 0, 0]
    assert (known.edges.tolist(), known.edge_features.tolist()) == ([[0, 1], [1, 2]], [[1], [1]])
    for array in (known.features, known.edges, known.edge_features):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_sparse_rows_keep_their_numbers_and_batches_have_numbers_of_their_own() -> None:
    values = np.array([1.0, 2.0], np.float32)
    rows = SparseRows(pointers=np.array([0, 1, 2]), columns=np.array([0, 1]), values=values, width=2)
    values[:] = 5
    assert rows.dense().tolist() == [[1, 0], [0, 2]]
    batch = GraphBatch.of([Graph(features=rows, edges=np.zeros((2, 0), np.int64))])
    batch.features.values.zero_()
    assert rows.dense().tolist() == [[1, 0], [0, 2]]
