"""Graphs in tables, GraphML and archives: read as they are, or refused with file and line."""

import zipfile
from pathlib import Path
from typing import ClassVar

import networkx
import numpy as np
import pytest

from foveate.data.graph import Graph
from foveate.data.graph_archive import read_graph, write_graph
from foveate.data.graph_ml import read_graphml
from foveate.data.graph_table import read_graph_tables, word_counts
from foveate.data.sparse_row import SparseRows
from foveate.errors import DataError

NODES = "name\tage\tlabel\tsplit\twidth\nann\t1.5\tred\ttrain\t2\nbob\t3\tblue\t\t4\neve\t5\t\t\t6\n"
EDGES = "bob\tann\t0.5\neve\tbob\t0.25\n"


def tables(folder: Path, *, nodes: str = NODES, edges: str = EDGES) -> tuple[Path, Path]:
    (folder / "n.tsv").write_text(nodes)
    (folder / "e.tsv").write_text(edges)
    return folder / "e.tsv", folder / "n.tsv"


def test_tables_of_edges_and_nodes(tmp_path: Path) -> None:
    graph = read_graph_tables(*tables(tmp_path))
    assert isinstance(graph.features, np.ndarray)
    assert graph.features.tolist() == [[1.5, 2], [3, 4], [5, 6]]
    assert (graph.names, graph.classes) == (("ann", "bob", "eve"), ("blue", "red"))
    assert graph.labels is not None
    assert graph.labels.tolist() == [1, 0, -1]
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.edge_features is not None
    assert graph.edge_features.tolist() == [[0.5], [0.25]]
    assert graph.splits["train"].tolist() == [0]
    assert read_graph_tables(*tables(tmp_path), directed=True).edges.tolist() == [[1, 2], [0, 1]]


def test_words_are_counted(tmp_path: Path) -> None:
    paths = tables(tmp_path, nodes="id\twords\na\tsea sun sea\nb\t\nc\tsun\n", edges="a\tc\n")
    features = read_graph_tables(*paths).features
    assert isinstance(features, SparseRows)
    assert features.dense().tolist() == [[2, 1], [0, 0], [0, 1]]


class ComparedWord(str):
    """A word that counts how often it is compared."""

    comparisons: ClassVar[int] = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        type(self).comparisons += 1
        return str(self) == str(other)


def test_a_long_document_is_counted_in_one_pass() -> None:
    document = [ComparedWord(number % 1000) for number in range(2000)]
    assert word_counts([document], [str(number) for number in range(1000)]).dense().tolist() == [[2.0] * 1000]
    assert ComparedWord.comparisons < 10 * len(document)


@pytest.mark.parametrize(
    ("files", "place", "words"),
    [
        ({"edges": "ann\tbob\nbob\tevee\n"}, "e.tsv:2", "'evee' is not in .*n.tsv. Did you mean 'eve'"),
        ({"edges": "source\ttarget\nann\tbob\n"}, "e.tsv:1", "'source' is not in .*no line of column names: remove it"),
        ({"edges": "ann\tbob\n\nbob\tann\n"}, "e.tsv:3", "stands in line 1, too, in one direction or the other"),
        ({"edges": "ann bob\n"}, "e.tsv:1", "needs two nodes with a tab"),
        ({"edges": "ann\tbob\t1\nbob\teve\n"}, "e.tsv:2", "0 features, but the first edge has 1"),
        ({"edges": "ann\tbob\tnan\n"}, "e.tsv:1", "feature 1 is 'nan', and must be a number"),
        ({"nodes": NODES.replace("label", "class")}, "n.tsv:2", "class is .*A column of classes is named `label`"),
        ({"nodes": NODES.replace("3\tblue", "\tblue")}, "n.tsv:3", "age is missing. Write a number"),
        ({"nodes": NODES.replace("eve", "ann")}, "n.tsv:4", "'ann' stands twice"),
        ({"nodes": NODES.replace("\t6", "")}, "n.tsv:4", "4 columns, but the first line names 5"),
        ({"nodes": NODES.replace("train", "dev")}, "n.tsv:2", "'dev' is not a split. Use train, valid, test"),
        ({"nodes": NODES.replace("red", "")}, "n.tsv:2", "in the split 'train', but has no label"),
        ({"nodes": "name\tlabel\nann\tred\n"}, "n.tsv:1", "nodes need features"),
        ({"nodes": "name\tx\twords\nann\t1\tsea\n"}, "n.tsv:1", "in columns of numbers or in one column `words`"),
        ({"nodes": "name\tx\tx\n"}, "n.tsv:1", "Names differ"),
        ({"nodes": "name,x\nann,1\n"}, "n.tsv:1", "Columns are separated by tabs"),
        ({"nodes": "label\tx\nann\t1\n"}, "n.tsv:1", "first column names the nodes, and is called 'label' itself"),
        ({"nodes": "name\tx\n"}, "n.tsv", "names no nodes"),
    ],
)
def test_tables_are_refused_with_file_and_line(tmp_path: Path, files: dict[str, str], place: str, words: str) -> None:
    with pytest.raises(DataError, match=f"{place}.*{words}"):
        read_graph_tables(*tables(tmp_path, **files))


