"""Computes tiles of a trace on request, without complete maps.

Levels below 5 are computed from the features. From level 5 on, tiles come from a pyramid of blocks of 32 × 32, which is
built once per head in one pass over all rows, together with the head's statistics.
"""

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, UInt16, UInt32
from torch import Tensor

from foveate.inspect.lift import equal
from foveate.inspect.tile.code import SIZE, encode, framed
from foveate.inspect.tile.pool import Cells, any_visible, blocks, by_spans, coarser, pool, runs
from foveate.inspect.tile.provider import (
    Cancelled,
    Cell,
    Level,
    Pool,
    Statistics,
    Tile,
    cell_of,
    overview_level,
    require_tile,
    stop_if,
)
from foveate.inspect.tile.sweep import BASE, sweep
from foveate.inspect.tile.turn import Turn
from foveate.inspect.trace.site import Site
from foveate.inspect.trace.trace import Trace

KEPT = 2**30
"""The limit on the memory of pyramids, in bytes."""
TILES = 256
"""The number of stored tiles below the pyramid: 32 MB."""
WIDE = 1 << 20
"""The number of weights that are computed at once."""
SAMPLES = 256
"""The number of rows of an estimate."""


@dataclass(frozen=True, eq=False)
class Pyramid:
    cells: Cells
    statistics: Statistics

    @property
    def size(self) -> int:
        return 9 * self.cells.peak.numel()


