"""Stores traces on disk: `trace.json`, one safetensors file per site, and a manifest, completely or not at all.

name.trace/trace.json                 tracks, pedigree, and what each site computes
name.trace/site-000.safetensors       its features and statistics
name.trace/MANIFEST                   sizes and digests
"""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from glob import escape
from pathlib import Path
from typing import Any

from torch import Tensor

from foveate.errors import DataError, FoveateError
from foveate.inspect.trace.schema import require_header as require_whole
from foveate.inspect.trace.schema import require_tensors
from foveate.inspect.trace.site import Site
from foveate.inspect.trace.trace import Pedigree, Trace, file_of, outline, require_header
from foveate.inspect.trace.track import Track
from foveate.storage.draft import require_replaceable
from foveate.storage.manifest import MANIFEST, DamagedError, read_json, sealed_folder, sealed_names, verify
from foveate.storage.tensor import read_tensors, write_tensors

HEADER = "trace.json"


class TraceWriter:
    """Writes one site after the other, without keeping them in memory."""

    def __init__(self, folder: Path, tracks: Mapping[str, Track]) -> None:
        self.folder, self.tracks = folder, tracks
        self.pedigree = Pedigree()
        self.gold: Sequence[tuple[int, int]] | None = None
        self.opens: tuple[str, int | None] | None = None
        self.view = ""
        self.headers: list[dict[str, Any]] = []

    def add(self, site: Site) -> None:
        """Write a site. Raises UsageError if it does not fit the tracks."""
        Trace(tracks=self.tracks, sites=(site,))
        name = file_of(len(self.headers))
        write_tensors(self.folder / name, site.tensors)
        self.headers.append({**site.header(), "file": name})

    def finish(self) -> None:
        header = {**outline(self.tracks, self.pedigree, self.gold, self.opens, self.view), "sites": self.headers}
        written = json.dumps(header, indent=1, ensure_ascii=False, allow_nan=False)
        (self.folder / HEADER).write_text(written + "\n", encoding="utf-8")


@contextlib.contextmanager
def trace_writer(path: Path | str, tracks: Mapping[str, Track]) -> Iterator[TraceWriter]:
    """A writer of a folder that appears after the context has ended without errors, in place of an earlier trace.

    Raises UsageError for a file, and for a folder with other content, which would be deleted; SetupError if the disk is
    full.
    """
    _require_trace_folder(Path(path))
    with sealed_folder(Path(path)) as folder:
        writer = TraceWriter(folder, tracks)
        yield writer
        writer.finish()


def _require_trace_folder(folder: Path) -> None:
    """Raises UsageError for a folder with other content than an earlier trace, perhaps one without its manifest."""
    marks, names = [HEADER], sealed_names(folder)
    if names is None and (folder / HEADER).is_file():
        try:
            require_header(read_json(folder / HEADER), str(folder / HEADER))
        except DataError:
            marks = []
    known = [HEADER, MANIFEST, "site-*.safetensors"] if names is None else [escape(name) for name in names]
    require_replaceable(folder, "an earlier trace", *marks, only=known)


def write_trace(trace: Trace, path: Path | str) -> Path:
    """Write a trace as a folder, in place of an earlier one. Raises UsageError for a path with other content."""
    with trace_writer(path, trace.tracks) as writer:
        writer.pedigree, writer.gold, writer.opens, writer.view = trace.pedigree, trace.gold, trace.opens, trace.view
        for site in trace.sites:
            writer.add(site)
    return Path(path)


def is_trace(path: Path | str) -> bool:
    return (Path(path) / HEADER).exists()


def read_trace(path: Path | str) -> Trace:
    """Read a trace from its folder.

    Raises DataError if the folder is not a trace, belongs to another version, or is damaged.
    """
    folder = Path(path)
    if not is_trace(folder):
        raise DataError(
            f"{folder} is not a trace: it has no {HEADER}. Give the folder that `foveate look … --trace` wrote."
        )
    header = read_json(folder / HEADER)
    require_header(header, str(folder / HEADER))
    verify(folder)
    return parsed(header, lambda name: read_tensors(folder / name), str(folder / HEADER))


def parsed(header: Mapping[str, Any], tensors_of: Any, where: str) -> Trace:
    """Make a trace from its header, with a function that returns the tensors of a file name."""
    require_whole(header, where)
    try:
        tracks = {name: Track.read(track, f"{where}: {name}") for name, track in header["sequences"].items()}
        sites = tuple(_site(entry, tensors_of(entry["file"]), where) for entry in header["sites"])
        gold = None if header.get("gold") is None else tuple((t, s) for t, s in header["gold"])
        opens = None if header.get("opens") is None else tuple(header["opens"])
        pedigree, view = Pedigree.read(header["pedigree"]), header.get("view", "")
        return Trace(tracks=tracks, sites=sites, pedigree=pedigree, gold=gold, opens=opens, view=view)
    except FoveateError as error:
        raise error if isinstance(error, DataError) else DamagedError(f"{where}: {error}") from error
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DamagedError(f"{where} is not a complete trace: {error!r}.") from error


def _site(entry: Mapping[str, Any], tensors: Mapping[str, Tensor], where: str) -> Site:
    parts = {name: entry[name] for name in Site.__dataclass_fields__ if name in entry}
    site = Site(**parts, tensors=tensors)
    require_tensors(site, where)
    return site