def graphs() -> list[Graph]:
    edges = np.array([[0, 1], [1, 2]])
    rows = SparseRows.of([{0: 1.0}, {}, {3: 2.0}], width=4)
    plain = Graph(features=rows, edges=edges)
    rich = Graph(
        features=rows.dense(),
        edges=edges,
        directed=True,
        edge_features=np.array([[1.0], [2.0]], np.float32),
        names=("a", "ü", "c"),
        labels=np.array([0, -1, 1]),
        classes=("x", "y"),
        splits={"train": np.array([0]), "test": np.array([2])},
    )
    return [plain, rich]


@pytest.mark.parametrize("number", [0, 1])
def test_an_archive_gives_the_graph_back_with_its_splits(tmp_path: Path, number: int) -> None:
    graph = graphs()[number]
    write_graph(graph, tmp_path / "g.npz")
    again = read_graph(tmp_path / "g.npz")
    assert repr(again) == repr(graph)
    assert (again.names, again.classes, again.directed) == (graph.names, graph.classes, graph.directed)
    for name in ("edges", "labels", "edge_features"):
        ours, theirs = getattr(graph, name), getattr(again, name)
        assert (ours is None) == (theirs is None)
        assert ours is None or np.array_equal(ours, theirs)
    first, second = (one.dense() if isinstance(one, SparseRows) else one for one in (graph.features, again.features))
    assert np.array_equal(first, second)
    assert {name: nodes.tolist() for name, nodes in again.splits.items()} == {
        name: nodes.tolist() for name, nodes in graph.splits.items()
    }


def test_archives_of_citations(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "c.npz",
        edges=np.array([[0, 1], [1, 2]], np.int32),
        words_indptr=np.array([0, 1, 1, 3], np.int32),
        words_indices=np.array([2, 0, 1], np.int16),
        words_value=np.ones(3, np.float32),
        num_words=3,
        label=np.array([1, 0, 1], np.int8),
        train=np.array([0]),
        valid=np.array([1]),
        test=np.array([2]),
    )
    graph = read_graph(tmp_path / "c.npz")
    assert isinstance(graph.features, SparseRows)
    assert graph.features.dense().tolist() == [[0, 0, 1], [0, 0, 0], [1, 1, 0]]
    assert (graph.classes, graph.edges.tolist()) == (("0", "1"), [[0, 1], [1, 2]])
    assert [graph.splits[name].tolist() for name in ("train", "valid", "test")] == [[0], [1], [2]]


