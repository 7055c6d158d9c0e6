"""What every source of tiles answers, in the words of the trace: sites, heads, levels, rows and columns of tiles."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float32, UInt16, UInt32

from foveate.errors import UsageError
from foveate.inspect.lift import lift

Pool = Literal["peak", "mass", "equal"]
Level = int | Literal["word", "sentence"]
Cancelled = Callable[[], bool]
Tile = UInt16[np.ndarray, "256 256"]


class CancelledError(Exception):
    """Nobody waits for the answer any more."""


@dataclass(frozen=True)
class Cell:
    """One pair of a query and a key."""

    weight: float
    rank: int
    """1 + the number of keys that weigh more."""
    count: int
    """The number of keys that the query sees: ranks and lift are among these."""
    lift: float
    """Weight times the number of visible keys: 1 is looking everywhere alike."""
    visible: bool
    score: float | None
    """Score and bias; None where the key is hidden."""


@dataclass(frozen=True, eq=False)
class Statistics:
    """What the rows of one head are like; NaN where a measure has no meaning."""

    rows: dict[str, Float32[np.ndarray, " queries"]]
    received: Float32[np.ndarray, " keys"]
    """The mean weight that each key gets."""

    def means(self) -> dict[str, float]:
        """Over the rows in which a measure has a meaning; 0 where it has none in any."""
        numbers = {name: row[~np.isnan(row)] for name, row in self.rows.items()}
        return {name: float(row.mean(dtype=np.float64)) if len(row) else 0.0 for name, row in numbers.items()}


@runtime_checkable
class TileProvider(Protocol):
    """Any part of any map, at any level, by peak (the largest weight of a block) or by mass (the sum over its keys,
    the mean over its queries: what keeps rows summing to 1). Words and sentences are pooled by mass, or as "equal":
    the mass they would have if every query looked at all the keys it sees alike. Mass over equal is their lift.
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
        """How many keys each query sees."""
        ...


def stop_if(cancelled: Cancelled | None) -> None:
    if cancelled is not None and cancelled():
        raise CancelledError


def require_tile(shape: tuple[int, int], level: int, row: int, column: int, pool: str, size: int = 256) -> None:
    """Raises UsageError for a tile that is not on the map."""
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
