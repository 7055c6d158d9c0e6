"""Graphs in two tables: edges, and nodes with their features and labels. Errors name the file and the line."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
from jaxtyping import Float, Int

from foveate.data.graph import LARGEST, SPLITS, Graph, feature_of, numbered
from foveate.data.sparse_row import SparseRows
from foveate.data.text import read_lines, short
from foveate.errors import DataError
from foveate.suggestion import did_you_mean

SPECIAL = ("label", "split", "words")
"""Columns of the table of nodes that are not numbers."""
NODES_FORM = (
    "The table of nodes begins with a line of column names: the first column names the nodes, `label` and `split` may "
    "be left out, and features are further columns of numbers or one column `words`."
)


class _Nodes(NamedTuple):
    number: dict[str, int]
    features: Float[np.ndarray, "nodes width"] | SparseRows
    columns: tuple[str, ...]
    labels: list[str | None] | None
    splits: dict[str, list[int]]


def read_graph_tables(edges: Path | str, nodes: Path | str, *, directed: bool = False) -> Graph:
    """A graph from a table of edges and a table of nodes, with tabs between columns.

    The table of nodes begins with the names of its columns. The first column names the nodes; `label` holds their
    classes and may be empty; `split` holds train, valid, test or nothing. Features are all other columns, which hold
    numbers, or else the column `words`, with a document of words with spaces between them: a feature for each word that
    counts how often it stands there. Each line of the table of edges holds the names of two nodes, the source first,
    and any features of the edge as numbers.

    Raises DataError with file and line for an unknown node, an edge or a node that stands twice, a feature that is
    missing or not a number, and a split that is not one.
    """
    table = _read_nodes(nodes)
    index, features = _read_edges(edges, nodes, table.number, directed=directed)
    labels, classes = numbered(table.labels or [])
    return Graph(
        features=table.features,
        edges=index,
        directed=directed,
        edge_features=features,
        names=tuple(table.number),
        feature_names=table.columns,
        labels=labels if table.labels is not None else None,
        classes=classes,
        splits={name: np.array(chosen, np.int64) for name, chosen in table.splits.items()},
    )


def _rows(path: Path | str) -> Iterator[tuple[int, list[str]]]:
    """The cells of lines that are not empty, with their numbers."""
    for line, text in enumerate(read_lines(path), start=1):
        if text.strip():
            yield line, text.split("\t")


def _read_nodes(path: Path | str) -> _Nodes:
    rows = _rows(path)
    line, header = next(rows, (0, []))
    if not header:
        raise DataError(f"{path} is empty. {NODES_FORM}")
    if len(header) < 2 or len(set(header)) < len(header):
        tabs = " Columns are separated by tabs." if len(header) < 2 else ""
        _refuse(path, line, f"the columns are {', '.join(map(short, header))}. {NODES_FORM} Names differ.{tabs}")
    if header[0] in SPECIAL:
        _refuse(path, line, f"the first column names the nodes, and is called {header[0]!r} itself. {NODES_FORM}")
    numeric = [place for place, name in enumerate(header) if place and name not in SPECIAL]
    wordy = header.index("words") if "words" in header else None
    if (wordy is None) == (not numeric):
        _refuse(path, line, f"the nodes need features, in columns of numbers or in one column `words`. {NODES_FORM}")
    number: dict[str, int] = {}
    numbers, documents = list[list[float]](), list[list[str]]()
    labels, splits = list[str | None](), dict[str, list[int]]()
    for line, cells in rows:
        if len(cells) != len(header):
            _refuse(path, line, f"the line has {len(cells)} columns, but the first line names {len(header)}.")
        if cells[0] in number:
            _refuse(path, line, f"the node {short(cells[0])} stands twice. Remove a line.")
        known = dict(zip(header, cells, strict=True))
        number[cells[0]] = place = len(number)
        head = "" if "label" in header else " A column of classes is named `label`."
        numbers.append([_number(path, line, header[column], cells[column], head) for column in numeric])
        documents.append([] if wordy is None else cells[wordy].split())
        labels.append(known.get("label", "").strip() or None)
        if split := known.get("split", "").strip():
            if split not in SPLITS:
                _refuse(path, line, f"{short(split)} is not a split. Use {', '.join(SPLITS)}, or leave it empty.")
            if labels[-1] is None:
                _refuse(path, line, f"the node is in the split {split!r}, but has no label.")
            splits.setdefault(split, []).append(place)
    if not number:
        raise DataError(f"{path} names no nodes. {NODES_FORM}")
    words = tuple(sorted({word for document in documents for word in document}))
    features = np.array(numbers, np.float32) if wordy is None else word_counts(documents, words)
    columns = tuple(header[column] for column in numeric) if wordy is None else words
    return _Nodes(number, features, columns, labels if "label" in header else None, splits)


def word_counts(documents: Sequence[Sequence[str]], words: Sequence[str]) -> SparseRows:
    """The number of times that each word stands in each document."""
    column = {word: place for place, word in enumerate(words)}
    rows = [{column[word]: float(count) for word, count in Counter(document).items()} for document in documents]
    return SparseRows.of(rows, width=len(column))


def _read_edges(
    path: Path | str, nodes: Path | str, number: dict[str, int], *, directed: bool
) -> tuple[Int[np.ndarray, "2 edges"], Float[np.ndarray, "edges width"] | None]:
    line_of: dict[tuple[int, int], int] = {}
    features, width = list[list[float]](), None
    for line, cells in _rows(path):
        if len(cells) < 2:
            _refuse(
                path, line, f"the line holds {short(cells[0])}, and an edge needs two nodes with a tab between them."
            )
        for name in cells[:2]:
            if name not in number:
                head = " Edges have no line of column names: remove it, if it is one." if line == 1 else ""
                _refuse(path, line, f"the node {short(name)} is not in {nodes}.{did_you_mean(name, number)}{head}")
        pair = number[cells[0]], number[cells[1]]
        pair = pair if directed else (min(pair), max(pair))
        if pair in line_of:
            both = "" if directed else ", in one direction or the other"
            _refuse(path, line, f"the edge stands in line {line_of[pair]}, too{both}. Remove one of the lines.")
        width = len(cells) - 2 if width is None else width
        if len(cells) - 2 != width:
            _refuse(path, line, f"the edge has {len(cells) - 2} features, but the first edge has {width}.")
        line_of[pair] = line
        features.append([_number(path, line, f"feature {place}", cell) for place, cell in enumerate(cells[2:], 1)])
    index = np.array(list(line_of), np.int64).reshape(-1, 2).T
    return index, np.array(features, np.float32) if width else None


def _number(path: Path | str, line: int, name: str, cell: str, advice: str = "") -> float:
    value = feature_of(cell)
    if value is None:
        needed = f"a number from {-LARGEST:.2g} to {LARGEST:.2g}"
        missing = "is missing" if not cell.strip() else f"is {short(cell)}, and must be {needed}"
        remedy = f"Write a number that is known, such as the mean, or remove the column.{advice}"
        _refuse(path, line, f"{name} {missing}. {remedy}")
    return value


def _refuse(path: Path | str, line: int, what: str) -> NoReturn:
    raise DataError(f"{path}:{line}: {what}")
