"""Graphs that have to fit a model's: columns by name, classes by name, and features on the scale of training."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from foveate.data.graph import Graph
from foveate.data.graph_archive import read_graph, write_graph
from foveate.data.graph_file import matched, read_graph_file, scaled
from foveate.data.sparse_row import SparseRows
from foveate.errors import DataError

KNOWN = Graph(
    features=np.array([[1.0, 4.0], [3.0, 8.0], [5.0, 0.0]]),
    feature_names=("age", "size"),
    edges=np.array([[0, 1], [1, 2]]),
    labels=np.array([0, 1, 1]),
    classes=("cat", "dog"),
)


def numbers(graph: Graph) -> np.ndarray:
    assert isinstance(graph.features, np.ndarray)
    return graph.features


def test_columns_and_classes_are_matched_by_name() -> None:
    other = Graph(
        features=np.array([[7.0, 1.0, 2.0]]),
        feature_names=("colour", "size", "age"),
        edges=np.zeros((2, 0), int),
        labels=np.array([1]),
        classes=("bird", "dog"),
    )
    graph, notes = matched(other, KNOWN, "new.npz")
    assert np.array_equal(numbers(graph), [[2.0, 1.0]])
    assert graph.labels is not None
    assert (graph.classes, graph.labels.tolist()) == (("cat", "dog"), [1])
    assert notes[0] == "new.npz: the model does not know 1 column, which are left out: 'colour'."
    assert "'bird'" in notes[1]
    with pytest.raises(DataError, match=r"small\.npz lacks the feature 'age', which the model was trained with"):
        matched(Graph(features=np.ones((1, 1)), feature_names=("size",), edges=other.edges), KNOWN, "small.npz")


@pytest.mark.parametrize("width", [0, 3])
def test_a_graph_without_edges_fits_any_features_of_edges(width: int) -> None:
    weighted = replace(KNOWN, edge_features=np.ones((2, 1)))
    alone = replace(KNOWN, edges=np.zeros((2, 0), int), edge_features=np.zeros((0, width)) if width else None)
    assert matched(alone, weighted, "alone.npz")[0].edge_width == 1
    assert matched(alone, KNOWN, "alone.npz")[0].edge_width == 0
    with pytest.raises(DataError, match="has edges with 0 features, and the model was trained on edges with 1"):
        matched(KNOWN, weighted, "known.npz")


def test_features_get_the_scale_of_training() -> None:
    standard = numbers(scaled(KNOWN, "standard", KNOWN))
    assert np.allclose(standard.mean(0), 0, atol=1e-6)
    assert np.allclose(standard.std(0), 1)
    one = Graph(features=np.array([[3.0, 4.0]]), feature_names=("age", "size"), edges=np.zeros((2, 0), int))
    assert np.allclose(numbers(scaled(one, "standard", KNOWN)), 0)
    assert np.allclose(numbers(scaled(KNOWN, "sum", KNOWN)).sum(1), 1)
    assert scaled(KNOWN, "none", KNOWN) is KNOWN
    with pytest.raises(DataError, match="negative"):
        scaled(Graph(features=-np.ones((1, 2)), edges=one.edges), "sum", KNOWN)
    words = Graph(features=SparseRows.of([{0: 1.0}], width=2), edges=one.edges)
    with pytest.raises(DataError, match="Words are counted"):
        scaled(words, "standard", words)


def test_names_of_features_are_stored_and_tables_of_nodes_are_for_tables(tmp_path: Path) -> None:
    write_graph(KNOWN, tmp_path / "graph.npz")
    assert read_graph(tmp_path / "graph.npz").feature_names == ("age", "size")
    with pytest.raises(DataError, match="is a whole graph: it says nodes"):
        read_graph_file(str(tmp_path / "graph.npz"), "nodes.tsv")
    with pytest.raises(DataError, match="is a whole graph: it says whether edges are directed"):
        read_graph_file(str(tmp_path / "graph.npz"), directed=True)
