"""The interface of tile providers, by sites and heads of a trace, and levels, rows and columns of tiles."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float32, UInt16, UInt32

from foveate.errors import UsageError
from foveate.inspect.lift import lift
from foveate.inspect.tile.head_measure import Behaviour, behaviour

Pool = Literal["peak", "mass", "equal"]
Level = int | Literal["word", "sentence"]
Cancelled = Callable[[], bool]
Tile = UInt16[np.ndarray, "256 256"]


class CancelledError(Exception):
    """The request was cancelled."""


@dataclass(frozen=True)
class Cell:
    """The numbers of one pair of a query and a key."""

    weight: float
    rank: int
    """1 + the number of keys with a larger weight."""
    count: int
    """The number of keys that the query sees, to which rank and lift refer."""
    lift: float
    """Weight times the number of visible keys: 1 for equal weights."""
    visible: bool
    score: float | None
    """The score with its bias; None for a hidden key."""


@dataclass(frozen=True, eq=False)
class Statistics:
    """The measures of the rows of one head; NaN where a measure is undefined."""

    rows: dict[str, Float32[np.ndarray, " queries"]]
    received: Float32[np.ndarray, " keys"]
    """The mean weight of each key."""
    position: float = math.nan
    """The share of the variance of the weights that the offset alone explains: R²; NaN if it is undefined."""

    @property
    def behaviour(self) -> Behaviour:
        """The name of what the head does."""
        return behaviour(self.rows, self.position)

    def means(self) -> dict[str, float]:
        """The means over the rows in which a measure is defined; 0 if it is undefined in all."""
        numbers = {name: row[~np.isnan(row)] for name, row in self.rows.items()}
        means = {name: float(row.mean(dtype=np.float64)) if len(row) else 0.0 for name, row in numbers.items()}
        return {**means, "position": 0.0 if math.isnan(self.position) else self.position}


@runtime_checkable
class TileProvider(Protocol):
    """Any part of any map, at any level, by peak (the largest weight of a block) or by mass (the sum over its keys and
    mean over its queries, so that rows still sum to 1). Words and sentences are pooled by mass, or as "equal": their
    mass if every query had equal weights for all visible keys. Mass divided by equal is their lift.
    """

    def meta(self) -> dict[str, Any]:
        """The header of the trace."""
        ...

    def tile(
        self,
        site: int,
        head: int,
        level: Level,
        row: int,
        column: int,
        pool: Pool = "peak",
        *,
        cancelled: Cancelled | None = None,
    ) -> Tile: ...

    def row(self, site: int, head: int, query: int) -> Float32[np.ndarray, " keys"]: ...

    def value(self, site: int, head: int, query: int, key: int) -> Cell: ...

    def statistics(self, site: int, *, cancelled: Cancelled | None = None) -> list[Statistics]: ...

    def overview(self, site: int, head: int) -> UInt16[np.ndarray, "64 64"]: ...

    def counts(self, site: int, head: int) -> UInt32[np.ndarray, " queries"]:
        """The number of keys that each query sees."""
        ...


def stop_if(cancelled: Cancelled | None) -> None:
    if cancelled is not None and cancelled():
        raise CancelledError


def require_tile(shape: tuple[int, int], level: int, row: int, column: int, pool: str, size: int = 256) -> None:
    """Raise UsageError for a tile outside the map."""
    if pool not in ("peak", "mass"):
        which = "equal is for words and sentences. Choose" if pool == "equal" else "choose"
        raise UsageError(f"There is no pooling {pool!r} here: {which} peak or mass.")
    if not 0 <= level <= 24:
        raise UsageError(f"There is no level {level}: 0 shows every weight, each further one a quarter as many cells.")
    for name, index, length in (("row", row, shape[0]), ("column", column, shape[1])):
        tiles = max(1, -(-length // (size << level)))
        if not 0 <= index < tiles:
            raise UsageError(f"There is no {name} {index} of tiles at level {level}: there are {tiles}, from 0.")


def overview_level(queries: int, keys: int, side: int = 64) -> int:
    """The smallest level whose map fits a thumbnail.

    >>> overview_level(64, 30), overview_level(65, 65), overview_level(65536, 3)
    (0, 1, 10)
    """
    return max(0, (max(queries, keys, 1) - 1).bit_length() - side.bit_length() + 1)


def cell_of(
    row: Float32[np.ndarray, " keys"],
    visible: Bool[np.ndarray, " keys"] | None,
    score: float,
    key: int,
) -> Cell:
    sees = True if visible is None else bool(visible[key])
    count = len(row) if visible is None else int(visible.sum())
    weight = float(row[key])
    return Cell(
        weight, 1 + int((row > row[key]).sum()), count, float(lift(weight, count)), sees, score if sees else None
    )
