"""The reference provider, which computes everything from the complete matrix of weights."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, UInt16, UInt32

from foveate.inspect.lift import equal
from foveate.inspect.tile.code import SIZE, encode, framed
from foveate.inspect.tile.head_measure import MEASURES, NOTHING, delimiters, numbered
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
)
from foveate.inspect.trace.trace import Trace

Weights = Float[np.ndarray, "heads queries keys"]
Seen = Bool[np.ndarray, "heads queries keys"]


class DenseProvider:
    """Tiles of complete maps, for small maps and for tests of other providers.

    `maps` are the weights, visible pairs and scores of each site; by default they are computed from the trace.
    """

    def __init__(self, trace: Trace, maps: Sequence[tuple[Weights, Seen, Weights]] | None = None) -> None:
        self.trace = trace
        self.maps = [self._made(number) for number in range(len(trace.sites))] if maps is None else list(maps)

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
        weights, visible, _ = (part[head] for part in self.maps[site])
        rows, columns = self._spans(site, level)
        shares = pool == "equal" and isinstance(level, str)
        require_tile((len(rows), len(columns)), 0, row, column, "mass" if shares else pool)
        weights = equal(visible) if shares else weights
        rows, columns = (spans[at * SIZE : (at + 1) * SIZE] for spans, at in ((rows, row), (columns, column)))
        cells = np.zeros((len(rows), len(columns)), dtype=np.float32)
        shown = np.zeros((len(rows), len(columns)), dtype=bool)
        for i, (top, bottom) in enumerate(rows):
            for j, (left, right) in enumerate(columns):
                block = weights[top:bottom, left:right]
                cells[i, j] = block.max() if pool == "peak" and level in range(25) else block.sum(1).mean()
                shown[i, j] = visible[top:bottom, left:right].any()
        return framed(encode(cells, shown))

    def row(self, site: int, head: int, query: int) -> Float[np.ndarray, " keys"]:
        return self.maps[site][0][head, query].astype(np.float32)

    def value(self, site: int, head: int, query: int, key: int) -> Cell:
        weights, visible, scores = (part[head, query] for part in self.maps[site])
        return cell_of(weights.astype(np.float32), visible, float(scores[key]), key)

    def statistics(self, site: int, *, cancelled: Cancelled | None = None) -> list[Statistics]:
        return [self._statistics(site, head) for head in range(self.trace.sites[site].heads)]

    def overview(self, site: int, head: int) -> UInt16[np.ndarray, "64 64"]:
        here = self.trace.sites[site]
        level = overview_level(here.queries, here.keys)
        return self.tile(site, head, level, 0, 0)[:64, :64]

    def counts(self, site: int, head: int) -> UInt32[np.ndarray, " queries"]:
        return self.maps[site][1][head].sum(1).astype(np.uint32)

    def _made(self, number: int) -> tuple[Weights, Seen, Weights]:
        site = self.trace.sites[number]
        parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        for head in range(site.heads):
            of_head, rule = site.weights(head)
            shown = np.ones(of_head.shape, bool) if rule is None else rule.numpy()
            parts.append((of_head.numpy(), shown, site.scores(head).numpy()))
        weights, visible, scores = (np.stack(part) for part in zip(*parts, strict=True))
        return weights, visible, scores

    def _spans(self, site: int, level: Level) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        here = self.trace.sites[site]
        if isinstance(level, str):
            return tuple(list(self.trace.tracks[name].spans(level)) for name in (here.query, here.key))  # type: ignore[return-value]
        step = 1 << level
        return tuple([(at, min(at + step, n)) for at in range(0, n, step)] for n in (here.queries, here.keys))  # type: ignore[return-value]

    def _statistics(self, number: int, head: int) -> Statistics:
        site, maps = self.trace.sites[number], self.maps[number]
        weights, visible = maps[0][head].astype(np.float64), maps[1][head]
        measures = {name: np.full(site.queries, np.nan, dtype=np.float32) for name in MEASURES}
        labels, marks = numbered(self.trace, site), delimiters(self.trace, site)
        places = np.arange(site.keys)
        apart = site.key_position.numpy()[None] - site.query_position.numpy()[:, None]
        for i, row in enumerate(weights):
            if not NOTHING < row.sum() < np.inf:
                continue
            p, away, shown = row / row.sum(), apart[i], visible[i]
            entropy = -(p[p > 0] * np.log(p[p > 0])).sum()
            measures["entropy"][i] = entropy
            measures["distance"][i] = (p * abs(away)).sum()
            measures["sink"][i] = p[0]
            off = abs(i / max(site.queries - 1, 1) - places / max(site.keys - 1, 1))
            measures["diagonality"][i] = (p * (1 - off)).sum()
            if shown.sum() > 1:
                measures["evenness"][i] = entropy / np.log(shown.sum())
            groups = {"previous": away == -1, "itself": away == 0, "next": away == 1, "near": abs(away) < 2}
            if marks is not None:
                groups["delimiter"] = marks.numpy()
            if labels is not None:
                groups["same"] = (labels == labels[i]).numpy() & (places != i)
                groups["induction"] = np.zeros(site.keys, dtype=bool)
                groups["induction"][1:] = (labels[:-1] == labels[i]).numpy() & (places[:-1] < i)
            for name, group in groups.items():
                if (group & shown).any():
                    measures[name][i] = p[group & shown].sum()
        received = (weights.sum(0) / max(site.queries, 1)).astype(np.float32)
        return Statistics(measures, received, _by_offset(weights[visible], apart[visible]))


def _by_offset(weights: np.ndarray, apart: np.ndarray) -> float:
    """Adjusted R² of weights by their offsets."""
    if not np.isfinite(weights).all():
        return float("nan")
    offsets, group = np.unique(apart, return_inverse=True)
    if len(weights) <= len(offsets) or weights.var() * len(weights) <= 1e-6 * (weights**2).sum():
        return float("nan")
    means = np.bincount(group, weights) / np.bincount(group)
    within = ((weights - means[group]) ** 2).sum() / (len(weights) - len(offsets))
    return max(0.0, 1 - float(within / weights.var(ddof=1)))