def test_archives_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_graph(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("a,b")
    with pytest.raises(DataError, match=r"is not an \.npz file of numbers and names"):
        read_graph(tmp_path / "text.npz")
    np.savez(tmp_path / "pickled.npz", edges=np.array([{}], dtype=object))
    with pytest.raises(DataError, match=r"is not an \.npz file of numbers and names"):
        read_graph(tmp_path / "pickled.npz")
    np.savez(tmp_path / "other.npz", x=np.ones(2))
    with pytest.raises(DataError, match=r"lacks the array 'edges' of a graph. It has: x"):
        read_graph(tmp_path / "other.npz")
    np.savez(tmp_path / "newer.npz", format="foveate graph 9", edges=np.zeros((2, 0)))
    with pytest.raises(DataError, match="its format is 'foveate graph 9'"):
        read_graph(tmp_path / "newer.npz")
    write_graph(graphs()[1], tmp_path / "odd.npz")
    arrays = dict(np.load(tmp_path / "odd.npz"))
    np.savez(tmp_path / "odd.npz", **{**arrays, "edges": np.array([[0, 1], [1, 7]])})
    with pytest.raises(DataError, match=r"odd.npz does not hold a graph: An edge has the end 7"):
        read_graph(tmp_path / "odd.npz")


def test_an_archive_whose_header_promises_too_much_is_refused(tmp_path: Path) -> None:
    write_graph(graphs()[1], tmp_path / "g.npz")
    with zipfile.ZipFile(tmp_path / "g.npz") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    shape = b"(2, 2)"
    assert shape in parts["edges.npy"]
    parts["edges.npy"] = parts["edges.npy"].replace(shape + b", }" + b" " * 12, b"(2, 1000000000000), }")
    with zipfile.ZipFile(tmp_path / "g.npz", "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(DataError, match="or it is damaged"):
        read_graph(tmp_path / "g.npz")


@pytest.mark.parametrize("encoding", ["foo", "gbk", "utf-7", "rot13", "idna"])
def test_graphml_in_an_unknown_encoding_is_refused(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "g.graphml").write_text(f'<?xml version="1.0" encoding="{encoding}"?><graphml><graph/></graphml>')
    with pytest.raises(DataError, match=r"g\.graphml:1: .*(encoding|declares no numbers)"):
        read_graphml(tmp_path / "g.graphml")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"edges": np.array([[0, 1], [1, 2], [2, 2]])}, r"shape \(3, 2\)\. Transpose them"),
        ({"labels": np.array([0.5, -1, 1])}, "Labels must be whole numbers"),
        ({"train": np.array([0.5])}, "Nodes of the split 'train' must be whole numbers"),
    ],
)
def test_archives_with_pairs_in_rows_or_fractions_are_refused(
    tmp_path: Path, change: dict[str, np.ndarray], words: str
) -> None:
    write_graph(graphs()[1], tmp_path / "g.npz")
    np.savez(tmp_path / "g.npz", **{**np.load(tmp_path / "g.npz"), **change})  # type: ignore[arg-type]
    with pytest.raises(DataError, match=rf"g\.npz does not hold a graph: .*{words}"):
        read_graph(tmp_path / "g.npz")


def test_graphml_that_networkx_writes(tmp_path: Path) -> None:
    graph = networkx.Graph()
    for name, team in (("x", "red"), ("y", "blue"), ("z", "red")):
        graph.add_node(name, age=float(ord(name)), tall=name == "x", label=team)
    graph.add_edge("z", "x", weight=0.5)
    graph.add_edge("z", "y", weight=1.5)
    networkx.write_graphml(graph, tmp_path / "g.graphml")
    read = read_graphml(tmp_path / "g.graphml", features=["age", "tall"])
    exact = Graph.of_networkx(graph, features=["age", "tall"], label="label", edge_features=["weight"])
    assert repr(read) == repr(exact)
    assert (read.names, read.classes) == (exact.names, exact.classes)
    for name in ("features", "edges", "labels", "edge_features"):
        assert np.array_equal(getattr(read, name), getattr(exact, name))
    assert read_graphml(tmp_path / "g.graphml").width == 2
    networkx.write_graphml(graph.to_directed(), tmp_path / "d.graphml")
    assert read_graphml(tmp_path / "d.graphml").edges.shape == (2, 4)
    with pytest.raises(DataError, match=r"attribute 'agee' of nodes. Did you mean 'age'\?"):
        read_graphml(tmp_path / "g.graphml", features=["agee"])


