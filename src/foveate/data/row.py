"""A row is the input of a model for one example."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Integer, Shaped


@dataclass(frozen=True, eq=False)
class Row:
    """Ids or vectors, with their places and edges.

    Words and frames of speech have the order of the row as their places, which are None. Patches of a picture have two
    axes, row and column. Nodes of a graph have an array without axes, and edges.

    >>> patches = Row(np.zeros((4, 12), np.float32), places=np.indices((2, 2)).reshape(2, -1).T)
    >>> len(patches), patches.places.tolist()
    (4, [[0, 0], [0, 1], [1, 0], [1, 1]])

    Raises ValueError for places or edges that do not fit the values.
    """

    values: Shaped[np.ndarray, "length *width"]
    """Whole numbers for ids; floats of shape (length, width) for vectors."""
    places: Integer[np.ndarray, "length axes"] | None = None
    edges: Integer[np.ndarray, "2 edges"] | None = None
    """A row of sources above a row of targets, as indices of values; None for rows without edges."""
    remarks: tuple[str, ...] = ()
    """Notes for the user about the example, such as clipping of a recording; reports count equal remarks."""

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
        """Places or edges as one list of whole numbers, for a store or a batch."""
        return np.ascontiguousarray(numbers).reshape(-1)
