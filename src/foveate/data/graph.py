"""Graphs: nodes with features and labels, edges between them, and which nodes are for training."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from foveate.data.sparse_row import SparseRows, unchanging, whole_numbers

SPLITS = ("train", "valid", "test")
"""The names of the groups that nodes are divided into."""
UNLABELLED = -1
"""The number in place of the label of a node without one."""
LARGEST = float(np.finfo(np.float32).max)
"""The largest feature."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Graph:
    """Nodes with features, and edges between them.

    Node i sees node j where there is an edge j → i. Edges of an undirected graph stand here once, with the smaller
    number first, and are looked along both ways. Edges are sorted by source and then by target. Features and edges are
    read-only copies: `dataclasses.replace` makes another graph.

    >>> graph = Graph(features=np.eye(4, dtype=np.float32), edges=np.array([[2, 1], [1, 0]]))
    >>> graph.edges.tolist(), graph.isolated.tolist()
    ([[0, 1], [1, 2]], [3])
    >>> graph.messages().tolist()
    [[1, 0, 2, 1], [0, 1, 1, 2]]

    Raises ValueError for an edge to a node that is not there, an edge that stands twice, edges, labels and splits that
    are not whole numbers, and for numbers, labels or splits that do not fit the nodes.
    """

    features: np.ndarray | SparseRows
    """A row of numbers for each node."""
    edges: np.ndarray
    """Sources above targets: two rows of whole numbers."""
    directed: bool = False
    edge_features: np.ndarray | None = None
    """A row of numbers for each edge."""
    names: tuple[str, ...] = ()
    """The names of the nodes; empty: their numbers."""
    feature_names: tuple[str, ...] = ()
    """The names of the columns, or the words that are counted; empty: columns without names."""
    labels: np.ndarray | None = None
    """The number of each node's class, or −1 for a node without a label."""
    classes: tuple[str, ...] = ()
    splits: Mapping[str, np.ndarray] = field(default_factory=dict)
    """The nodes for training, for validation and for the test: "train", "valid" and "test"."""

    def __post_init__(self) -> None:
        if not isinstance(self.features, SparseRows):
            object.__setattr__(self, "features", unchanging(np.ascontiguousarray(self.features, dtype=np.float32)))
            _require_rows("Features", "node", self.features)
            _require_finite("features", "node", self.features)
        self._sort_edges()
        if self.names and len(self.names) != len(self):
            raise ValueError(f"There are {len(self)} nodes but {len(self.names)} names. Give each node one.")
        if self.feature_names and len(self.feature_names) != self.width:
            raise ValueError(f"There are {self.width} features but names of {len(self.feature_names)}.")
        self._require_labels()
        splits = {name: whole_numbers(f"Nodes of the split {name!r}", nodes) for name, nodes in self.splits.items()}
        object.__setattr__(self, "splits", splits)
        for name, nodes in splits.items():
            self._require_split(name, nodes)

    def __len__(self) -> int:
        """The number of nodes."""
        return len(self.features)

    def __repr__(self) -> str:
        kind = "directed" if self.directed else "undirected"
        parts = [f"{len(self)} nodes", f"{self.edges.shape[1]} {kind} edges", f"{self.width} features"]
        parts += [f"{len(self.classes)} classes"] if self.classes else []
        parts += [f"{len(nodes)} {name}" for name, nodes in self.splits.items()]
        return f"<Graph: {', '.join(parts)}>"

    @property
    def width(self) -> int:
        """The number of features of a node."""
        return int(self.features.shape[1])

    @property
    def edge_width(self) -> int:
        """The number of features of an edge; 0 without features."""
        return 0 if self.edge_features is None else int(self.edge_features.shape[1])

    @property
    def isolated(self) -> Int[np.ndarray, " isolated"]:
        """Nodes without an edge to another node."""
        linked = self.edges[:, self.edges[0] != self.edges[1]]
        return np.setdiff1d(np.arange(len(self)), linked)

    def name(self, node: int) -> str:
        return self.names[node] if self.names else str(node)

    def messages(self) -> Int[np.ndarray, "2 messages"]:
        """Pairs of a source and a target, as attention takes them: both directions of an undirected edge, sorted by
        target and then by source.
        """
        return self.edges_both_ways()[0]

    def edges_both_ways(self) -> tuple[Int[np.ndarray, "2 messages"], Int[np.ndarray, " messages"]]:
        """`messages`, and the number of the edge that each stands for."""
        number = np.arange(self.edges.shape[1])
        pairs = self.edges
        if not self.directed:
            turned = self.edges[0] != self.edges[1]
            pairs = np.concatenate([pairs, pairs[::-1, turned]], axis=1)
            number = np.concatenate([number, number[turned]])
        order = np.lexsort((pairs[0], pairs[1]))
        return pairs[:, order], number[order]

    def normalised(self) -> "Graph":
        """The same graph with features that sum to 1 in each node, as papers on citations prepare words."""
        if isinstance(self.features, SparseRows):
            return replace(self, features=self.features.normalised())
        totals = self.features.sum(1, keepdims=True)
        return replace(self, features=self.features / np.where(totals == 0, 1, totals))

    def permuted(self, order: Int[np.ndarray, " nodes"]) -> "Graph":
        """The same graph with its nodes in another order: node i is the former node `order[i]`."""
        place = np.empty(len(self), np.int64)
        place[order] = np.arange(len(self))
        features = self.features.taken(order) if isinstance(self.features, SparseRows) else self.features[order]
        return replace(
            self,
            features=features,
            edges=place[self.edges],
            names=tuple(self.names[node] for node in order) if self.names else (),
            labels=None if self.labels is None else self.labels[order],
            splits={name: np.sort(place[nodes]) for name, nodes in self.splits.items()},
        )

    def divided(self, *, per_class: int = 20, valid: int = 500, test: int = 1000, seed: int = 0) -> "Graph":
        """The same graph with other splits, which are drawn from a seed: so many nodes of each class for training, and
        so many of the other labelled nodes for validation and for the test (Yang et al. 2016; Shchur et al. 2018).

        Raises ValueError where there are not as many labelled nodes.
        """
        if self.labels is None:
            raise ValueError("Nodes cannot be drawn by class without labels. Give the graph labels.")
        generator = np.random.default_rng(seed)
        order = generator.permutation(len(self))
        of_class = [order[self.labels[order] == number] for number in range(len(self.classes))]
        for name, nodes in zip(self.classes, of_class, strict=True):
            if len(nodes) < per_class:
                raise ValueError(f"The class {name!r} has {len(nodes)} nodes, and {per_class} are to be drawn.")
        train = np.concatenate([nodes[:per_class] for nodes in of_class])
        # In another order: the beginning of the first one has lost its nodes of rare classes to training.
        rest = generator.permutation(np.setdiff1d(np.flatnonzero(self.labels != UNLABELLED), train))
        if len(rest) < valid + test:
            raise ValueError(
                f"{len(rest)} labelled nodes are left for validation and test, and {valid} + {test} are to be drawn. "
                "Draw fewer."
            )
        drawn = {"train": train, "valid": rest[:valid], "test": rest[valid : valid + test]}
        return replace(self, splits={name: np.sort(nodes) for name, nodes in drawn.items()})

    def shared(self, *, valid: float, test: float, seed: int = 0) -> "Graph":
        """The same graph with its labelled nodes divided at random, by a seed: of each class these shares are for
        validation and for the test, and at least one node is for training.

        Raises ValueError for a graph without labels.
        """
        if self.labels is None or not (self.labels != UNLABELLED).any():
            raise ValueError("The nodes have no labels, so there is nothing to learn. Give some of them labels.")
        order = np.random.default_rng(seed).permutation(len(self))
        parts: dict[str, list[np.ndarray]] = {name: [] for name in SPLITS}
        for number in range(len(self.classes)):
            nodes = order[self.labels[order] == number]
            first = min(round(valid * len(nodes)), max(len(nodes) - 1, 0))
            second = min(round(test * len(nodes)), max(len(nodes) - first - 1, 0))
            for name, part in zip(("valid", "test", "train"), np.split(nodes, [first, first + second]), strict=True):
                parts[name].append(part)
        return replace(self, splits={name: np.sort(np.concatenate(part)) for name, part in parts.items()})

    @classmethod
    def of_networkx(
        cls, graph: Any, *, features: str | Sequence[str], label: str | None = None, edge_features: Sequence[str] = ()
    ) -> "Graph":
        """A NetworkX graph, directed or not. `features` names an attribute with a list of numbers, or several with a
        number each; `label` and `edge_features` name attributes, too.

        >>> import networkx
        >>> path = networkx.path_graph(["a", "b", "c"])
        >>> networkx.set_node_attributes(path, {"a": 1.0, "b": 2.0, "c": 3.0}, "age")
        >>> Graph.of_networkx(path, features=["age"])
        <Graph: 3 nodes, 2 undirected edges, 1 features>

        Raises ValueError for a multigraph, and for a node or an edge without an attribute.
        """
        if graph.is_multigraph():
            raise ValueError(
                "A multigraph has several edges between two nodes. Join them first: networkx.Graph(graph)."
            )
        number = {node: place for place, node in enumerate(graph.nodes)}
        names = (features,) if isinstance(features, str) else tuple(features)
        rows = [_numbers(f"Node {node!r}", known, names) for node, known in graph.nodes(data=True)]
        pairs = [(number[one], number[other]) for one, other in graph.edges]
        between = [
            _numbers(f"Edge {one!r} → {other!r}", known, edge_features) for one, other, known in graph.edges.data()
        ]
        teams = [] if label is None else [known.get(label) for _, known in graph.nodes(data=True)]
        labels, classes = numbered(None if team is None else str(team) for team in teams)
        return cls(
            features=_stacked(rows, "nodes"),
            edges=np.array(pairs, np.int64).reshape(-1, 2).T,
            directed=graph.is_directed(),
            edge_features=_stacked(between, "edges") if edge_features else None,
            names=tuple(map(str, number)),
            labels=None if label is None else labels,
            classes=classes,
        )

    def _sort_edges(self) -> None:
        edges = whole_numbers("Edges", self.edges)
        edges = edges if edges.size else edges.reshape(2, 0)
        if edges.ndim != 2 or len(edges) != 2:
            remedy = (
                "Transpose them: edges.T." if edges.ndim == 2 and edges.shape[1] == 2 else "Give sources and targets."
            )
            raise ValueError(
                f"Edges stand in two rows, sources above targets, but have the shape {edges.shape}. {remedy}"
            )
        if edges.size and not 0 <= edges.min() <= edges.max() < len(self):
            wrong = edges[(edges < 0) | (edges >= len(self))][0]
            raise ValueError(f"An edge has the end {wrong}, but nodes are numbered from 0 to {len(self) - 1}.")
        edges = edges if self.directed else np.sort(edges, axis=0)
        order = np.lexsort((edges[1], edges[0]))
        edges = edges[:, order]
        twice = np.flatnonzero((edges[:, 1:] == edges[:, :-1]).all(0))
        if len(twice):
            one, other = edges[:, twice[0]].tolist()
            both = "" if self.directed else ", perhaps once in each direction: an undirected edge is given once"
            raise ValueError(f"The edge between nodes {one} and {other} stands twice{both}. Remove one.")
        object.__setattr__(self, "edges", unchanging(edges))
        if self.edge_features is None:
            return
        features = np.asarray(self.edge_features, dtype=np.float32)
        _require_rows("Edge features", "edge", features)
        if len(features) != edges.shape[1]:
            raise ValueError(f"There are {edges.shape[1]} edges, but features of {len(features)}.")
        _require_finite("edge features", "edge", features)
        object.__setattr__(self, "edge_features", unchanging(np.ascontiguousarray(features[order])))

    def _require_labels(self) -> None:
        if self.labels is None:
            return
        object.__setattr__(self, "labels", whole_numbers("Labels", self.labels))
        if len(self.labels) != len(self):
            raise ValueError(
                f"There are {len(self)} nodes but {len(self.labels)} labels. Use −1 for those without one."
            )
        if len(self) and not UNLABELLED <= self.labels.min() <= self.labels.max() < len(self.classes):
            raise ValueError(
                f"Labels go from {self.labels.min()} to {self.labels.max()}, but there are {len(self.classes)} "
                "classes, numbered from 0; −1 stands for no label."
            )

    def _require_split(self, name: str, nodes: Int[np.ndarray, " _"]) -> None:
        if name not in SPLITS:
            raise ValueError(f"{name!r} is not a split. Splits are {', '.join(SPLITS)}.")
        if len(nodes) and not 0 <= nodes.min() <= nodes.max() < len(self):
            raise ValueError(f"The split {name!r} has nodes from {nodes.min()} to {nodes.max()}, of {len(self)} nodes.")
        if len(np.unique(nodes)) < len(nodes):
            raise ValueError(f"The split {name!r} has a node twice.")
        for other, others in self.splits.items():
            if other != name and len(shared := np.intersect1d(nodes, others)):
                raise ValueError(f"Node {self.name(int(shared[0]))} is in the splits {name!r} and {other!r}.")
        if self.labels is not None and (self.labels[nodes] == UNLABELLED).any():
            node = int(nodes[self.labels[nodes] == UNLABELLED][0])
            raise ValueError(f"Node {self.name(node)} is in the split {name!r}, but has no label.")


