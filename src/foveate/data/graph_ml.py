"""Graphs in GraphML, the XML of graph editors. Errors name the file and the line."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn
from xml.parsers import expat

import numpy as np
from jaxtyping import Float

from foveate.data.graph import LARGEST, SPLITS, Graph, feature_of, numbered
from foveate.data.text import short
from foveate.errors import DataError
from foveate.suggestion import did_you_mean, missing_file

NUMERIC = frozenset({"boolean", "int", "long", "float", "double"})
"""The types of attributes that are numbers."""
TRUTHS = {"true": 1.0, "1": 1.0, "false": 0.0, "0": 0.0}


class _Key(NamedTuple):
    """The declaration of an attribute."""

    name: str
    about: str
    kind: str
    default: str | None = None


class _Entry(NamedTuple):
    """A node or an edge, with its line and its attributes."""

    line: int
    ends: tuple[str, ...]
    data: dict[str, str]


class _Document:
    """The keys, nodes and edges of a file, as the parser meets them."""

    def __init__(self, path: Path) -> None:
        self.path, self.directed = path, False
        self.keys: dict[str, _Key] = {}
        self.nodes: dict[str, _Entry] = {}
        self.edges: list[_Entry] = []
        self._graphs, self._open = 0, list[tuple[str, str, _Entry | None]]()
        self._text: list[str] = []
        self._parser = parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._text.append
        parser.StartDoctypeDeclHandler = lambda *_: self.refuse("it declares a document type. Remove the <!DOCTYPE>.")

    def read(self, content: bytes) -> None:
        try:
            self._parser.Parse(content, True)
        except expat.ExpatError as error:
            raise DataError(f"{self.path}:{error.lineno}: {expat.ErrorString(error.code)}: it is not XML.") from None
        except DataError:
            raise
        except (LookupError, ValueError):  # of the codec
            raise DataError(f"{self.path}:1: the encoding of the file is not known here. Save it in UTF-8.") from None

    def refuse(self, what: str, line: int | None = None) -> NoReturn:
        raise DataError(f"{self.path}:{line or self._parser.CurrentLineNumber}: {what}")

    def used(self, about: str, entries: Iterable[_Entry]) -> list[str]:
        """The keys of nodes or of edges. One that is declared for everything is theirs if one of them has it."""
        written = {key for entry in entries for key in entry.data}
        return [
            key
            for key, known in self.keys.items()
            if known.about == about or (known.about == "all" and (key in written or known.default is not None))
        ]

    def _start(self, tag: str, known: dict[str, str]) -> None:
        tag, line = tag.rpartition(" ")[2], self._parser.CurrentLineNumber
        self._text.clear()
        entry = self._open[-1][2] if self._open else None
        if tag == "key":
            name = known.get("attr.name", known.get("id", ""))
            self.keys[known.get("id", "")] = _Key(name, known.get("for", "all"), known.get("attr.type", "string"))
        elif tag == "graph":
            self._graphs += 1
            if self._graphs > 1:
                self.refuse("the file holds a second graph, or a graph within a node. Save each in a file of its own.")
            self.directed = known.get("edgedefault") == "directed"
        elif tag == "node":
            entry = _Entry(line, (known.get("id", ""),), {})
            if entry.ends[0] in self.nodes:
                self.refuse(f"the node {short(entry.ends[0])} stands twice. Remove one.")
            self.nodes[entry.ends[0]] = entry
        elif tag == "edge":
            if known.get("directed", str(self.directed).lower()) != str(self.directed).lower():
                self.refuse("the graph has directed and undirected edges. Make all of them one kind.")
            entry = _Entry(line, (known.get("source", ""), known.get("target", "")), {})
            self.edges.append(entry)
        elif tag == "hyperedge":
            self.refuse("a hyperedge joins more than two nodes. Write it as edges.")
        self._open.append((tag, known.get("key", known.get("id", "")), entry))

    def _end(self, tag: str) -> None:
        tag, key, entry = self._open.pop()
        text = "".join(self._text).strip()
        if tag == "data" and entry is not None:
            if key not in self.keys:
                self.refuse(f"the attribute {short(key)} is not declared: there is no <key> with this id.")
            entry.data[key] = text
        elif tag == "default" and self._open and self._open[-1][0] == "key":
            owner = self._open[-1][1]
            self.keys[owner] = self.keys[owner]._replace(default=text)
        self._text.clear()


def read_graphml(path: Path | str, *, label: str | None = "label", features: Sequence[str] | None = None) -> Graph:
    """A graph in GraphML. `label` names the attribute with the class of a node, if the file has it; `features` the
    attributes with a number each, by default all numbers but the label, in the order of their declarations. A text
    `split` says train, valid or test, or nothing. All numbers of edges are features of the edges.

    Raises DataError with file and line for an unknown node, an edge or a node that stands twice, an attribute that is
    missing, not declared, declared twice or not a number, another split, a hyperedge, and a second graph.
    """
    path = Path(path)
    document = _Document(path)
    try:
        document.read(path.read_bytes())
    except FileNotFoundError:
        raise DataError(missing_file(path)) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    of_node = dict[str, str]()
    for key in document.used("node", document.nodes.values()):
        name = document.keys[key].name
        if name in of_node:
            raise DataError(f"{path} declares two attributes {name!r} of nodes. Give each a name of its own.")
        of_node[name] = key
    numeric = [name for name, key in of_node.items() if document.keys[key].kind in NUMERIC and name != label]
    chosen = numeric if features is None else list(features)
    for name in chosen:
        if name not in of_node:
            raise DataError(f"{path} does not declare the attribute {name!r} of nodes.{did_you_mean(name, of_node)}")
    if not chosen:
        raise DataError(f"{path} declares no numbers of nodes, and nodes need features. Add an attribute to them.")
    between = [key for key in document.used("edge", document.edges) if document.keys[key].kind in NUMERIC]
    labels, classes = numbered(_labels(document, of_node.get(label or "")))
    return Graph(
        features=_table(document, list(document.nodes.values()), [of_node[name] for name in chosen]),
        edges=_edges(document),
        directed=document.directed,
        edge_features=_table(document, document.edges, between) if between and document.edges else None,
        names=tuple(document.nodes),
        feature_names=tuple(chosen),
        labels=labels if label in of_node else None,
        classes=classes if label in of_node else (),
        splits=_splits(document, of_node.get("split"), of_node.get(label or "")),
    )


def _labels(document: _Document, key: str | None) -> list[str | None]:
    if key is None:
        return []
    default = document.keys[key].default
    return [entry.data.get(key, default) or None for entry in document.nodes.values()]


def _splits(document: _Document, key: str | None, label: str | None) -> dict[str, np.ndarray]:
    """The nodes of each split, from a text that nodes have."""
    splits: dict[str, list[int]] = {}
    if key is None or document.keys[key].kind in NUMERIC:
        return {}
    labels = _labels(document, label) or [None] * len(document.nodes)
    for place, entry in enumerate(document.nodes.values()):
        split = entry.data.get(key, document.keys[key].default)
        if not split:
            continue
        if split not in SPLITS:
            named = f"{short(split)} is not a split. Use {', '.join(SPLITS)}, or leave it empty."
            document.refuse(named, entry.line)
        if labels[place] is None:
            document.refuse(f"the node is in the split {split!r}, but has no label.", entry.line)
        splits.setdefault(split, []).append(place)
    return {name: np.array(nodes, np.int64) for name, nodes in splits.items()}


def _edges(document: _Document) -> np.ndarray:
    number = {name: place for place, name in enumerate(document.nodes)}
    line_of: dict[tuple[int, int], int] = {}
    for entry in document.edges:
        for name in entry.ends:
            if name not in number:
                document.refuse(f"the node {short(name)} is not declared.{did_you_mean(name, number)}", entry.line)
        one, other = (number[name] for name in entry.ends)
        pair = (one, other) if document.directed else (min(one, other), max(one, other))
        if pair in line_of:
            document.refuse(f"the edge stands in line {line_of[pair]}, too. Remove one.", entry.line)
        line_of[pair] = entry.line
    return np.array(list(line_of), np.int64).reshape(-1, 2).T


def _table(document: _Document, entries: Sequence[_Entry], keys: Sequence[str]) -> Float[np.ndarray, "rows width"]:
    rows = [[_number(document, entry, key) for key in keys] for entry in entries]
    return np.array(rows, np.float32).reshape(len(entries), len(keys))


def _number(document: _Document, entry: _Entry, key: str) -> float:
    known = document.keys[key]
    text = entry.data.get(key, known.default)
    if text is None:
        document.refuse(f"the attribute {known.name!r} is missing. Give it a value, or its key a default.", entry.line)
    value = TRUTHS.get(text.lower()) if known.kind == "boolean" else feature_of(text)
    if value is None:
        what = "true or false" if known.kind == "boolean" else f"a number from {-LARGEST:.2g} to {LARGEST:.2g}"
        document.refuse(f"the attribute {known.name!r} is {short(text)}, and must be {what}.", entry.line)
    return value
