"""Parts of a trace as alignments and figures."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from foveate.errors import UsageError
from foveate.inspect.alignment import Alignment, join_pieces
from foveate.inspect.figure.document import pdf
from foveate.inspect.figure.raster import png
from foveate.inspect.figure.scale import Hue
from foveate.inspect.figure.vector import svg

if TYPE_CHECKING:  # pictures of alignments come without torch, and importing them must stay quick
    from foveate.inspect.trace.site import Site
    from foveate.inspect.trace.trace import Trace

Pool = Literal["peak", "mass"]
Level = int | Literal["word", "sentence"]
Scale = Literal["linear", "log", "lift"]
CELLS = 512
"""Rows or columns of a figure beyond which it is zoomed out."""
DECADES = 7


def alignment(trace: "Trace", *, site: int | str | None = None, head: int | None = None) -> Alignment:
    """The weights of a site with its labels: rows are queries. Unless a site or a head is chosen, `trace.opening` is
    shown: what the model aligns with, else the mean of the cross-attention of the layer before the last.

    >>> import torch
    >>> from foveate.inspect.trace import Trace, Track, given
    >>> tracks = {"source": Track.of_pieces(["▁a", "▁b"]), "target": Track.of_pieces(["▁c"])}
    >>> maps = torch.tensor([[[0.25, 0.75]]])
    >>> alignment(Trace(tracks=tracks, sites=(given(maps, kind="cross", tracks=("target", "source")),))).pharaoh()
    '1-0'

    Raises UsageError for a site or a head that is not there, and for maps too large to be read as a table.
    """
    here = trace.sites[_site(trace, site)]
    if site is None and head is None:
        head = trace.opening[1]
    if here.queries * here.keys > 4 * CELLS**2:
        raise UsageError(
            f"{here.title} has {here.queries:,} × {here.keys:,} weights: too many for an alignment. Select fewer rows."
        )
    heads = range(here.heads) if head is None else [_head(here, head)]
    weights = sum((here.weights(each)[0].numpy() for each in heads), np.float32(0)) / len(heads)
    rows, columns = trace.tracks[here.query], trace.tracks[here.key]
    return Alignment.of(columns.labels, rows.labels, weights)


def figure(
    trace: "Trace",
    *,
    site: int | str | None = None,
    head: int = 0,
    kind: Literal["svg", "pdf", "png"] = "svg",
    level: Level | None = None,
    pool: Pool = "peak",
    scale: Scale = "linear",
    title: str | None = None,
    hue: Hue = "blue",
) -> bytes:
    """One head's whole map as SVG, PDF or PNG, the same bytes every time.

    Maps of more than 512 rows or columns are zoomed out, as far as it takes or to `level`; "word" and "sentence" are
    levels too. `scale` "log" shows seven powers of ten, "lift" how many times as much as looking everywhere alike.
    In a PNG, the mark ▁ of a word's beginning becomes _, and labels that are still not ASCII become numbers.
    """
    number = _site(trace, site)
    here = trace.sites[number]
    _head(here, head)
    chosen = _level(trace, here, level)
    weights, labels = _cells(trace, number, head, chosen, pool)
    shown, words = _scaled(weights, here, scale)
    if kind == "png":
        labels = tuple(_ascii(part) for part in labels)  # type: ignore[assignment]
    map_ = Alignment.of(labels[1], labels[0], shown)
    said = title or f"{here.title}, head {head}{'' if chosen == 0 else f', level {chosen}, {pool}'}"
    if kind == "png":
        return png(map_, title=said if said.isascii() else "attention", hue=hue, top=None, words=words)
    drawing = svg(map_, title=said, names=(here.key, here.query), hue=hue, top=None, words=words).encode()
    return pdf(drawing) if kind == "pdf" else drawing


def _site(trace: "Trace", site: int | str | None) -> int:
    return trace.opening[0] if site is None else trace.index(site)


def _head(site: "Site", head: int) -> int:
    if not 0 <= head < site.heads:
        raise UsageError(f"{site.title} has no head {head}: it has {site.heads}, counted from 0.")
    return head


def _level(trace: "Trace", site: "Site", level: Level | None) -> Level:
    if level is not None:
        return level
    chosen = 0
    while max(site.queries, site.keys) > CELLS << chosen:
        chosen += 1
    return chosen


def _cells(
    trace: "Trace", number: int, head: int, level: Level, pool: Pool
) -> tuple[np.ndarray, tuple[list[str], list[str]]]:
    """The cells of the whole map at a level, and what to call its rows and columns."""
    from foveate.inspect.tile import SIZE, TraceProvider, decode

    site, provider = trace.sites[number], TraceProvider(trace)
    labels = tuple(_labels(trace, name, level) for name in (site.query, site.key))
    down, across = (-(-len(part) // SIZE) for part in labels)
    tiles = [[provider.tile(number, head, level, i, j, pool) for j in range(across)] for i in range(down)]
    cells = decode(np.block(tiles))[: len(labels[0]), : len(labels[1])]
    return cells, (labels[0], labels[1])


def _labels(trace: "Trace", name: str, level: Level) -> list[str]:
    track = trace.tracks[name]
    if isinstance(level, str):
        return [join_pieces(track.labels[begin:end]) for begin, end in track.spans(level)]
    step = 1 << level
    return [label if step == 1 else f"{label} …" for label in track.labels[::step]]


def _scaled(weights: np.ndarray, site: "Site", scale: Scale) -> tuple[np.ndarray, tuple[str, str] | None]:
    """Weights as shares of the strongest colour, and what the ends of the scale mean."""
    if scale == "linear":
        return weights, None
    if scale == "log":
        logs = np.log10(weights, out=np.full_like(weights, -np.inf), where=weights > 0)
        return np.clip(1 + logs / DECADES, 0, 1).astype(np.float32), (f"1e-{DECADES} or less", "1 all attention")
    if scale == "lift":
        lift = weights * max(site.keys, 1)
        top = max(float(lift.max(initial=0.0)), 1.0)
        return (lift / top).astype(np.float32), ("0 not looked at", f"{top:.3g} times an even share")
    raise UsageError(f"There is no scale {scale!r}: choose linear, log or lift.")


def _ascii(labels: list[str]) -> list[str]:
    plain = [label.replace("▁", "_").replace("…", "...") for label in labels]
    return plain if all(label.isascii() for label in plain) else [str(place) for place in range(len(labels))]
