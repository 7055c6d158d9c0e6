"""A row: what a model reads of one example, whatever it was made from."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Integer, Shaped


@dataclass(frozen=True, eq=False)
class Row:
    """Ids or vectors, where they stand, and what joins them.

    Places have as many axes as what was read: none given means one, in the order of the row, as words and frames of
    speech stand; patches of a picture have two, row and column; nodes of a graph have an array with no axis at all.

    >>> patches = Row(np.zeros((4, 12), np.float32), places=np.indices((2, 2)).reshape(2, -1).T)
    >>> len(patches), patches.places.tolist()
    (4, [[0, 0], [0, 1], [1, 0], [1, 1]])

    Raises ValueError for places or edges that do not fit the values.
    """

    values: Shaped[np.ndarray, "length *width"]
    """Whole numbers for ids; floats of shape (length, width) for vectors."""
    places: Integer[np.ndarray, "length axes"] | None = None
    edges: Integer[np.ndarray, "2 edges"] | None = None
    """Sources above targets, numbers of values; None where nothing is joined."""

    def __post_init__(self) -> None:
        if self.places is not None and len(self.places) != len(self):
            raise ValueError(f"A row of {len(self)} values has {len(self.places)} places: give one a value.")
        edges = self.edges
        if edges is not None and edges.size and not 0 <= edges.min() <= edges.max() < len(self):
            raise ValueError(f"Edges are two rows of equal length, sources and targets, below {len(self)}.")

    def __len__(self) -> int:
        return len(self.values)

    @staticmethod
    def flat(numbers: Integer[np.ndarray, "_ _"]) -> Integer[np.ndarray, " _"]:
        """Places or edges as the ids that a store and a batch carry them as."""
        return np.ascontiguousarray(numbers).reshape(-1)
