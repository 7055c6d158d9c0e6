"""Computes blocks of 32 × 32 and all statistics of a head in one pass over its rows, with memory O(n²/1024)."""

import numpy as np
import torch
from torch import Tensor

from foveate.attention.normaliser import softmax_temperature
from foveate.inspect.tile.head_measure import NOTHING, OffsetSums, along, delimiters, numbered
from foveate.inspect.tile.pool import Cells, blocks
from foveate.inspect.tile.provider import Cancelled, Statistics, stop_if
from foveate.inspect.trace.site import Site, finite
from foveate.inspect.trace.trace import Trace

BASE = 5
"""The lowest level that is computed in advance."""
ROWS, COLUMNS = 256, 4096
LOWEST = 1e4
"""A finite substitute for −log 0: its negative has the exponential 0, and 0 times it is 0."""
PAIRS = 1 << 20
"""The number of weights that are gathered at once for induction."""


class _Sums:
    """The sums of the pass."""

    def __init__(self, site: Site) -> None:
        rows, columns = -(-site.queries // (1 << BASE)), -(-site.keys // (1 << BASE))
        self.peak, self.mass = torch.zeros(rows, columns), torch.zeros(rows, columns)
        self.visible = torch.zeros(rows, columns, dtype=torch.bool)
        self.total, self.entropy, self.distance, self.off, self.count = torch.zeros(5, site.queries)
        self.received = torch.zeros(site.keys, dtype=torch.float64)
        self.along = along(site.queries), along(site.keys)
        native = None if "real" in site.tensors else site.native
        self.by_offset = OffsetSums(site.query_position, site.key_position, native)


def sweep(trace: Trace, site: Site, head: int, *, cancelled: Cancelled | None = None) -> tuple[Cells, Statistics]:
    """The base of a head's pyramid and its statistics. Raises CancelledError if the request was cancelled."""
    sums = _Sums(site)
    for start in range(0, site.queries, ROWS):
        rows = slice(start, min(start + ROWS, site.queries))
        first, last = site.reach(rows)
        first = first >> BASE << BASE
        for left in range(first, last, COLUMNS):
            stop_if(cancelled)
            _add(sums, site, head, rows, slice(left, min(left + COLUMNS, last)))
    cells = Cells(sums.peak, sums.mass, None if bool(sums.visible.all()) else sums.visible)
    total = torch.where((sums.total > NOTHING) & sums.total.isfinite(), sums.total, torch.nan)
    # −Σ p ln p of p = α / t, from −Σ α ln α
    entropy = sums.entropy / total + total.log()
    same, induction = _alike(trace, site, head, cancelled)
    beside = [_beside(site, head, offset, cancelled) for offset in (-1, 0, 1)]
    near = torch.where(torch.stack(beside).isnan().all(0), torch.nan, torch.stack(beside).nansum(0))
    measures = {
        "entropy": entropy,
        "distance": sums.distance / total,
        "sink": _sink(site, head) / total,
        "diagonality": 1 - sums.off / total,
        "previous": beside[0] / total,
        "induction": induction / total,
        "itself": beside[1] / total,
        "next": beside[2] / total,
        "delimiter": _delimiter(trace, site, head, cancelled) / total,
        "same": same / total,
        "near": near / total,
        "evenness": torch.where(sums.count > 1, entropy / sums.count.log(), torch.nan),
    }
    received = (sums.received / max(site.queries, 1)).numpy().astype(np.float32)
    by_row = {name: row.numpy().astype(np.float32) for name, row in measures.items()}
    return cells, Statistics(by_row, received, sums.by_offset.share())


def _sink(site: Site, head: int) -> Tensor:
    return site.weights(head, slice(None), slice(0, 1))[0][:, 0] if site.keys else torch.zeros(site.queries)


def _add(sums: _Sums, site: Site, head: int, rows: slice, columns: slice) -> None:
    weights, visible, entropy = _weighed(site, head, rows, columns)
    size = 1 << BASE
    top, left = rows.start // size, columns.start // size
    high, wide = -(-weights.shape[0] // size), -(-weights.shape[1] // size)
    place = (slice(top, top + high), slice(left, left + wide))
    sums.peak[place] = torch.maximum(sums.peak[place], blocks(blocks(weights, size, 0, "max"), size, 1, "max"))
    by_row = blocks(weights, size, 0, "mean")
    sums.mass[place] += blocks(by_row, size, 1, "sum")
    if visible is None:
        sums.visible[place] = True
    else:
        sums.visible[place] |= blocks(blocks(visible, size, 0, "any"), size, 1, "any")
    sums.received[columns] += weights.sum(0)
    sums.entropy[rows] += entropy
    sums.total[rows] += weights.sum(1)
    sums.count[rows] += weights.shape[1] if visible is None else visible.sum(1)
    sums.by_offset.add(weights, visible, site.query_position[rows], site.key_position[columns])
    position = site.query_position[rows].float(), site.key_position[columns].float()
    sums.distance[rows] += _apart(weights, *position)
    sums.off[rows] += _apart(weights, sums.along[0][rows], sums.along[1][columns])


def _weighed(site: Site, head: int, rows: slice, columns: slice) -> tuple[Tensor, Tensor | None, Tensor]:
    """The weights, the visible pairs, and −Σ α ln α, whose logarithms softmax has computed already."""
    temperature = softmax_temperature(site.built)
    if temperature is None or site.reweight is not None:
        weights, visible = site.weights(head, rows, columns)
        return weights, visible, torch.special.entr(weights).sum(1)
    visible, statistic = site.visible(head, rows, columns), site.tensors["statistic"][head][rows]
    logs = site.scores(head, rows, columns).div_(temperature)
    logs = logs.sub_(finite(statistic)[:, None])
    if site.bias is not None or site.score["kind"] == "dense":  # then a score may be −∞, and 0 · ∞ is NaN
        logs = logs.clamp_(min=-LOWEST)
    if visible is not None:
        logs = logs.masked_fill_(~visible, -LOWEST)
    weights = logs.exp()
    return weights, visible, -torch.linalg.vecdot(weights, logs)


def _apart(weights: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """Σ α |y_j − x_i|, by two products of vectors if all keys are on one side."""
    if float(key.max()) <= float(query.min()):
        return query * weights.sum(1) - weights @ key
    if float(key.min()) >= float(query.max()):
        return weights @ key - query * weights.sum(1)
    return torch.linalg.vecdot(weights, (key - query[:, None]).abs())


def _beside(site: Site, head: int, offset: int, cancelled: Cancelled | None) -> Tensor:
    """The weight of the key at an offset from each query; NaN if it is not visible."""
    result = torch.full((site.queries,), torch.nan)
    for start in range(0, site.queries, ROWS):
        stop_if(cancelled)
        rows = slice(start, min(start + ROWS, site.queries))
        position = site.query_position[rows] + offset
        keys = torch.isin(site.key_position, position).nonzero()[:, 0]
        weights, visible = site.weights(head, rows, keys)
        there = site.key_position[keys] == position[:, None]
        result[rows] = _added(weights, there, visible)
    return result


def _delimiter(trace: Trace, site: Site, head: int, cancelled: Cancelled | None) -> Tensor:
    """The weight on punctuation and special tokens; NaN without such a visible key."""
    known, result = delimiters(trace, site), torch.full((site.queries,), torch.nan)
    if known is None or not bool(known.any()):
        return result
    keys = known.nonzero()[:, 0]
    for rows in torch.arange(site.queries).split(max(1, PAIRS // len(keys))):
        stop_if(cancelled)
        weights, visible = site.weights(head, rows, keys)
        result[rows] = _added(weights, torch.ones_like(weights, dtype=torch.bool), visible)
    return result


def _alike(trace: Trace, site: Site, head: int, cancelled: Cancelled | None) -> tuple[Tensor, Tensor]:
    """The weight on other keys with the query's label, and on keys that follow an earlier occurrence of it; NaN without
    such a visible key.
    """
    labels, same, induction = numbered(trace, site), *torch.full((2, site.queries), torch.nan)
    if labels is None:
        return same, induction
    order = labels.argsort(stable=True)
    for rows in order.split(labels.bincount().tolist()):
        if len(rows) < 2:
            continue
        keys = torch.cat([rows, rows[rows + 1 < site.keys] + 1])
        for part in rows.split(max(1, PAIRS // len(keys))):
            stop_if(cancelled)
            weights, visible = site.weights(head, part, keys)
            there = torch.cat([keys[: len(rows)] != part[:, None], keys[len(rows) :] - 1 < part[:, None]], dim=1)
            there = there if visible is None else there & visible
            for result, half in ((same, slice(len(rows))), (induction, slice(len(rows), None))):
                result[part] = _added(weights[:, half], there[:, half], None)
    return same, induction


def _added(weights: Tensor, there: Tensor, visible: Tensor | None) -> Tensor:
    """The sums of the weights at some visible places; NaN in rows without one."""
    there = there if visible is None else there & visible
    return torch.where(there.any(1), (weights * there).sum(1), torch.nan)
