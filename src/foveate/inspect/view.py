"""Parts of a trace as alignments and figures."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from foveate.errors import UsageError
from foveate.inspect.alignment import Alignment, join_pieces
from foveate.inspect.figure.graph_figure import MOST, graph_lines, graph_svg
from foveate.inspect.figure.pdf import pdf
from foveate.inspect.figure.raster import DPI, rasterised
from foveate.inspect.figure.scale import Hue, Scale, shaded
from foveate.inspect.figure.vector import drawn
from foveate.inspect.lift import equal
from foveate.inspect.time_alignment import TimeAlignment

if TYPE_CHECKING:  # pictures of alignments do not need torch, and their import must be quick
    from foveate.inspect.tile import TraceProvider
    from foveate.inspect.trace.site import Site
    from foveate.inspect.trace.trace import Trace

Pool = Literal["peak", "mass"]
Level = int | Literal["word", "sentence"]
LABELS = "labels"
"""The track of the labels of a tagger, in no order of time."""
CELLS = 512
"""The number of rows or columns beyond which a figure is zoomed out."""


def alignment(trace: "Trace", *, site: int | str | None = None, head: int | None = None) -> Alignment:
    """The weights of a site with its labels: rows are queries. Without a site and a head, these
    are the weights of `trace.opening`.

    >>> import torch
    >>> from foveate.inspect.trace import Trace, Track, given
    >>> tracks = {"source": Track.of_pieces(["▁a", "▁b"]), "target": Track.of_pieces(["▁c"])}
    >>> maps = torch.tensor([[[0.25, 0.75]]])
    >>> alignment(Trace(tracks=tracks, sites=(given(maps, kind="cross", tracks=("target", "source")),))).pharaoh()
    '1-0'

    Raises UsageError for a site or head that does not exist, and for maps that are too large for a table.
    """
    here = trace.sites[_site(trace, site)]
    if site is None and head is None:
        head = trace.opening[1]
    if here.queries * here.keys > 4 * CELLS**2:
        raise UsageError(
            f"{here.title} has {here.queries:,} × {here.keys:,} weights: too many for an alignment. Select fewer rows."
        )
    return _exact(trace, here, range(here.heads) if head is None else [head_of(here, head)])


def times(
    trace: "Trace", *, site: int | str | None = None, head: int | None = None, name: str | None = None
) -> TimeAlignment:
    """When the letters and words of a trace are listened to: the stretches of a site whose keys are frames of sound.

    Without a site and a head, this is `trace.opening`; without a head, the mean of all heads. `name` is that of the
    recording, otherwise the text of its track. Raises UsageError for a site whose keys are not frames with a `hop`, or
    whose queries are frames, too.
    """
    here = trace.sites[_site(trace, site)]
    frames, text = trace.tracks[here.key], trace.tracks[here.query]
    if not hears(trace, site) or frames.hop is None:
        raise UsageError(
            f"{here.title} does not align text with sound: its keys are {frames.kind}, its queries "
            f"{LABELS if here.query == LABELS else text.kind}."
        )
    table = alignment(trace, site=site, head=head)
    return TimeAlignment.of_weights(
        text.labels, table.weights, hop=frames.hop, name=name or frames.text or here.key,
        seconds=frames.hop * len(frames), words=text.words,
    )  # fmt: skip


def hears(trace: "Trace", site: int | str | None = None) -> bool:
    """Whether a site, or the one that `trace` opens with, aligns text with frames of sound. The track "labels" of a
    tagger is not text: each of them may be heard several times.
    """
    here = trace.sites[_site(trace, site)]
    frames, text = trace.tracks[here.key], trace.tracks[here.query]
    spoken = text.kind == "tokens" and here.query != LABELS
    return frames.kind == "frames" and frames.hop is not None and spoken and here.shows != "projected"


def gazes(trace: "Trace", site: int | str | None = None) -> bool:
    """Whether a site, or the one that `trace` opens with, aligns words with the whole grid of a picture."""
    here = trace.sites[_site(trace, site)]
    grid, text = trace.tracks[here.key], trace.tracks[here.query]
    whole = grid.grid is not None and grid.grid[0] * grid.grid[1] == len(grid)
    return grid.kind == "patches" and whole and text.kind == "tokens" and here.shows != "projected"


def is_graph(trace: "Trace", site: int | str | None = None) -> bool:
    """Whether a site, or the one that `trace` opens with, looks at the nodes of a graph that a drawing can show."""
    here = trace.sites[_site(trace, site)]
    track = trace.tracks[here.key]
    drawable = track.kind == "nodes" and track.edges is not None and here.shows != "projected"
    return drawable and len(track) <= MOST and here.queries in (1, here.keys)


def graph(
    trace: "Trace", *, site: int | str | None = None, head: int | None = None, query: int | None = None
) -> tuple[str, str]:
    """A drawing of a graph or a molecule as SVG, and its strongest weights as lines of text.

    Without a site and a head, this is `trace.opening`; without a head, the mean of all heads. Without a `query`, it is
    the node that the track was made for, if there is one, otherwise all edges are drawn. Raises UsageError for a site
    whose keys are not the nodes of a graph, and for a query that does not exist.
    """
    number = _site(trace, site)
    here = trace.sites[number]
    if not is_graph(trace, number):
        raise UsageError(f"{here.title} does not look at a graph of up to {MOST} nodes: its keys are {here.key!r}.")
    if site is None and head is None:
        head = trace.opening[1]
    track, heads = trace.tracks[here.key], range(here.heads) if head is None else [head_of(here, head)]
    own = here.query == here.key
    query = track.focus if query is None and own else query
    if query is not None and not 0 <= query < here.queries:
        raise UsageError(f"{here.title} has no query {query}: it has {here.queries}, counted from 0.")
    weights = _exact(trace, here, heads).weights
    about = f", what {track.labels[query]} looks at" if own and query is not None else ""
    which = "mean of all heads" if head is None else f"head {head}"
    title = f"{here.title}, {which if here.heads > 1 else 'its head'}{about}"
    drawing = graph_svg(track, weights, query=query if own else None, title=title)
    averaged = weights if query is not None or len(weights) == 1 else weights.mean(0, keepdims=True)
    return drawing, f"{title}\n{graph_lines(track, averaged, query=query)}"


def figure(
    trace: "Trace",
    *,
    site: int | str | None = None,
    head: int | None = None,
    kind: Literal["svg", "pdf", "png"] = "svg",
    level: Level | None = None,
    pool: Pool = "peak",
    scale: Scale = "linear",
    title: str | None = None,
    hue: Hue = "blue",
    dpi: int | float = DPI,
) -> bytes:
    """The whole map of a head as reproducible SVG, PDF or PNG. Without a site and a head it is `trace.opening`; without
    a head, it is the mean of all heads.

    Maps of more than 512 rows or columns are zoomed out, automatically or to `level`; the levels "word" and "sentence"
    sum the weights of their pieces. `scale` "log" shows six powers of ten, "lift" the ratio to equal weights for all
    visible keys. Hidden pairs are hatched. `dpi` is the resolution of a PNG.
    """
    number = _site(trace, site)
    here = trace.sites[number]
    if site is None and head is None:
        head = trace.opening[1]
    heads = range(here.heads) if head is None else [head_of(here, head)]
    chosen = _level(trace, here, level)
    if chosen == 0:
        map_ = _exact(trace, here, heads)
    else:
        map_ = _zoomed(trace, number, heads, chosen, pool, lifted=scale == "lift")
    shading = shaded(map_, scale=scale, top=None, hue=hue)
    if title is None:
        zoomed = f", {chosen}s" if isinstance(chosen, str) else "" if chosen == 0 else f", level {chosen}, {pool}"
        title = heading(trace, site=number, head=head) + zoomed
    drawing = drawn(map_, shading, title, (here.key, here.query))
    if kind == "png":
        return rasterised(drawing, dpi=dpi, details={"Title": title, "Description": map_.describe()})
    return pdf(drawing.encode()) if kind == "pdf" else drawing.encode()


def heading(trace: "Trace", *, site: int | str | None = None, head: int | None = None) -> str:
    """The name of a site and a head; without both, those of `trace.opening`."""
    if site is None and head is None:
        head = trace.opening[1]
    return f"{trace.sites[_site(trace, site)].title}, {'mean of all heads' if head is None else f'head {head}'}"


def _exact(trace: "Trace", site: "Site", heads: Sequence[int]) -> Alignment:
    """All weights, averaged over several heads, and the pairs that are visible in any of them."""
    weights, shares = np.zeros((2, site.queries, site.keys), dtype=np.float32)
    visible = np.zeros(weights.shape, dtype=bool)
    for head in heads:
        of_head, rule = site.weights(head)
        may = np.ones(weights.shape, dtype=bool) if rule is None else rule.numpy()
        weights += np.where(may, of_head.numpy(), np.float32(0)) / len(heads)
        shares += equal(may) / len(heads)
        visible |= may
    rows, keys = trace.tracks[site.query].labels, trace.tracks[site.key]
    return Alignment(keys.labels, rows, weights, None if visible.all() else visible, shares, keys.grid)


def _site(trace: "Trace", site: int | str | None) -> int:
    return trace.opening[0] if site is None else trace.index(site)


def head_of(site: "Site", head: int) -> int:
    """The number of a head. Raises UsageError if there is none."""
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


def _zoomed(trace: "Trace", number: int, heads: Sequence[int], level: Level, pool: Pool, *, lifted: bool) -> Alignment:
    """The cells of the whole map at a level; with `lifted`, also the equal shares in each cell."""
    from foveate.inspect.tile import HIDDEN, TraceProvider, decode

    site, provider = trace.sites[number], TraceProvider(trace)
    rows, columns = (_labels(trace, name, level) for name in (site.query, site.key))
    shape = len(rows), len(columns)
    weights, shares = np.zeros((2, *shape), dtype=np.float32)
    visible = np.zeros(shape, dtype=bool)
    for head in heads:
        codes = _tiles(provider, (number, head, level), pool, shape)
        weights += decode(codes) / len(heads)
        visible |= codes != HIDDEN
        if lifted and isinstance(level, str):
            shares += decode(_tiles(provider, (number, head, level), "equal", shape)) / len(heads)
        elif lifted:
            # A cell of mass contains up to 2^level keys, with as many equal shares.
            size = 1 << int(level)
            counts = provider.counts(number, head).astype(np.float64)
            starts = np.arange(0, len(counts), size)
            mean = np.add.reduceat(counts, starts) / np.minimum(size, len(counts) - starts)
            shares += (size if pool == "mass" else 1) / np.maximum(mean, 1)[:, None].astype(np.float32) / len(heads)
    shown = None if visible.all() else visible
    return Alignment(tuple(columns), tuple(rows), weights, shown, shares if lifted else None)


def _tiles(provider: "TraceProvider", place: tuple[int, int, Level], pool: str, shape: tuple[int, int]) -> np.ndarray:
    """The codes of the whole map."""
    from foveate.inspect.tile import SIZE

    down, across = (-(-length // SIZE) for length in shape)
    tiles = [[provider.tile(*place, i, j, pool) for j in range(across)] for i in range(down)]  # type: ignore[arg-type]
    return np.block(tiles)[: shape[0], : shape[1]]


def _labels(trace: "Trace", name: str, level: Level) -> list[str]:
    track = trace.tracks[name]
    if isinstance(level, str):
        return [join_pieces(track.labels[begin:end]) for begin, end in track.spans(level)]
    step = 1 << level
    return [label if step == 1 else f"{label} …" for label in track.labels[::step]]
