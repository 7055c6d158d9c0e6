"""Rows of numbers that are mostly zeros, such as the words of a document."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int


def whole_numbers(what: str, numbers: Any) -> Int[np.ndarray, "..."]:
    """Numbers of nodes, classes or columns as int64.

    Raises ValueError for another type of numbers, whose fractions would be lost; without numbers any type will do.
    """
    array = np.asarray(numbers)
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(
            f"{what} must be whole numbers, but their type is {array.dtype}. Convert them with astype(int), or a mask "
            "with numpy.flatnonzero."
        )
    if array.size and array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{what} go to {array.max()}, which is more than there can be. Check how they were written.")
    return np.asarray(array, dtype=np.int64, order="C")


def unchanging(array: np.ndarray) -> np.ndarray:
    """The array where nothing can write to it, otherwise a read-only copy, so that what is kept of it stays true."""
    whole: Any = array
    while isinstance(whole, np.ndarray) and not whole.flags.writeable:
        whole = whole.base  # a read-only view of another array changes with it
    if isinstance(whole, np.ndarray):
        array = array.copy()
        array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False, kw_only=True)
class SparseRows:
    """The numbers of row i are `values[pointers[i]:pointers[i + 1]]`, in the columns at the same places.

    >>> rows = SparseRows.of([{0: 1.0, 3: 2.0}, {}, {1: 5.0}], width=4)
    >>> rows.dense().tolist()
    [[1.0, 0.0, 0.0, 2.0], [0.0, 0.0, 0.0, 0.0], [0.0, 5.0, 0.0, 0.0]]

    Raises ValueError for pointers, columns and values that do not fit, and for numbers that are not finite.
    """

    pointers: np.ndarray
    columns: np.ndarray
    values: Float[np.ndarray, " _"]
    width: int

    def __post_init__(self) -> None:
        for name in ("pointers", "columns"):
            object.__setattr__(self, name, whole_numbers(name.capitalize(), getattr(self, name)))
            if getattr(self, name).ndim != 1:
                raise ValueError(
                    f"{name.capitalize()} stand in one row, but have the shape {getattr(self, name).shape}."
                )
        object.__setattr__(self, "values", np.ascontiguousarray(self.values, dtype=np.float32))
        ends, count = self.pointers, len(self.columns)
        rising = len(ends) > 0 and ends[0] == 0 and ends[-1] == count and bool((np.diff(ends) >= 0).all())
        if not rising or len(self.values) != count:
            raise ValueError(
                f"Pointers must rise from 0 to the number of entries, but there are {len(ends)} pointers, {count} "
                f"columns and {len(self.values)} values. Check how the rows were written."
            )
        if count and not 0 <= self.columns.min() <= self.columns.max() < self.width:
            raise ValueError(f"Columns are numbered from 0 to {self.width - 1}, but one is {self.columns.max()}.")
        odd = np.flatnonzero(~np.isfinite(self.values))
        if len(odd):
            row = int(np.searchsorted(ends, odd[0], side="right")) - 1
            raise ValueError(f"Row {row} has the value {self.values[odd[0]]}. Replace it by a number.")
        for name in ("pointers", "columns", "values"):
            object.__setattr__(self, name, unchanging(getattr(self, name)))

    @classmethod
    def of(cls, rows: Sequence[dict[int, float]], *, width: int) -> "SparseRows":
        """Rows from the number in each column that is not 0."""
        pointers = np.cumsum([0, *map(len, rows)])
        columns = np.array([column for row in rows for column in row], dtype=np.int64)
        values = np.array([value for row in rows for value in row.values()], dtype=np.float32)
        return cls(pointers=pointers, columns=columns, values=values, width=width)

    @classmethod
    def join(cls, parts: Sequence["SparseRows"]) -> "SparseRows":
        """The rows of several, one after the other."""
        counts = np.concatenate([[0], *(np.diff(part.pointers) for part in parts)])
        columns, values = ([getattr(part, name) for part in parts] for name in ("columns", "values"))
        return cls(
            pointers=np.cumsum(counts),
            columns=np.concatenate(columns),
            values=np.concatenate(values),
            width=parts[0].width,
        )

    def __len__(self) -> int:
        return len(self.pointers) - 1

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.width

    @property
    def row_numbers(self) -> Int[np.ndarray, " entries"]:
        """The row of each entry."""
        return np.repeat(np.arange(len(self)), np.diff(self.pointers))

    def dense(self) -> Float[np.ndarray, "rows width"]:
        """All numbers, zeros included."""
        numbers = np.zeros(self.shape, np.float32)
        np.add.at(numbers, (self.row_numbers, self.columns), self.values)
        return numbers

    def taken(self, rows: Int[np.ndarray, " chosen"]) -> "SparseRows":
        """Some of the rows, in this order."""
        counts = np.diff(self.pointers)[rows]
        pointers = np.concatenate([[0], np.cumsum(counts)])
        place = np.arange(pointers[-1]) + np.repeat(self.pointers[rows] - pointers[:-1], counts)
        return replace(self, pointers=pointers, columns=self.columns[place], values=self.values[place])

    def renumbered(self, places: Int[np.ndarray, " width"], width: int) -> "SparseRows":
        """Rows with the column j at `places[j]` of so many; entries of a column at −1 are left out."""
        columns = places[self.columns]
        there = columns >= 0
        pointers = np.concatenate([[0], np.cumsum(there)])[self.pointers]
        return SparseRows(pointers=pointers, columns=columns[there], values=self.values[there], width=width)

    def normalised(self) -> "SparseRows":
        """Rows whose values sum to 1; a row whose values sum to 0 stays as it is."""
        totals = np.zeros(len(self), np.float64)
        np.add.at(totals, self.row_numbers, self.values)
        return replace(self, values=self.values / np.where(totals == 0, 1, totals)[self.row_numbers])
