"""Graphs as values: edges are sorted, kept once, and looked along both ways; what does not fit is refused in words."""

from dataclasses import replace

import networkx
import numpy as np
import pytest
import torch

from foveate.data.graph import Graph, numbered
from foveate.data.graph_batch import GraphBatch
from foveate.data.sparse_row import SparseRows


def house() -> Graph:
    """Five nodes; the last has no neighbours, and node 1 an edge to itself."""
    return Graph(
        features=np.arange(10, dtype=np.float32).reshape(5, 2),
        edges=np.array([[3, 1, 0, 1], [0, 1, 1, 2]]),
        edge_features=np.array([[30.0], [11.0], [1.0], [12.0]], np.float32),
        names=tuple("abcde"),
        labels=np.array([0, 1, 0, 1, -1]),
        classes=("even", "odd"),
        splits={"train": np.array([0, 1]), "test": np.array([3])},
    )


def test_edges_are_sorted_with_their_features_and_looked_along_both_ways() -> None:
    graph = house()
    assert graph.edges.tolist() == [[0, 0, 1, 1], [1, 3, 1, 2]]
    assert graph.edge_features is not None
    assert graph.edge_features[:, 0].tolist() == [1, 30, 11, 12]
    pairs, number = graph.edges_both_ways()
    assert sorted(zip(*pairs.tolist(), strict=True)) == [(0, 1), (0, 3), (1, 0), (1, 1), (1, 2), (2, 1), (3, 0)]
    assert pairs[1].tolist() == sorted(pairs[1].tolist())
    assert [sorted(pair) for pair in pairs.T.tolist()] == graph.edges[:, number].T.tolist()
    directed = replace(graph, directed=True)
    assert sorted(directed.messages().T.tolist()) == sorted(directed.edges.T.tolist())
    assert graph.isolated.tolist() == [4]


def test_an_edge_in_both_directions_is_two_edges_only_of_a_directed_graph() -> None:
    both = {"features": np.ones((2, 1), np.float32), "edges": np.array([[0, 1], [1, 0]])}
    assert Graph(**both, directed=True).edges.shape == (2, 2)
    with pytest.raises(ValueError, match="between nodes 0 and 1 stands twice, perhaps once in each direction"):
        Graph(**both)


def test_pairs_in_rows_are_refused_and_not_scrambled() -> None:
    with pytest.raises(
        ValueError, match=r"sources above targets, but have the shape \(3, 2\)\. Transpose them: edges\.T"
    ):
        replace(house(), edges=np.array([[0, 1], [1, 2], [2, 3]]), edge_features=None)
    with pytest.raises(ValueError, match=r"shape \(4,\)\. Give sources and targets"):
        replace(house(), edges=np.array([0, 1, 1, 2]), edge_features=None)
    for empty in (np.zeros(0), np.zeros((0, 2)), np.zeros((2, 0))):
        assert replace(house(), edges=empty, edge_features=None).edges.shape == (2, 0)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"edges": np.array([[0.5], [1.0]]), "edge_features": None}, "Edges"),
        ({"labels": np.array([0.6, 1.0, 0.2, 0.3, 0.0])}, "Labels"),
        ({"splits": {"test": np.array([0.5])}}, "Nodes of the split 'test'"),
        ({"splits": {"test": np.array([True, False, False, True, False])}}, "Nodes of the split 'test'"),
    ],
)
def test_fractions_and_masks_are_refused_and_not_cut(change: dict[str, object], what: str) -> None:
    with pytest.raises(ValueError, match=f"{what} must be whole numbers, but their type is (float64|bool)"):
        replace(house(), **change)  # type: ignore[arg-type]


