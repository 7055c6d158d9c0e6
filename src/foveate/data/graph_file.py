"""Graphs of any kind of file, and graphs that have to fit one that a model knows."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from foveate.data.graph import UNLABELLED, Graph
from foveate.data.graph_archive import read_graph
from foveate.data.graph_ml import read_graphml
from foveate.data.graph_table import read_graph_tables
from foveate.data.sparse_row import SparseRows
from foveate.errors import DataError
from foveate.suggestion import counted, did_you_mean, listing

READERS = {".npz": read_graph, ".graphml": read_graphml}
"""The readers of files with a whole graph, by their endings."""
Scale = Literal["sum", "standard", "none"]
SHOWN = 5


def read_graph_file(edges: str, nodes: str | None = None, *, directed: bool = False) -> Graph:
    """The graph of a table of edges and a table of nodes, or of one file, `.npz` or `.graphml`.

    `directed` is for tables; files of whole graphs say it themselves. Raises DataError as the readers do, for tables of
    which one is missing, and for a table of nodes beside a whole graph.
    """
    reader = READERS.get(Path(edges).suffix.lower())
    if reader is None and nodes is None:
        raise DataError(
            f"{edges} is read as a table of edges, and nodes need features. Give their table with --nodes "
            f"(data.nodes), or a whole graph: {' or '.join(READERS)}."
        )
    if reader is None:
        return read_graph_tables(edges, str(nodes), directed=directed)
    if nodes is not None or directed:
        surplus = f"nodes, and {nodes} would not be read" if nodes is not None else "whether edges are directed"
        raise DataError(f"{edges} is a whole graph: it says {surplus}. Leave that out.")
    return reader(edges)


def matched(graph: Graph, like: Graph, name: str) -> tuple[Graph, list[str]]:
    """A graph with the features and the numbers of classes of another one, and sentences on what was left out.

    Columns are matched by their names, where both graphs have names. Words that the other graph lacks are left out;
    nodes of a class that it lacks have no label. A graph without edges fits any features of edges.

    Raises DataError, with the `name` of the graph, for features that are missing or too many.
    """
    notes = list[str]()
    if not graph.edges.size:  # nothing says how many features its edges would have
        features = np.zeros((0, like.edge_width), np.float32)
        graph = replace(graph, edge_features=features if like.edge_width else None)
    if graph.edge_width != like.edge_width:
        raise DataError(
            f"{name} has edges with {counted(graph.edge_width, 'feature')}, and the model was trained on edges with "
            f"{like.edge_width}. Give edges the same columns."
        )
    if graph.feature_names and like.feature_names:
        graph, note = _in_columns(graph, like, name)
        notes += note
    elif graph.width != like.width:
        raise DataError(
            f"{name} has nodes with {counted(graph.width, 'feature')}, and the model was trained on {like.width}. "
            "Give nodes the same columns."
        )
    if graph.labels is not None:
        number = {label: place for place, label in enumerate(like.classes)}
        places = np.array([*(number.get(label, UNLABELLED) for label in graph.classes), UNLABELLED], np.int64)
        labels = places[graph.labels]
        splits = {part: nodes[labels[nodes] != UNLABELLED] for part, nodes in graph.splits.items()}
        unknown = [label for label in graph.classes if label not in number]
        if unknown:
            lost = counted(int((labels == UNLABELLED).sum() - (graph.labels == UNLABELLED).sum()), "node")
            notes.append(
                f"{name}: {lost} of classes that the model does not know count as unlabelled: "
                f"{listing(map(repr, unknown), SHOWN)}."
            )
        graph = replace(graph, labels=labels, classes=like.classes, splits=splits)
    return graph, notes


def _in_columns(graph: Graph, like: Graph, name: str) -> tuple[Graph, list[str]]:
    """The graph with the columns of another one."""
    column = {one: place for place, one in enumerate(like.feature_names)}
    surplus = [one for one in graph.feature_names if one not in column]
    if isinstance(like.features, SparseRows) and isinstance(graph.features, SparseRows):
        places = np.array([column.get(one, -1) for one in graph.feature_names], np.int64)
        features: SparseRows | np.ndarray = graph.features.renumbered(places, like.width)
        what = "word"
    else:
        own = {one: place for place, one in enumerate(graph.feature_names)}
        missing = [one for one in like.feature_names if one not in own]
        if missing:
            raise DataError(
                f"{name} lacks the feature {missing[0]!r}, which the model was trained with."
                f"{did_you_mean(missing[0], own)} Add the column."
            )
        dense = graph.features.dense() if isinstance(graph.features, SparseRows) else graph.features
        features, what = dense[:, [own[one] for one in like.feature_names]], "column"
    note = f"{name}: the model does not know {counted(len(surplus), what)}, which are left out: "
    notes = [f"{note}{listing(map(repr, surplus), SHOWN)}."] if surplus else []
    return replace(graph, features=features, feature_names=like.feature_names), notes


def scaled(graph: Graph, scale: Scale, like: Graph) -> Graph:
    """The graph with other features: "sum" divides those of a node by their sum, as papers on citations prepare words;
    "standard" gives each column of `like` the mean 0 and the standard deviation 1.

    Raises DataError for negative features that would be divided by their sum, and for words that would be standardised.
    """
    if scale == "none":
        return graph
    values = graph.features.values if isinstance(graph.features, SparseRows) else graph.features
    if scale == "sum":
        if values.size and values.min() < 0:
            raise DataError(
                'Some features are negative, so that they cannot be divided by their sum. Set data.scale = "standard".'
            )
        return graph.normalised()
    if isinstance(graph.features, SparseRows) or isinstance(like.features, SparseRows):
        raise DataError('Words are counted, and data.scale = "standard" is for columns of numbers. Set it to "sum".')
    mean, deviation = like.features.mean(0, dtype=np.float64), like.features.std(0, dtype=np.float64)
    features = (graph.features - mean) / np.where(deviation == 0, 1, deviation)
    return replace(graph, features=features.astype(np.float32))
