"""A trace contains the attention of a model in one example at all sites, with the origin of the numbers."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from html import escape
from typing import Any

from torch import nn

import foveate
from foveate.attention import AttentionRecord, Recording
from foveate.errors import DataError, FoveateError, UsageError
from foveate.inspect.trace.conversion import Stored, site_of
from foveate.inspect.trace.html import standalone
from foveate.inspect.trace.observation import Observation
from foveate.inspect.trace.site import Site, layer_of
from foveate.inspect.trace.track import SCENES, Track, encodable
from foveate.interruption import ask

FORMAT, VERSIONS = "foveate-trace", (1, 2)
"""Version 2 has pictures, sounds, places, bonds, notes and a focus; a trace without them is written as version 1."""
EMBEDDED = 64_000_000
"""The limit on the size of tensors that a notebook displays in the viewer, in bytes."""
LEEWAY = 1e-3
"""The maximum difference between the sum of a row and 1."""
SAMPLED = 16
"""The number of rows of a site on which the change by 16-bit storage is measured."""


@dataclass(frozen=True, kw_only=True)
class Pedigree:
    """The origin of the numbers, and their measured errors."""

    model: str = ""
    run: str = ""
    """The name of the run or of the shipped model."""
    configuration: Mapping[str, Any] | None = None
    dtype: str = "float32"
    foveate: str = field(default_factory=lambda: foveate.__version__)
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    difference: float | None = None
    """The largest |explain − run| of a context during recording; None if it was not measured."""
    rounding: float | None = None
    """The largest change of a weight by storing features in 16 bits, on sampled rows."""

    @classmethod
    def of(cls, model: nn.Module, **others: Any) -> "Pedigree":
        """The class of a model, and the type of its weights, or int8 if it computes in int8."""
        dtype = "int8" if getattr(model, "int8", False) else str(next(model.parameters()).dtype)
        return cls(model=type(model).__name__, dtype=dtype.removeprefix("torch."), **others)

    @classmethod
    def read(cls, header: Mapping[str, Any]) -> "Pedigree":
        known: dict[str, Any] = {name: header[name] for name in cls.__dataclass_fields__ if name in header}
        for name in ("difference", "rounding"):
            known[name] = None if known.get(name) is None else float(known[name])
        return cls(**known)

    def header(self) -> dict[str, Any]:
        """Plain data for JSON. Numbers that are not finite, which JSON does not have, are text."""
        return _plain(asdict(self))


@dataclass(frozen=True, eq=False, kw_only=True)
class Trace:
    """Tracks, and sites whose maps have these tracks as axes.

    >>> import torch
    >>> from foveate.attention import Attention, record
    >>> site = Attention()
    >>> with record(site) as recording:
    ...     _ = site.run(query=torch.eye(3)[None, None], key=torch.eye(3)[None, None], value=torch.eye(3)[None, None])
    >>> trace = Trace.of(recording, {"words": Track.of_pieces(["▁a", "▁b", "▁c"])})
    >>> trace.sites[0].formula, trace.sites[0].weights(0)[0][0]
    ('softmax(q·k / √3)', tensor([0.4711, 0.2645, 0.2645]))
    """

    tracks: Mapping[str, Track]
    sites: tuple[Site, ...]
    pedigree: Pedigree = field(default_factory=Pedigree)
    gold: tuple[tuple[int, int], ...] | None = None
    """Links (target, source) by a person."""
    opens: tuple[str, int | None] | None = None
    """The preferred site of a model, with a head or None for the mean. See `opening`."""
    view: str = ""
    """The first view of a page, as in the viewer's address: "view=steps&query=1"."""

    def __post_init__(self) -> None:
        for site in self.sites:
            for name, length in ((site.query, site.queries), (site.key, site.keys)):
                if name not in self.tracks:
                    raise UsageError(
                        f"{site.title} needs the track {name!r}, but there are only {', '.join(self.tracks)}."
                    )
                if len(self.tracks[name]) != length:
                    raise UsageError(
                        f"{site.title} has {length} positions along {name!r}, which has {len(self.tracks[name])} "
                        "labels. Give the labels of this example, with its special symbols and without padding."
                    )

    @classmethod
    def of(
        cls,
        recording: Recording | Observation,
        tracks: Mapping[str, Track] | None = None,
        *,
        example: int = 0,
        layers: Iterable[int] | None = None,
        heads: Sequence[int] | None = None,
        stored: Stored = "float16",
        pedigree: Pedigree | None = None,
        gold: Iterable[tuple[int, int]] | None = None,
    ) -> "Trace":
        """One example of a recording. A site gets the tracks with matching lengths: in cross-attention, the first track
        is that of keys ("source") and the last that of queries ("target"). Without tracks, positions are numbered.
        """
        sites, named = [], dict(tracks or {})
        facts = pedigree or Pedigree()
        observed = recording if not isinstance(recording, Recording) else None
        for record in recording:
            ask()
            names = _tracks_of(record, named)
            layer = layer_of(record.name)
            if layers is not None and layer not in set(layers):
                continue
            site = site_of(
                record,
                layer=layer,
                example=example,
                queries=len(named[names[0]]),
                keys=len(named[names[1]]),
                tracks=names,
                value=None if observed is None else observed.values.get(id(record)),
                stored=stored,
            )
            facts = replace(facts, rounding=max(facts.rounding or 0.0, rounding_of(record, site, example)))
            sites.append(site)
        if observed is not None:
            facts = facts if facts.difference is not None else replace(facts, difference=observed.difference)
            sites += [
                site for site in observed.explained(named, example) if layers is None or site.layer in set(layers)
            ]
        links = None if gold is None else tuple((int(t), int(s)) for t, s in gold)
        trace = cls(tracks=named, sites=tuple(sites), pedigree=facts, gold=links)
        return trace if heads is None else trace.select(heads=heads)

    @property
    def opening(self) -> tuple[int, int | None]:
        """The default view: the number of a site, and a head or None for the mean of all heads.

        This is `opens`, otherwise the cross-attention of the layer before the last, which usually aligns best,
        otherwise an alignment that is not an attention, otherwise the first site. Raises UsageError for a trace without
        sites.
        """
        if not self.sites:
            raise UsageError("The trace has no attention to look at.")
        if self.opens is not None and any(site.name == self.opens[0] for site in self.sites):
            number = self.index(self.opens[0])
            head = self.opens[1]
            return number, head if head is None or 0 <= head < self.sites[number].heads else None
        across = [number for number, each in enumerate(self.sites) if each.kind == "cross"]
        across = [number for number in across if not self.sites[number].posterior] or across
        return (across[max(len(across) - 2, 0)] if across else 0), None

    @property
    def title(self) -> str:
        """The run, or else the class of the model, and the first text."""
        texts = [track.text for track in self.tracks.values() if track.text]
        named = [self.pedigree.run or self.pedigree.model, *texts[:1]]
        return ": ".join(part for part in named if part) or "What the model attended to"

    def named(self, run: str) -> "Trace":
        """The trace with the name of its run, for titles."""
        return replace(self, pedigree=replace(self.pedigree, run=run))

    def __getitem__(self, name: str) -> Site:
        """A site by its name; the last one of several."""
        return self.sites[self.index(name)]

    def index(self, site: int | str) -> int:
        """The number of a site, from its number or its name."""
        if isinstance(site, str):
            for called in ("name", "title"):
                for number in reversed(range(len(self.sites))):
                    if getattr(self.sites[number], called) == site:
                        return number
            names = ", ".join(dict.fromkeys(each.title for each in self.sites)) or "none"
            raise UsageError(f"There is no attention {site!r} in this trace. Choose one of: {names}.")
        if not -len(self.sites) <= site < len(self.sites):
            raise UsageError(f"There is no site {site}: the trace has {len(self.sites)}, counted from 0.")
        return site % len(self.sites)

    def select(
        self,
        *,
        layers: Iterable[int] | None = None,
        sites: Iterable[int | str] | None = None,
        heads: Sequence[int] | None = None,
        rows: slice | None = None,
    ) -> "Trace":
        """A trace with selected layers or sites, heads and queries only; with some queries, without links of words."""
        indices = None if sites is None else {self.index(site) for site in sites}
        levels = None if layers is None else set(layers)
        chosen = [
            site
            for number, site in enumerate(self.sites)
            if (indices is None or number in indices) and (levels is None or site.layer in levels)
        ]
        tracks = dict(self.tracks)
        opens = self.opens
        if heads is not None:
            chosen = [_with_heads(site, heads) for site in chosen]
            if opens is not None and opens[1] is not None:
                opens = opens[0], list(heads).index(opens[1]) if opens[1] in heads else None
        if rows is not None:
            tracks |= {f"{site.query} (part)": self.tracks[site.query].cut(rows) for site in chosen}
            chosen = [_with_rows(site, rows) for site in chosen]
        gold = self.gold if rows is None else None
        return replace(self, sites=tuple(chosen), tracks=tracks, opens=opens, gold=gold)

    def header(self) -> dict[str, Any]:
        """The header for viewers: trace.json, with labels without the marks of pieces."""
        sites = [{**site.header(), "file": file_of(number)} for number, site in enumerate(self.sites)]
        shown = {name: track.readable() for name, track in self.tracks.items()}
        return {**outline(shown, self.pedigree, self.gold, self.opens, self.view), "sites": sites}

    def _repr_html_(self) -> str:
        """The viewer in a sandboxed frame that may run scripts; a sentence with the reason if this is impossible."""
        size = sum(tensor.nbytes for site in self.sites for tensor in site.tensors.values())
        if size > EMBEDDED:
            sentence = (
                f"{self!r} has {size / 1e6:,.0f} MB, too much for a notebook: select(…) heads or rows, or write it."
            )
            return f"<p>{escape(sentence)}</p>"
        try:
            page = escape(standalone(self), quote=True)
        except FoveateError as error:
            return f"<p>{escape(f'{self!r}. {error}')}</p>"
        return (
            f'<iframe sandbox="allow-scripts" srcdoc="{page}" title="What the model attended to" '
            'style="width:100%;height:720px;border:0"></iframe>'
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def __repr__(self) -> str:
        tracks = ", ".join(f"{name}: {len(track)}" for name, track in self.tracks.items())
        return f"Trace({len(self.sites)} sites; {tracks})"


def outline(
    tracks: Mapping[str, Track],
    pedigree: Pedigree,
    gold: Sequence[tuple[int, int]] | None,
    opens: tuple[str, int | None] | None = None,
    view: str = "",
) -> dict[str, Any]:
    """The header without its sites."""
    sequences = {name: track.header() for name, track in tracks.items()}
    return {
        "format": FORMAT,
        "version": VERSIONS[any(not SCENES.isdisjoint(each) for each in sequences.values())],
        "pedigree": pedigree.header(),
        "sequences": sequences,
        "gold": None if gold is None else [list(link) for link in gold],
        **({} if opens is None else {"opens": list(opens)}),
        **({"view": view} if view else {}),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)  # NaN or Infinity, by the names that JavaScript and Python read
    return value


def file_of(number: int) -> str:
    return f"site-{number:03d}.safetensors"


def rounding_of(record: AttentionRecord, site: Site, example: int) -> float:
    """The largest change of a weight by storing features in 16 bits, on a few rows."""
    largest = 0.0
    if hasattr(
        record.formula.normaliser, "inner"
    ):  # for switched-off heads, the trace shows the weights that they would have
        return largest
    for row in range(0, site.queries, max(1, site.queries // SAMPLED)):
        rows = slice(row, row + 1)
        exact = record.weights(rows)[example, :, 0, : site.keys].float().cpu()
        for head in range(site.heads):
            weights = site.weights(head, rows)[0][0]
            _require_whole(site, head, row, float(weights.sum()))
            largest = max(largest, float((weights - exact[head]).abs().max()))
    return largest


def _require_whole(site: Site, head: int, row: int, total: float) -> None:
    """Raise an error for a statistic that does not match the features, which would give wrong weights."""
    if site.weighs_nothing_else and not min(abs(total), abs(total - 1)) <= LEEWAY:
        raise UsageError(
            f"{site.title}, head {head}: the weights of query {row} sum to {total:.4g}, where they must "
            'sum to 1, or to 0 without visible keys. Record again with stored="float32"; if that does not help, '
            "scores are too large for one number a row (beyond 10,000)."
        )


def _tracks_of(record: AttentionRecord, tracks: dict[str, Track]) -> tuple[str, str]:
    """The names of the tracks of queries and of keys. Missing tracks are numbered. A decoder attends from its "target"
    to the encoder, and to the tokens that it has "read" (the start symbol and its own output so far).
    """
    queries, keys = record.shape[2:]
    if not tracks or (record.kind == "cross" and len(tracks) == 1):
        for name, length in (("source", keys), ("target", queries)):
            if record.kind == "cross" or name == "source":
                tracks.setdefault(name, Track.numbered(length))
    names = list(tracks)
    if record.kind == "cross":
        return names[-1], names[0]
    decoders = [name for name in ("read", "target") if name in tracks and "decoder" in record.name]
    name = next(iter([*decoders, *(name for name in names if len(tracks[name]) <= queries), names[0]]))
    return name, name


def _with_heads(site: Site, heads: Sequence[int]) -> Site:
    if not heads or any(not 0 <= head < site.heads for head in heads):
        raise UsageError(f"{site.title} has {site.heads} heads, counted from 0; {list(heads)} are not among them.")
    chosen, groups = list(heads), site.heads // site.kv_heads
    shared = [head // groups for head in chosen]
    pick = {"query": chosen, "scores": chosen, "statistic": chosen, "key": shared, "value": shared}
    optional = dict.fromkeys(("vector", "bias", "reweight", "centre", "visible"), chosen)
    tensors = {
        name: tensor[pick[name]]
        if name in pick
        else (tensor[optional[name]] if name in optional and len(tensor) > 1 else tensor)
        for name, tensor in site.tensors.items()
    }
    return replace(site, heads=len(chosen), kv_heads=len(chosen), tensors=tensors)


def _with_rows(site: Site, rows: slice) -> Site:
    along = {"query", "scores", "statistic", "visible", "centre"}
    if site.bias is not None and site.bias["kind"] == "dense":
        along.add("bias")
    if site.reweight is not None and site.reweight["kind"] == "dense":
        along.add("reweight")
    tensors = {name: tensor[:, rows] if name in along else tensor for name, tensor in site.tensors.items()}
    tensors["query_position"] = site.tensors["query_position"][rows]
    queries = len(tensors["query_position"])
    return replace(site, queries=queries, query=f"{site.query} (part)", tensors=tensors)


def require_header(header: Mapping[str, Any], where: str) -> None:
    """Raise DataError for a header that is not of a trace, or of another version."""
    if header.get("format") != FORMAT:
        raise DataError(f"{where} is not a trace: its format is {header.get('format')!r} instead of {FORMAT!r}.")
    if header.get("version") not in VERSIONS:
        raise DataError(
            f"{where} has trace version {header.get('version')!r}, but this version of foveate reads "
            f"{' and '.join(map(str, VERSIONS))}. "
            "Install the version that wrote it, or record again."
        )
