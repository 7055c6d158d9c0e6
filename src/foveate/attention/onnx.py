"""Parts write themselves as ONNX operators by a method `onnx`, without importing the package onnx.

Values are names in a graph. The part is handed the graph and returns the name of what it computes; weights become
constants. A part without an `onnx` method, and one whose class no longer computes what the method writes
(`foveate.attention.claim`), is refused in words by whoever exports.

* a score with a form: `onnx(graph, x, side=) -> str`, the features `batch heads length feature` of queries or of keys
  `batch heads length dim`; needed only where the form has features.
* a rule: `onnx(graph, places) -> str`, a Bool that broadcasts to `batch heads query key`. A rule with a `band`, and one
  that `pads`, needs no such method.
* a bias: `onnx(graph, places) -> str`, floats that broadcast to `heads query key`.
* a transform: `onnx(graph, x, places, side=, head_dim=) -> str`, queries or keys `batch heads length head_dim`, which
  stand where the queries of these places do. One that states `tabled = True` looks up `Places.limit` positions.
* a normaliser: `onnx(graph, scores) -> str`, weights from scores in which hidden pairs are far below all others.
"""

from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from torch import Tensor

Side = Literal["query", "key"]


@runtime_checkable
class Graph(Protocol):
    """A graph that is being built: the operators and constants that parts need."""

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """An operator with one output; an empty input is one that is left out."""
        ...

    def ops(self, kind: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """An operator with several outputs."""
        ...

    def weight(self, tensor: Tensor) -> str:
        """A trained tensor as a constant, in float32."""
        ...

    def table(self, tensor: Tensor) -> str:
        """Computed floats as a constant, the same numbers once."""
        ...

    def number(self, value: float) -> str: ...

    def whole(self, *values: int) -> str:
        """A list of whole numbers."""
        ...

    def single(self, value: int) -> str:
        """One whole number, not a list."""
        ...

    def turned(self, value: str, *order: int) -> str:
        """Axes in another order."""
        ...

    def shaped(self, value: str, *sizes: int | str) -> str:
        """Another shape for the same numbers: −1 for what is left, 0 for the same as before, or a computed size."""
        ...

    def rescaled(self, x: str, eps: float) -> str:
        """x / √(mean x² + ε), over the last axis."""
        ...


@dataclass(frozen=True)
class Places:
    """The positions of the queries and the keys of a self-attention, as lists of whole numbers from 0."""

    query: str
    key: str
    limit: int
    """The number of positions in tables."""
    real: str = ""
    """The real keys, [batch, key]; empty where all are."""
    newest: bool = False
    """Whether there is one query, and no key after it."""

    def distance(self, graph: Graph) -> str:
        """j − i for query i and key j: [query, key]."""
        key, query = (
            graph.op("Unsqueeze", places, graph.whole(axis)) for axis, places in ((0, self.key), (1, self.query))
        )
        return graph.op("Sub", key, query)

    def away(self, graph: Graph) -> str:
        """|j − i| in float32."""
        return graph.op("Cast", graph.op("Abs", self.distance(graph)), to=1)


def unit(graph: Graph, x: str, eps: float) -> str:
    """x / ‖x‖, over the last axis."""
    length = graph.op("ReduceL2", x, graph.whole(-1), keepdims=1)
    return graph.op("Div", x, graph.op("Max", length, graph.number(eps)))
