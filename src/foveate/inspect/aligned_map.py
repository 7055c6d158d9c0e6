"""Maps of two models on one text, along the units that both tokenisations have in common."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.errors import UsageError
from foveate.inspect.text_unit import OUTSIDE, Unit, Units, common_units
from foveate.inspect.trace.site import Site
from foveate.inspect.trace.trace import Trace
from foveate.inspect.trace.track import Track

ROWS = 256
"""The number of queries whose weights are computed at once."""


class Axis(NamedTuple):
    """The texts of units, and for each label of the one and of the other trace its unit."""

    texts: tuple[str, ...]
    one: Int[np.ndarray, " _"]
    other: Int[np.ndarray, " _"]


@dataclass(frozen=True, eq=False)
class AlignedMaps:
    """The weights of two models between the same units of a text."""

    rows: tuple[str, ...]
    """The text of each unit of queries. The symbols outside a text, such as its end, are one unit."""
    columns: tuple[str, ...]
    first: Float[np.ndarray, "rows columns"]
    """The mean over the queries of a unit of the sum over the keys of another; 0 where all are hidden."""
    second: Float[np.ndarray, "rows columns"]
    whole: bool
    """Whether the queries of both are the same text; otherwise the rows end where the texts begin to differ."""

    @property
    def difference(self) -> Float[np.ndarray, "rows columns"]:
        return self.first - self.second

    @property
    def distances(self) -> Float[np.ndarray, " rows"]:
        """½ Σ_j |α_ij − β_ij| for each unit of queries: 0 for equal rows, 1 for rows without common keys."""
        return np.abs(self.difference).sum(1) / 2

    @property
    def mean(self) -> float:
        """The mean of `distances`."""
        return float(self.distances.mean())


def aligned(
    one: Trace,
    other: Trace,
    *,
    site: int | str | None = None,
    head: int | None = None,
    other_site: int | str | None = None,
    other_head: int | None = None,
    unit: Unit = "word",
) -> AlignedMaps:
    """The weights of two traces of one text as arrays of the same size, although the pieces and lengths differ.

    A unit is a word, or with `unit="piece"` a stretch of characters, at whose ends both tokenisations have a boundary.
    Without a site these are the weights that each trace opens with; without a head, the mean of all heads. The keys
    have to be the same text; queries, such as two translations, are aligned as far as their texts agree.

    >>> from foveate.inspect.trace import Track, given
    >>> def trace(pieces, weights):
    ...     track = Track.of_pieces(pieces, text="a cat")
    ...     return Trace(tracks={"source": track}, sites=(given(torch.tensor([weights])),))
    >>> one = trace(["▁a", "▁cat"], [[0.75, 0.25], [0.5, 0.5]])
    >>> other = trace(["▁a", "▁c", "at"], [[0.5, 0.25, 0.25], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    >>> maps = aligned(one, other, site=0, other_site=0)
    >>> maps.columns, maps.second.tolist(), maps.difference.tolist()
    (('a', 'cat'), [[0.5, 0.5], [0.5, 0.5]], [[0.25, -0.25], [0.0, 0.0]])

    Raises UsageError for texts that differ, for tracks without the characters of their labels, for sites of different
    kinds and for queries without a common beginning.
    """
    (number, heads), (beside, others) = _chosen(one, site, head), _chosen(other, other_site, other_head)
    a, b = one.sites[number], other.sites[beside]
    return _maps((a, heads), (b, others), *_axes(one, a, other, b, unit))


@dataclass(frozen=True)
class NearestHead:
    """A head of one model, and the head of another whose weights are most like it."""

    site: str
    head: int
    other_site: str
    other_head: int
    distance: float
    """The mean over units of queries of ½ Σ_j |α_ij − β_ij|: 0 for equal weights, 1 for no common keys."""


def nearest_heads(one: Trace, other: Trace, *, unit: Unit = "word") -> tuple[NearestHead, ...]:
    """For each head of a trace the head of the other whose weights differ least, whatever the two architectures are.

    Heads are compared where their queries and keys are tracks with the same names, and attentions of the same kind: an
    encoder's with an encoder's, those across with those across. A head without any such counterpart is left out. Both
    traces have to agree in all their texts: let two translators score the same target.

    >>> from foveate.inspect.trace import Track, given
    >>> track = {"source": Track.of_pieces(["▁a", "▁cat"], text="a cat")}
    >>> maps = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
    >>> one, other = (Trace(tracks=track, sites=(given(each),)) for each in (maps, maps.flip(0)))
    >>> [(each.head, each.other_head, each.distance) for each in nearest_heads(one, other)]
    [(0, 1, 0.0), (1, 0, 0.0)]

    Raises UsageError for texts that differ, and for tracks without the characters of their labels.
    """
    nearest = []
    for a in one.sites:
        rivals = [b for b in other.sites if (a.kind, a.query, a.key) == (b.kind, b.query, b.key)]
        maps = []
        for b in rivals:
            rows, columns, whole = _axes(one, a, other, b, unit)
            if not whole:
                texts = one.tracks[a.query].text, other.tracks[b.query].text
                raise UsageError(
                    f"The two models wrote different texts: {texts[0]!r} and {texts[1]!r}. Let both score the same "
                    "target."
                )
            shape = len(rows.texts), len(columns.texts)
            mine = [pooled(a, head, rows.one, columns.one, shape) for head in range(a.heads)]
            theirs = [pooled(b, head, rows.other, columns.other, shape) for head in range(b.heads)]
            maps.append((b, mine, theirs))
        for head in range(a.heads if maps else 0):
            distances = [
                (float((mine[head] - theirs[at]).abs().sum(1).mean() / 2), b.title, at)
                for b, mine, theirs in maps
                for at in range(b.heads)
            ]
            distance, title, at = min(distances, key=lambda each: each[0])
            nearest.append(NearestHead(a.title, head, title, at, distance))
    return tuple(nearest)


def _chosen(trace: Trace, site: int | str | None, head: int | None) -> tuple[int, Sequence[int]]:
    number, opening = trace.opening
    if site is not None:
        number = trace.index(site)
    elif head is None:
        head = opening
    here = trace.sites[number]
    if head is not None and not 0 <= head < here.heads:
        raise UsageError(f"{here.title} has no head {head}: it has {here.heads}, counted from 0.")
    return number, range(here.heads) if head is None else (head,)


def _axes(one: Trace, a: Site, other: Trace, b: Site, unit: Unit) -> tuple[Axis, Axis, bool]:
    """The units of queries and of keys."""
    for site in (a, b):
        if site.shows == "projected":
            raise UsageError(f"{site.title} mixes its keys, so its columns are not pieces of a text. Choose another.")
    if (a.query == a.key) != (b.query == b.key):
        raise UsageError(
            f"{a.title} and {b.title} cannot be compared: one looks at its own text, the other at another text."
        )
    keys = one.tracks[a.key], other.tracks[b.key]
    queries = one.tracks[a.query], other.tracks[b.query]
    columns = _outside(_axis(common_units(*keys, unit=unit)), keys, any)
    units = common_units(*queries, unit=unit, prefix=True)
    rows = _outside(_axis(units), queries, all) if units.whole else _axis(units)
    if not rows.texts:
        raise UsageError(
            f"The texts that the two models wrote differ from the first word: {queries[0].text!r} and "
            f"{queries[1].text!r}. Let both score the same target."
        )
    return rows, columns, units.whole


def _axis(units: Units) -> Axis:
    return Axis(units.texts, units.one, units.other)


def _outside(axis: Axis, tracks: tuple[Track, Track], needed: Callable[[Iterable[bool]], bool]) -> Axis:
    """The units, and one more for symbols outside the text, where any or all of the two tracks have them."""
    sides = axis.one == OUTSIDE, axis.other == OUTSIDE
    if not needed(bool(side.any()) for side in sides):
        return axis
    symbols = [track.labels[at] for track, side in zip(tracks, sides, strict=True) for at in np.flatnonzero(side)]
    units = (np.where(side, len(axis.texts), part) for side, part in zip(sides, (axis.one, axis.other), strict=True))
    return Axis((*axis.texts, " ".join(dict.fromkeys(symbols))), *units)


def _maps(
    one: tuple[Site, Sequence[int]], other: tuple[Site, Sequence[int]], rows: Axis, columns: Axis, whole: bool
) -> AlignedMaps:
    shape = len(rows.texts), len(columns.texts)
    first = torch.stack([pooled(one[0], head, rows.one, columns.one, shape) for head in one[1]]).mean(0)
    second = torch.stack([pooled(other[0], head, rows.other, columns.other, shape) for head in other[1]]).mean(0)
    return AlignedMaps(rows.texts, columns.texts, first.numpy(), second.numpy(), whole)


def pooled(
    site: Site, head: int, rows: Int[np.ndarray, " queries"], columns: Int[np.ndarray, " keys"], shape: tuple[int, int]
) -> Float[Tensor, "rows columns"]:
    """The weights of a head between units: the mean over queries of the sum over keys, without labels `OUTSIDE`."""
    total = torch.zeros(shape, dtype=torch.float64)
    queries, keys = torch.from_numpy(rows), torch.from_numpy(columns)
    inside = keys >= 0
    for start in range(0, site.queries, ROWS):
        here = slice(start, min(start + ROWS, site.queries))
        used = queries[here] >= 0
        weights = site.weights(head, here)[0][used].double()[:, inside]
        merged = torch.zeros(len(weights), shape[1], dtype=torch.float64).index_add_(1, keys[inside], weights)
        total.index_add_(0, queries[here][used], merged)
    count = torch.bincount(queries[queries >= 0], minlength=shape[0]).clamp_min(1)
    return total / count[:, None]
