"""A graph as visibility, and rules of your own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from foveate.attention.check import described, refusal
from foveate.attention.position import Positions
from foveate.attention.visibility.rule import EdgeList, Visibility

PRINTED = 64
"""Edges up to which a graph prints as the code that makes it."""


@dataclass(frozen=True, eq=False)
class Edges(Visibility):
    """Query i sees key j where there is an edge j → i, numbered as the caller gave them."""

    index: Int[Tensor, "2 edges"]
    """Sources (the keys) above targets (the queries)."""
    self_loops: bool
    """Whether every node also sees itself, by edges that stand behind the caller's."""
    by_pair = True

    @property
    def graph(self) -> EdgeList:
        return EdgeList(self.index, self.self_loops)

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads query key"]:
        visible = self._matrix(at)
        return visible | (at.query == at.key) if self.self_loops else visible

    def _matrix(self, at: Positions) -> Bool[Tensor, "#batch #heads query key"]:
        """From a small table that holds just the positions at hand."""
        if not at.query.numel() or not at.key.numel() or not self.index.shape[1]:
            return (at.query == at.key) & False
        first, low = int(at.query.amin()), int(at.key.amin())
        rows, columns = int(at.query.amax()) - first + 1, int(at.key.amax()) - low + 1
        source, target = self.index.to(at.device)
        here = (target >= first) & (target < first + rows) & (source >= low) & (source < low + columns)
        table = torch.zeros(rows, columns, dtype=torch.bool, device=at.device)
        table[target[here] - first, source[here] - low] = True
        return table[at.query - first, at.key - low]

    def _content(self) -> bytes:
        """A digest of the edges, by which graphs are compared and facts about them kept; made again when the tensor has
        been written to.
        """
        version, digest = self.__dict__.get("_digest", (None, b""))
        if version != self.index._version:
            digest = blake2b(self.index.cpu().numpy().tobytes(), digest_size=16).digest()
            object.__setattr__(self, "_digest", (self.index._version, digest))
        return digest

    def __getstate__(self) -> dict[str, Any]:
        """Without the digest: a copy counts its versions anew."""
        return {"index": self.index, "self_loops": self.self_loops}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Edges):
            return NotImplemented
        return self.self_loops == other.self_loops and self._content() == other._content()

    def __hash__(self) -> int:
        return hash((self.self_loops, self._content()))

    def __repr__(self) -> str:
        loops = ", self_loops=True" if self.self_loops else ""
        if self.index.shape[1] <= PRINTED:
            return f"edges({self.index.tolist()}{loops})"
        return f"edges(<{self.index.shape[1]} edges>{loops})"


@dataclass(frozen=True)
class Predicate(Visibility):
    function: Callable[[Positions], Tensor]
    lasting = False  # a function may read anything

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads #query #key"]:
        visible, queries, keys = self.function(at), at.query.shape[2], at.key.shape[-1]
        is_rule = isinstance(visible, Tensor) and visible.dtype == torch.bool and visible.dim() == 4
        if is_rule and visible.shape[2] in (1, queries) and visible.shape[3] in (1, keys):
            return visible
        answer = f"{described(visible)}, {visible.dtype}" if isinstance(visible, Tensor) else described(visible)
        raise ValueError(
            f"{self} was asked about {queries} queries and {keys} keys and answered {answer}. It must "
            "read positions and give a Bool of `batch heads query key`, such as at.key <= at.query, or "
            "tensor[at.query, at.key] for a tensor of `query key`."
        )

    def __repr__(self) -> str:
        return f"predicate({getattr(self.function, '__name__', self.function)})"


def edges(
    index: Int[Tensor, "2 edges"] | Int[Tensor, " edges"] | Sequence[Sequence[int]] | Sequence[int],
    *,
    pointers: Int[Tensor, " nodes_and_one"] | Sequence[int] | None = None,
    self_loops: bool = False,
) -> Visibility:
    """A graph: node i sees node j where there is an edge j → i. `index` holds sources above targets.

    With `pointers`, the graph is in compressed rows: `index` is one list of sources, and those of node i are from
    `pointers[i]` to `pointers[i + 1]`. `self_loops=True` lets every node see itself, too. The rule keeps a copy of the
    edges: a buffer may be filled with the next graph.

    >>> print(edges([[0, 1, 2], [1, 2, 0]]).picture(3, 3))
    . . #
    # . .
    . # .
    >>> edges([2, 0, 1], pointers=[0, 1, 2, 3]) == edges([[2, 0, 1], [0, 1, 2]])
    True
    """
    sources = _numbered("index", index)
    if pointers is not None:
        ends = _numbered("pointers", pointers).flatten()
        counts = ends.diff()
        whole = sources.dim() == 1 and ends.numel() > 0 and int(ends[-1]) == len(sources)
        if not whole or int(ends[0]) or int(counts.clamp(max=0).sum()):
            raise ValueError(
                f"Pointers are {described(pointers)}, but `index` has shape {tuple(sources.shape)}: "
                "compressed rows need one list of sources and pointers from 0 to its length."
            )
        sources = torch.stack([sources, torch.arange(len(counts), device=sources.device).repeat_interleave(counts)])
    if sources.dim() != 2 or len(sources) != 2:
        raise ValueError(f"`index` has shape {tuple(sources.shape)}, but edges are two rows: sources above targets.")
    with torch.inference_mode(False):  # a tensor that counts how often it is written to
        return Edges(sources.clone(), self_loops)


def _numbered(name: str, numbers: Any) -> Int[Tensor, "*shape"]:
    """Numbers of nodes as a tensor. Raises TypeError for other numbers, ValueError for negative ones."""
    try:
        nodes = torch.as_tensor(numbers)
    except (TypeError, ValueError, RuntimeError):
        raise refusal(name, numbers, "Give two rows of whole numbers, such as [[0, 1], [1, 2]].") from None
    if nodes.numel() and (nodes.is_floating_point() or nodes.is_complex() or nodes.dtype == torch.bool):
        kind = str(nodes.dtype).removeprefix("torch.")
        raise TypeError(
            f"`{name}` holds {kind}, and nodes are numbered with whole numbers. Edges of an adjacency matrix "
            "`target source` are matrix.nonzero().T.flip(0)."
        )
    if nodes.numel() and int(nodes.amin()) < 0:
        raise ValueError(f"`{name}` holds {int(nodes.amin())}: nodes are numbered from 0 on.")
    return nodes.long()


def predicate(function: Callable[[Positions], Tensor]) -> Visibility:
    """A rule of your own: any function from positions to a Bool. It joins the others with `&`, `|` and `~`.

    >>> from foveate.attention import causal
    >>> def even(at):
    ...     return at.key % 2 == 0
    >>> causal() & predicate(even)
    causal() & predicate(even)
    >>> print((causal() & predicate(even)).picture(3, 3))
    # . .
    # . .
    # . #
    """
    if isinstance(function, type | Visibility) or not callable(function):
        raise refusal("function", function, "Give a function of positions, such as lambda at: at.key <= at.query.")
    return Predicate(function)