def numbered(labels: Iterable[str | None]) -> tuple[Int[np.ndarray, " nodes"], tuple[str, ...]]:
    """Labels as numbers of classes in alphabetical order, and the classes.

    >>> numbered(["sea", None, "land"])
    (array([ 1, -1,  0]), ('land', 'sea'))
    """
    listed = list(labels)
    classes = tuple(sorted({label for label in listed if label is not None}))
    number = {name: place for place, name in enumerate(classes)}
    return np.array([UNLABELLED if label is None else number[label] for label in listed], np.int64), classes


def _numbers(where: str, known: Mapping[str, Any], names: Sequence[str]) -> Float[np.ndarray, " width"]:
    """The numbers of some attributes, one after the other."""
    missing = [name for name in names if name not in known]
    if missing:
        raise ValueError(f"{where} has no {missing[0]!r}. It has: {', '.join(map(repr, known)) or 'nothing'}.")
    try:
        parts = [np.atleast_1d(np.asarray(known[name], np.float32)) for name in names]
        return np.concatenate([np.zeros(0, np.float32), *parts])
    except (TypeError, ValueError):
        raise ValueError(f"{where}: {', '.join(map(repr, names))} must be numbers or lists of numbers.") from None


def _stacked(rows: Sequence[np.ndarray], what: str) -> Float[np.ndarray, "rows width"]:
    widths = sorted({len(row) for row in rows})
    if len(widths) > 1:
        raise ValueError(f"All {what} need as many features, but some have {widths[0]} and others {widths[-1]}.")
    return np.array(rows, np.float32).reshape(len(rows), widths[0] if widths else 0)


def feature_of(text: str) -> float | None:
    """The number in a file; None for a text without one, and for a number that is too large for float32.

    >>> feature_of("-2.5e1"), feature_of("tall"), feature_of("nan"), feature_of("1e39")
    (-25.0, None, None, None)
    """
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) <= LARGEST else None


def _require_rows(what: str, thing: str, numbers: np.ndarray) -> None:
    if numbers.ndim != 2:
        raise ValueError(
            f"{what} have a row for each {thing}, but have the shape {numbers.shape}. Give one number as a row of one: "
            "numbers[:, None]."
        )


def _require_finite(what: str, thing: str, numbers: Float[np.ndarray, "rows width"]) -> None:
    odd = np.argwhere(~np.isfinite(numbers))
    if len(odd):
        row, column = odd[0].tolist()
        raise ValueError(
            f"The {what} of {thing} {row} hold {numbers[row, column]} in column {column}. Replace it by a number."
        )
