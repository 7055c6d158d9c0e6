"""Compares two maps: two heads, two models, or one model before and after training."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float32

from foveate.errors import UsageError
from foveate.inspect.trace.site import Site
from foveate.inspect.trace.trace import Trace

ROWS = 256


@dataclass(frozen=True, eq=False)
class Comparison:
    """The differences between two maps of the same size."""

    rows: Float32[np.ndarray, " queries"]
    """½ Σ_j |α_ij − β_ij|: 0 for equal rows, 1 for rows without common keys, NaN for rows with NaN."""
    largest: float
    at: tuple[int, int]
    """The query and the key of the largest difference."""

    @property
    def mean(self) -> float:
        return float(self.rows.mean(dtype=np.float64)) if len(self.rows) else 0.0


def compare(
    one: Trace,
    other: Trace | None = None,
    *,
    site: int | str = 0,
    head: int = 0,
    other_site: int | str | None = None,
    other_head: int | None = None,
) -> Comparison:
    """Compare a head of one trace with a head of the same or another trace. Omitted arguments have the same value.

    >>> from foveate.inspect.trace import Track, given
    >>> maps = torch.tensor([[[1.0, 0.0], [0.5, 0.5]], [[1.0, 0.0], [0.0, 1.0]]])
    >>> trace = Trace(tracks={"source": Track.numbered(2)}, sites=(given(maps),))
    >>> compare(trace, head=0, other_head=1).rows
    array([0. , 0.5], dtype=float32)

    Raises UsageError if the maps differ in size: merge both to words first.
    """
    beside = one if other is None else other
    a = one.sites[one.index(site)]
    b = beside.sites[beside.index(site if other_site is None else other_site)]
    heads = (head, head if other_head is None else other_head)
    for each, number in zip((a, b), heads, strict=True):
        if not 0 <= number < each.heads:
            raise UsageError(f"{each.title} has no head {number}: it has {each.heads}, counted from 0.")
    if (a.queries, a.keys) != (b.queries, b.keys):
        raise UsageError(
            f"One map has {a.queries} × {a.keys} cells, the other {b.queries} × {b.keys}. Compare texts with the "
            "same pieces; for different tokenisers, compare `alignment(…).words()`."
        )
    return _compared(a, b, heads)


def _compared(a: Site, b: Site, heads: tuple[int, int]) -> Comparison:
    rows, largest, at = [], 0.0, (0, 0)
    for start in range(0, a.queries, ROWS):
        here = slice(start, min(start + ROWS, a.queries))
        away = (a.weights(heads[0], here)[0] - b.weights(heads[1], here)[0]).abs()
        rows.append(away.sum(1) / 2)
        known = away.nan_to_num(nan=0.0)  # NaN makes its row NaN
        top = float(known.max()) if known.numel() else 0.0
        if top > largest:
            place = divmod(int(known.argmax()), a.keys)
            largest, at = top, (start + place[0], place[1])
    return Comparison(torch.cat(rows).numpy() if rows else np.zeros(0, np.float32), largest, at)
