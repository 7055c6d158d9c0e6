"""The input of models: rows of ids or of vectors, right-padded, with their true lengths."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from foveate.data.row import Row
from foveate.nn.packing import Packing


@dataclass(frozen=True, eq=False)
class Batch:
    """One side of a batch of rows, right-padded with 0.

    >>> batch = Batch.of([[5, 6, 7], [8]])
    >>> batch.ids.tolist(), batch.num_tokens
    ([[5, 6, 7], [8, 0, 0]], 4)
    >>> Batch.of([np.ones((3, 2), np.float32), np.ones((1, 2), np.float32)]).features.shape
    torch.Size([2, 3, 2])
    """

    values: Int[Tensor, "batch length"] | Float[Tensor, "batch length width"]
    lengths: Int[Tensor, " batch"]
    num_tokens: int = field(default=-1)
    """The sum of the lengths, computed once, because reading it from a device later would wait for the device."""
    places: Int[Tensor, "batch length axes"] | None = None
    """The place of each vector, as in `Row`; None if the order of the row is the place."""
    edges: Int[Tensor, "edges 3"] | None = None
    """For each edge, the number of its row, its source and its target; None for rows without edges."""

    def __post_init__(self) -> None:
        if self.num_tokens < 0:
            object.__setattr__(self, "num_tokens", int(self.lengths.sum()))

    @classmethod
    def of(cls, rows: Sequence[Sequence[int] | np.ndarray | Row]) -> "Batch":
        """Pad rows: lists of ids, arrays of a store (copied without a loop over tokens), or rows with places and edges.

        Raises ValueError for rows of different kinds, because a model reads one kind.
        """
        types = set(map(type, rows))
        if Row in types:
            return _placed([row if isinstance(row, Row) else Row(np.asarray(row)) for row in rows])
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        if types != {np.ndarray}:
            rows = [row if isinstance(row, np.ndarray) else np.array(row, np.int64) for row in rows]
        padded, num_tokens = _padded(rows, lengths)
        return cls(torch.from_numpy(padded), torch.from_numpy(lengths), num_tokens)

    @property
    def ids(self) -> Int[Tensor, "batch length"]:
        """The values of rows of ids. Raises TypeError for rows of vectors."""
        if self.values.dim() != 2:
            raise TypeError(
                f"These rows are vectors of {self.values.shape[-1]} numbers, but this model needs ids. Build the "
                "model for Vectors instead of Tokens."
            )
        return self.values

    @property
    def features(self) -> Float[Tensor, "batch length width"]:
        """The values of rows of vectors. Raises TypeError for rows of ids."""
        if self.values.dim() != 3:
            raise TypeError("These rows are ids, but this model needs vectors. Build the model for Tokens.")
        return self.values

    @property
    def size(self) -> int:
        return self.values.shape[0]

    @property
    def length(self) -> int:
        return self.values.shape[1]

    def packed(
        self, packing: Packing
    ) -> tuple[Int[Tensor, " tokens"] | Float[Tensor, "tokens width"], Int[Tensor, "tokens axes"] | None]:
        """Values and places without padding, as the input of embeddings."""
        return packing.pack(self.values), None if self.places is None else packing.pack(self.places)

    def widened(self, multiple: int) -> "Batch":
        """The same rows, padded up to a multiple of `multiple`."""
        missing = -self.length % multiple
        vectors = (0, 0) * (self.values.dim() - 2)
        places = None if self.places is None else pad(self.places, (0, 0, 0, missing))
        return replace(self, values=pad(self.values, (*vectors, 0, missing)), places=places)

    def to(self, device: torch.device | str) -> "Batch":
        places, edges = (None if part is None else part.to(device) for part in (self.places, self.edges))
        return Batch(self.values.to(device), self.lengths.to(device), self.num_tokens, places, edges)


def _padded(rows: Sequence[Any], lengths: np.ndarray) -> tuple[np.ndarray, int]:
    """The rows as int64 or float32 with zeros as padding, and the number of values without padding."""
    if not len(rows):
        return np.zeros((0, 0), dtype=np.int64), 0
    try:
        flat = np.concatenate(rows)
    except ValueError:
        kinds = " and ".join(sorted({_kind(row) for row in rows}))
        raise ValueError(
            f"The rows of a batch are all ids or all vectors of one width, but these are {kinds}. Make a batch of each."
        ) from None
    vectors = flat.dtype.kind == "f"
    if flat.ndim != 1 + vectors:
        raise ValueError(
            f"A row is a list of ids, or an array of floats of shape (length, width), and these are {_kind(flat)}."
        )
    length = int(lengths.max())
    padded = np.zeros((len(rows), length, *flat.shape[1:]), dtype=np.float32 if vectors else np.int64)
    if padded.size:
        padded[np.arange(length) < lengths[:, None]] = flat
    return padded, len(flat)


def _kind(row: np.ndarray) -> str:
    name = "floats" if row.dtype.kind == "f" else "ids"
    return name if row.ndim == 1 else f"{name} of shape {tuple(row.shape)}"


def _placed(rows: Sequence[Row]) -> Batch:
    """A batch of rows that may have places and edges."""
    batch = Batch.of([row.values for row in rows])
    places = [row.places for row in rows if row.places is not None]
    if places and len(places) < len(rows):
        raise ValueError("Either all rows of a batch have places or none.")
    standing = Batch.of([Row.flat(place) for place in places]) if places else None
    edges = [
        np.column_stack([np.full(row.edges.shape[1], number), row.edges.T])
        for number, row in enumerate(rows)
        if row.edges is not None
    ]
    return replace(
        batch,
        places=None if standing is None else standing.ids.unflatten(1, (batch.length, places[0].shape[1])),
        edges=torch.from_numpy(np.concatenate(edges).astype(np.int64)) if edges else None,
    )


@dataclass(frozen=True, eq=False)
class Rejection:
    """The pairs of a batch, and after them each pair with a rejected target once more, with that one as its target."""

    source: Batch
    target: Batch
    rows: Int[Tensor, " rejected"]
    """The rows of these pairs in the batch, in the order of the rejected targets."""

    def to(self, device: torch.device | str) -> "Rejection":
        return Rejection(self.source.to(device), self.target.to(device), self.rows.to(device))


@dataclass(frozen=True, eq=False)
class PairBatch:
    """Sources with their targets, row by row, and the numbers of their examples.

    `source.ids` are tokens + end; `target.ids` are begin + tokens + end, which the model shifts itself.
    """

    source: Batch
    target: Batch
    examples: tuple[int, ...]
    links: Int[Tensor, "links 3"] | None = None
    """Row, source token and target token of every known link, without the begin token; None without links."""
    rejection: Rejection | None = None
    """The batch with its rejected targets; None without them."""

    def to(self, device: torch.device | str) -> "PairBatch":
        links = None if self.links is None else self.links.to(device)
        rejection = None if self.rejection is None else self.rejection.to(device)
        return PairBatch(self.source.to(device), self.target.to(device), self.examples, links, rejection)