def test_graphml_says_in_which_split_a_node_is(tmp_path: Path) -> None:
    graph = networkx.Graph()
    for number, split in enumerate(("train", "test", "", "train")):
        graph.add_node(f"n{number}", age=float(number), label="red", split=split)
    graph.add_edge("n0", "n1")
    networkx.write_graphml(graph, tmp_path / "g.graphml")
    read = read_graphml(tmp_path / "g.graphml")
    assert {name: nodes.tolist() for name, nodes in read.splits.items()} == {"train": [0, 3], "test": [1]}
    text = (tmp_path / "g.graphml").read_text()
    for before, after, words in ((">test<", ">dev<", "'dev' is not a split"), (">red<", "><", "but has no label")):
        (tmp_path / "bad.graphml").write_text(text.replace(before, after))
        with pytest.raises(DataError, match=rf"bad.graphml:\d+: .*{words}"):
            read_graphml(tmp_path / "bad.graphml")
    (tmp_path / "bad.graphml").write_text(text.replace('"age"', '"split"'))
    with pytest.raises(DataError, match="declares two attributes 'split' of nodes"):
        read_graphml(tmp_path / "bad.graphml")


HEAD = '<graphml>\n<key id="k" for="node" attr.name="age" attr.type="double"/>\n<graph edgedefault="undirected">\n'
TWO = '<node id="a"><data key="k">1</data></node>\n<node id="b"><data key="k">2</data></node>\n'
TAIL = "</graph></graphml>"


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        (TWO + '<edge source="a" target="c"/>', 6, "'c' is not declared"),
        (TWO + '<edge source="a" target="b"/>\n<edge source="b" target="a"/>', 7, "stands in line 6, too"),
        (TWO + '<edge source="a" target="b" directed="true"/>', 6, "directed and undirected edges"),
        (TWO + '<node id="a"/>', 6, "'a' stands twice"),
        ('<node id="a"/>', 4, "'age' is missing"),
        ('<node id="a"><data key="k">tall</data></node>', 4, "'age' is 'tall', and must be a number"),
        (TWO.replace(">2<", ">-1e39<"), 5, "'age' is '-1e39', and must be a number from -3.4e.38 to 3.4e.38"),
        ('<node id="a"><data key="z">1</data></node>', 4, "'z' is not declared: there is no <key>"),
        ("<hyperedge/>", 4, "hyperedge"),
        ("</graph><graph>", 4, "second graph"),
        ("<node", 4, "it is not XML"),
    ],
)
def test_graphml_is_refused_with_file_and_line(tmp_path: Path, body: str, line: int, words: str) -> None:
    (tmp_path / "g.graphml").write_text(HEAD + body + TAIL)
    with pytest.raises(DataError, match=f"g.graphml:{line}: .*{words}"):
        read_graphml(tmp_path / "g.graphml")


def test_graphml_with_entities_is_refused(tmp_path: Path) -> None:
    (tmp_path / "g.graphml").write_text('<!DOCTYPE x [<!ENTITY a "aaaa">]>\n<graphml>&a;</graphml>')
    with pytest.raises(DataError, match=r"g.graphml:1: .*<!DOCTYPE>"):
        read_graphml(tmp_path / "g.graphml")


def test_graphml_attributes_that_are_declared_for_everything(tmp_path: Path) -> None:
    keys = '<key id="a" for="all" attr.name="age" attr.type="int"/><key id="t" attr.name="tall" attr.type="boolean"/>'
    nodes = "".join(
        f'<node id="{name}"><data key="a">{age}</data><data key="t">{tall}</data></node>'
        for name, age, tall in (("x", 1, "1"), ("y", 2, "0"), ("z", 3, "true"))
    )
    edge = '<edge source="x" target="y"/>'
    (tmp_path / "g.graphml").write_text(f'<graphml>{keys}<graph edgedefault="undirected">{nodes}{edge}{TAIL}')
    graph = read_graphml(tmp_path / "g.graphml")
    assert graph.feature_names == ("age", "tall")
    assert np.array_equal(graph.features, [[1, 1], [2, 0], [3, 1]])
    assert graph.edge_features is None