def test_columns_with_fractions_are_refused_and_not_cut() -> None:
    rows = {"pointers": np.array([0, 1]), "columns": np.array([1]), "values": np.ones(1, np.float32), "width": 2}
    for name, what in (("columns", "Columns"), ("pointers", "Pointers")):
        with pytest.raises(ValueError, match=f"{what} must be whole numbers, but their type is float64"):
            SparseRows(**{**rows, name: np.asarray(rows[name], np.float64)})  # type: ignore[arg-type]
    assert len(SparseRows(**{**rows, "pointers": np.array([0, 0]), "columns": np.zeros(0), "values": np.zeros(0)})) == 1  # type: ignore[arg-type]


def test_permuting_twice_gives_the_graph_again() -> None:
    graph, order = house(), np.array([4, 2, 0, 1, 3])
    back = graph.permuted(order).permuted(np.argsort(order))
    for name in ("features", "edges", "edge_features", "labels"):
        assert np.array_equal(getattr(back, name), getattr(graph, name))
    assert graph.permuted(order).names == tuple("ecabd")
    assert back.names == graph.names
    assert {name: nodes.tolist() for name, nodes in back.splits.items()} == {"train": [0, 1], "test": [3]}
    rows = SparseRows.of([{0: 1.0}, {}, {2: 3.0, 1: 2.0}], width=3)
    assert np.array_equal(rows.taken(np.array([2, 0, 1])).dense(), rows.dense()[[2, 0, 1]])


def test_splits_are_drawn_from_a_seed_and_share_no_node() -> None:
    labels = np.tile([0, 1, 2, -1], 50)
    graph = Graph(
        features=np.ones((200, 1), np.float32), edges=np.zeros((2, 0)).astype(int), labels=labels, classes=tuple("abc")
    )
    first, again, other = (graph.divided(per_class=4, valid=20, test=30, seed=seed).splits for seed in (1, 1, 2))
    assert {name: len(nodes) for name, nodes in first.items()} == {"train": 12, "valid": 20, "test": 30}
    assert np.bincount(labels[first["train"]]).tolist() == [4, 4, 4]
    assert len(np.unique(np.concatenate(list(first.values())))) == 62
    assert (labels[np.concatenate(list(first.values()))] >= 0).all()
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["test"], other["test"])
    with pytest.raises(ValueError, match="50 nodes, and 51 are to be drawn"):
        graph.divided(per_class=51)
    with pytest.raises(ValueError, match="138 labelled nodes are left for validation and test, and 100 \\+ 100"):
        graph.divided(per_class=4, valid=100, test=100)