class TraceProvider:
    """Exact tiles of any site of a trace, with memory linear in its length."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._pyramids: OrderedDict[tuple[int, int], Pyramid] = OrderedDict()
        self._tiles: OrderedDict[tuple[Any, ...], Tile] = OrderedDict()
        self._gates: dict[tuple[int, int], Lock] = {}
        self._lock = Lock()
        self._turn = Turn()

    def meta(self) -> dict[str, Any]:
        return self.trace.header()

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
    ) -> Tile:
        here = self.trace.sites[site]
        if isinstance(level, str):
            return self._semantic(here, head, level, row, column, pool, cancelled)
        require_tile((here.queries, here.keys), level, row, column, pool)
        if level >= BASE:
            cells = self._coarse(self.pyramid(site, head, cancelled=cancelled).cells, here, level, row, column)
            return _coded(cells, pool)
        return self._remembered((site, head, level, row, column, pool), cancelled)

    def _remembered(self, place: tuple[Any, ...], cancelled: Cancelled | None) -> Tile:
        """A tile below the pyramid, which is stored for later requests."""
        with self._lock:
            known = self._tiles.get(place)
            if known is not None:
                self._tiles.move_to_end(place)
                return known
        site, head, level, row, column, how = place
        with self._turn:
            tile = _coded(_fine(self.trace.sites[site], head, level, row, column, how, cancelled), how)
        tile.setflags(write=False)
        with self._lock:
            self._tiles[place] = tile
            while len(self._tiles) > TILES:
                self._tiles.popitem(last=False)
        return tile

    def estimate(self, site: int, head: int, level: int, row: int, column: int, pool: Pool = "peak") -> Tile:
        """A coarse tile from some of its rows, which is quick but misses peaks between them."""
        here = self.trace.sites[site]
        require_tile((here.queries, here.keys), level, row, column, pool)
        top, step = row * SIZE << level, 1 << level
        bottom = min(top + (SIZE << level), here.queries)
        per_cell = max(1, SAMPLES // max(1, -(-(bottom - top) // step)))
        rows = torch.arange(top, bottom, max(1, step // per_cell))
        left = column * SIZE << level
        right = min(left + (SIZE << level), here.keys)
        with self._turn:
            return _coded(_sampled(here, head, rows, (top, left, right), step), pool)

    def is_built(self, site: int, head: int) -> bool:
        return (site, head) in self._pyramids

    def row(self, site: int, head: int, query: int) -> Float32[np.ndarray, " keys"]:
        return self._row(site, head, query)[0].numpy()

    def value(self, site: int, head: int, query: int, key: int) -> Cell:
        weights, visible = self._row(site, head, query)
        score = self.trace.sites[site].scores(head, slice(query, query + 1), slice(key, key + 1))
        return cell_of(weights.numpy(), None if visible is None else visible.numpy(), float(score), key)

    def statistics(self, site: int, *, cancelled: Cancelled | None = None) -> list[Statistics]:
        heads = range(self.trace.sites[site].heads)
        return [self.pyramid(site, head, cancelled=cancelled).statistics for head in heads]

    def estimated(self, site: int) -> list[Statistics]:
        """The statistics of a sample of rows, which is quick at any length."""
        here = self.trace.sites[site]
        step = max(1, here.queries // SAMPLES)
        part = self.trace.select(sites=[site], rows=slice(step // 2, None, step)) if step > 1 else self.trace
        chosen = part.sites[0] if step > 1 else here
        return [sweep(part, chosen, head)[1] for head in range(chosen.heads)]

    def counts(self, site: int, head: int) -> UInt32[np.ndarray, " queries"]:
        here = self.trace.sites[site]
        if here.native is not None and "real" not in here.tensors and here.sorted:
            left, right = here.native
            key, query = here.key_position.double(), here.query_position.double()
            low, high = torch.searchsorted(key, query - left), torch.searchsorted(key, query + right, right=True)
            return (high - low).numpy().astype(np.uint32)
        counts = np.zeros(here.queries, dtype=np.uint32)
        step = max(1, WIDE // max(here.keys, 1))
        for start in range(0, here.queries, step):
            rows = slice(start, min(start + step, here.queries))
            visible = here.visible(head, rows)
            counts[rows] = here.keys if visible is None else visible.sum(1).numpy()
        return counts

    def overview(self, site: int, head: int) -> UInt16[np.ndarray, "64 64"]:
        here = self.trace.sites[site]
        level = overview_level(here.queries, here.keys)
        if level >= BASE and not self.is_built(site, head):
            return self.estimate(site, head, level, 0, 0)[:64, :64]
        return self.tile(site, head, level, 0, 0)[:64, :64]

    def pyramid(self, site: int, head: int, *, cancelled: Cancelled | None = None) -> Pyramid:
        """The blocks of 32 × 32 and the statistics of a head, which are computed once."""
        with self._lock:
            gate = self._gates.setdefault((site, head), Lock())
        while not gate.acquire(timeout=0.05):  # another thread computes it already
            stop_if(cancelled)
        try:
            pyramid = self._pyramids.get((site, head))
            if pyramid is None:
                waits = self._turn.before(cancelled)
                cells, statistics = sweep(self.trace, self.trace.sites[site], head, cancelled=waits)
                pyramid = Pyramid(cells, statistics)
                self._keep((site, head), pyramid)
        finally:
            gate.release()
        return pyramid

    def _keep(self, place: tuple[int, int], pyramid: Pyramid) -> None:
        with self._lock:
            self._pyramids[place] = pyramid
            while len(self._pyramids) > 1 and sum(each.size for each in self._pyramids.values()) > KEPT:
                self._pyramids.popitem(last=False)

    def _row(self, site: int, head: int, query: int) -> tuple[Tensor, Tensor | None]:
        weights, visible = self.trace.sites[site].weights(head, slice(query, query + 1))
        return weights[0], None if visible is None else visible[0]

    def _coarse(self, cells: Cells, site: Site, level: int, row: int, column: int) -> Cells:
        factor = 1 << (level - BASE)
        rows, columns = (slice(at * SIZE * factor, (at + 1) * SIZE * factor) for at in (row, column))
        counts = [min(1 << BASE, site.queries - at) for at in range(0, site.queries, 1 << BASE)]
        return coarser(cells.cut(rows, columns), factor, counts[rows])

    def _semantic(
        self, site: Site, head: int, level: Any, row: int, column: int, how: Pool, cancelled: Cancelled | None
    ) -> Tile:
        spans = [self.trace.tracks[name].spans(level) for name in (site.query, site.key)]
        require_tile((len(spans[0]), len(spans[1])), 0, row, column, "mass" if how == "equal" else how)
        rows, columns = (part[at * SIZE : (at + 1) * SIZE] for part, at in zip(spans, (row, column), strict=True))
        parts, start = [], 0
        here = slice(columns[0][0], columns[-1][1])
        step = max(1, WIDE // (here.stop - here.start))
        while start < len(rows):
            stop_if(cancelled)
            stop = start + 1
            while stop < len(rows) and rows[stop][1] - rows[start][0] <= step:
                stop += 1
            queries = slice(rows[start][0], rows[stop - 1][1])
            if how == "equal":
                weights, visible = _equal(site, head, queries, here)
            else:
                weights, visible = site.weights(head, queries, here)
            parts.append(by_spans(weights, visible, rows[start:stop], columns))
            start = stop
        return _coded(_stacked(parts), "mass")


def _equal(site: Site, head: int, rows: slice, columns: slice) -> tuple[Tensor, Tensor | None]:
    """Equal shares of all visible keys instead of weights; a row is counted over all of its keys."""
    visible = site.visible(head, rows)
    if visible is None:
        visible = torch.ones(rows.stop - rows.start, site.keys, dtype=torch.bool)
    return torch.from_numpy(equal(visible.numpy()))[:, columns], visible[:, columns]


def _fine(site: Site, head: int, level: int, row: int, column: int, how: Pool, cancelled: Cancelled | None) -> Cells:
    """A tile below the pyramid, computed for a few rows of cells at a time; unreachable keys are skipped."""
    step, side = 1 << level, SIZE << level
    left, right = column * side, min((column + 1) * side, site.keys)
    bottom = min((row + 1) * side, site.queries)
    width = -(-(right - left) // step)
    rows = max(step, WIDE // max(right - left, 1) // step * step)
    parts = []
    for start in range(row * side, bottom, rows):
        stop_if(cancelled)
        here = slice(start, min(start + rows, bottom))
        first, last = site.reach(here)
        first, last = max(left, first) - (max(left, first) - left) % step, min(right, last)
        count = -(-(here.stop - start) // step)
        if first >= last:
            nothing = torch.zeros(count, width)
            parts.append(Cells(nothing, nothing, nothing.bool()))
            continue
        last = min(right, last + (left - last) % step)
        cells, visible = _pooled(site, head, here, slice(first, last), step, how)
        parts.append(_placed(cells, any_visible(visible, step), (first - left) // step, width))
    return _stacked(parts)


def _pooled(site: Site, head: int, rows: slice, columns: slice, step: int, how: Pool) -> tuple[Tensor, Tensor | None]:
    """Cells, and the visible pairs. The exponential of the largest logarithm is the largest weight."""
    logs = site.logarithms(head, rows, columns) if how == "peak" and step > 1 else None
    if logs is not None:
        return pool(*logs, step, how).exp_(), logs[1]
    weights, visible = site.weights(head, rows, columns)
    return pool(weights, visible, step, how), visible


def _placed(cells: Tensor, visible: Tensor | None, before: int, width: int) -> Cells:
    """Cells, extended by columns that no row can reach."""
    after = width - before - cells.shape[1]
    if not before and not after:
        return Cells(cells, cells, visible)
    shown = torch.ones_like(cells, dtype=torch.bool) if visible is None else visible
    padded = torch.nn.functional.pad(cells, (before, after))
    return Cells(padded, padded, torch.nn.functional.pad(shown, (before, after)))


def _sampled(site: Site, head: int, rows: Tensor, place: tuple[int, int, int], step: int) -> Cells:
    top, left, right = place
    _, counts = ((rows - top) // step).unique_consecutive(return_counts=True)
    parts = []
    size = max(1, 4 * WIDE // max(right - left, 1))  # with more rows at once, keys are read less often
    for part in rows.split(size):
        weights, visible = site.weights(head, part, slice(left, right))
        shown = torch.ones_like(weights[:1], dtype=torch.bool).expand_as(weights) if visible is None else visible
        pooled = ((weights, "max"), (weights, "sum"), (shown, "any"))
        parts.append(tuple(blocks(each, step, 1, how) for each, how in pooled))
    peak, mass, shown = (torch.cat(part) for part in zip(*parts, strict=True))
    starts = (counts.cumsum(0) - counts).tolist()
    return Cells(
        runs(peak, starts, 0, np.maximum),
        runs(mass, starts, 0, np.add) / counts[:, None],
        runs(shown, starts, 0, np.logical_or),
    )


def _stacked(parts: list[Cells]) -> Cells:
    if len(parts) == 1:
        return parts[0]
    shown = None
    if any(part.visible is not None for part in parts):
        shown = torch.cat(
            [torch.ones_like(p.peak, dtype=torch.bool) if p.visible is None else p.visible for p in parts]
        )
    return Cells(torch.cat([part.peak for part in parts]), torch.cat([part.mass for part in parts]), shown)


def _coded(cells: Cells, how: Pool) -> Tile:
    visible = None if cells.visible is None else cells.visible.numpy()
    return framed(encode(cells.of(how).numpy(), visible))
