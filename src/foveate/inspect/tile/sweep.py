"""Computes blocks of 32 × 32 and all statistics of a head in one pass over its rows, with memory O(n²/1024)."""

import numpy as np
import torch
from torch import Tensor

from foveate.attention.normaliser import softmax_temperature
from foveate.inspect.tile.head_measure import NOTHING, along, numbered
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
        self.total, self.entropy, self.distance, self.off = torch.zeros(4, site.queries)
        self.received = torch.zeros(site.keys, dtype=torch.float64)
        self.along = along(site.queries), along(site.keys)


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
    total = torch.where(sums.total > NOTHING, sums.total, torch.nan)
    measures = {
        # −Σ p ln p of p = α / t, from −Σ α ln α
        "entropy": sums.entropy / total + total.log(),
        "distance": sums.distance / total,
        "sink": _sink(site, head) / total,
        "diagonality": 1 - sums.off / total,
        "previous": _previous(site, head, cancelled) / total,
        "induction": _induction(trace, site, head, cancelled) / total,
    }
    received = (sums.received / max(site.queries, 1)).numpy().astype(np.float32)
    return cells, Statistics({name: row.numpy().astype(np.float32) for name, row in measures.items()}, received)


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


def _previous(site: Site, head: int, cancelled: Cancelled | None) -> Tensor:
    """The weight of the key just before each query; NaN if it is not visible."""
    result = torch.full((site.queries,), torch.nan)
    for start in range(0, site.queries, ROWS):
        stop_if(cancelled)
        rows = slice(start, min(start + ROWS, site.queries))
        previous = site.query_position[rows] - 1
        keys = torch.isin(site.key_position, previous).nonzero()[:, 0]
        weights, visible = site.weights(head, rows, keys)
        just = site.key_position[keys] == previous[:, None]
        just = just if visible is None else just & visible
        result[rows] = torch.where(just.any(1), (weights * just).sum(1), torch.nan)
    return result


def _induction(trace: Trace, site: Site, head: int, cancelled: Cancelled | None) -> Tensor:
    """The weight on keys that follow an earlier occurrence of the query's label; NaN without such a visible key."""
    labels, result = numbered(trace, site), torch.full((site.queries,), torch.nan)
    if labels is None:
        return result
    order = labels.argsort(stable=True)
    for rows in order.split(labels.bincount().tolist()):
        keys = rows[rows + 1 < site.keys] + 1
        if not len(keys) or len(rows) < 2:
            continue
        for part in rows.split(max(1, PAIRS // len(keys))):
            stop_if(cancelled)
            weights, visible = site.weights(head, part, keys)
            follows = keys - 1 < part[:, None]
            follows = follows if visible is None else follows & visible
            result[part] = torch.where(follows.any(1), (weights * follows).sum(1), torch.nan)
    return result