def test_validation_and_test_draw_alike_from_the_nodes_that_training_leaves() -> None:
    labels = np.repeat([0, 1], [270, 30])
    graph = Graph(
        features=np.ones((300, 1), np.float32), edges=np.zeros((2, 0)).astype(int), labels=labels, classes=tuple("ab")
    )
    splits = [graph.divided(per_class=20, valid=100, test=100, seed=seed).splits for seed in range(50)]
    rare = [sum(int(labels[split[name]].sum()) for split in splits) for name in ("valid", "test")]
    expected = 50 * 100 * 10 / 260
    assert all(abs(count - expected) < 5 * expected**0.5 for count in rare)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"edges": np.array([[0], [5]])}, "edge has the end 5, but nodes are numbered from 0 to 4"),
        ({"features": np.array([[1.0], [np.nan], [0], [0], [0]])}, "features of node 1 hold nan in column 0"),
        ({"edge_features": np.ones((3, 1), np.float32)}, "4 edges, but features of 3"),
        ({"features": np.ones(5, np.float32)}, r"Features have a row for each node, but have the shape \(5,\)"),
        ({"edge_features": np.ones(4, np.float32)}, "features have a row for each edge, but .*: numbers\\[:, None]"),
        ({"names": ("a",)}, "5 nodes but 1 names"),
        ({"labels": np.array([0, 1, 2, 0, 0])}, "Labels go from 0 to 2, but there are 2 classes"),
        ({"splits": {"dev": np.array([0])}}, "'dev' is not a split. Splits are train, valid, test"),
        ({"splits": {"train": np.array([0, 9])}}, "nodes from 0 to 9, of 5 nodes"),
        ({"splits": {"train": np.array([0]), "test": np.array([0])}}, "Node a is in the splits 'train' and 'test'"),
        ({"splits": {"train": np.array([4])}}, "Node e is in the split 'train', but has no label"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(house(), **change)  # type: ignore[arg-type]


def test_sparse_rows_refuse_what_does_not_fit() -> None:
    pointers, columns, values = np.array([0, 1, 2]), np.array([0, 1]), np.array([1.0, 2.0])
    with pytest.raises(ValueError, match="numbered from 0 to 0, but one is 1"):
        SparseRows(pointers=pointers, columns=columns, values=values, width=1)
    with pytest.raises(ValueError, match="rise from 0 to the number of entries"):
        SparseRows(pointers=np.array([0, 2, 1]), columns=columns, values=values, width=2)
    with pytest.raises(ValueError, match="Row 1 has the value inf"):
        SparseRows(pointers=pointers, columns=columns, values=np.array([1.0, np.inf]), width=2)


def test_features_sum_to_one_in_each_node_and_zeros_stay() -> None:
    rows = SparseRows.of([{0: 1.0, 2: 3.0}, {}], width=3)
    assert rows.normalised().dense().tolist() == [[0.25, 0, 0.75], [0, 0, 0]]
    graph = Graph(features=rows.dense(), edges=np.zeros((2, 0), np.int64))
    assert np.array_equal(graph.normalised().features, rows.normalised().dense())


def test_a_batch_is_one_graph_without_edges_between_its_parts() -> None:
    graph = house()
    alone, batch = GraphBatch.of([graph]), GraphBatch.of([graph, graph])
    assert isinstance(batch.features, torch.Tensor)
    assert batch.features.shape == (10, 2)
    assert torch.equal(batch.edges, torch.cat([alone.edges, alone.edges + 5], 1))
    assert batch.edge_features is not None
    assert alone.edge_features is not None
    assert torch.equal(batch.edge_features, alone.edge_features.repeat(2, 1))
    assert batch.graph.tolist() == [0] * 5 + [1] * 5
    here = batch.neighbourhood
    visible = here.rule(self_loops=True)(here.at)[0, 0]
    assert not visible[:5, 5:].any()
    assert torch.equal(visible[5:, 5:], alone.neighbourhood.rule(self_loops=True)(alone.neighbourhood.at)[0, 0])
    with pytest.raises(ValueError, match=r"as many node features, but these have \[1, 2\]"):
        GraphBatch.of([graph, replace(graph, features=np.ones((5, 1), np.float32))])


def test_networkx_graphs_of_both_kinds() -> None:
    graph = networkx.DiGraph()
    graph.add_node("x", age=1.0, place=[2.0, 3.0], team="red")
    graph.add_node("y", age=4.0, place=[5.0, 6.0])
    graph.add_edge("y", "x", weight=0.5)
    read = Graph.of_networkx(graph, features=["age", "place"], label="team", edge_features=["weight"])
    assert isinstance(read.features, np.ndarray)
    assert read.features.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert (read.directed, read.edges.tolist(), read.classes) == (True, [[1], [0]], ("red",))
    assert read.labels is not None
    assert read.labels.tolist() == [0, -1]
    assert read.edge_features is not None
    assert read.edge_features.tolist() == [[0.5]]
    assert not Graph.of_networkx(graph.to_undirected(), features="age").directed
    with pytest.raises(ValueError, match=r"Node 'x' has no 'agee'. It has: 'age', 'place', 'team'"):
        Graph.of_networkx(graph, features=["agee"])
    with pytest.raises(ValueError, match="multigraph"):
        Graph.of_networkx(networkx.MultiGraph(), features="age")


def test_labels_are_numbered_in_alphabetical_order() -> None:
    assert numbered([])[1] == ()
    assert numbered(["b", None, "a", "b"])[0].tolist() == [1, -1, 0, 1]
