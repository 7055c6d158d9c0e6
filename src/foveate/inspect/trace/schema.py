"""Checks the files of a trace before they are used: names, types, sizes and ranges."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from foveate.config import build
from foveate.errors import FoveateError, UsageError
from foveate.inspect.trace.site import Site
from foveate.storage.manifest import DamagedError

Header = TypeVar("Header")
FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\.safetensors")
"""A file name in the folder of the trace."""
Numbers = tuple[tuple[float, float], ...]
Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class TrackHeader:
    """The header of a `Track`."""

    labels: tuple[str, ...]
    kind: Literal["tokens", "patches", "frames", "nodes"] = "tokens"
    text: str | None = None
    offsets: Numbers | None = None
    words: Ranges | None = None
    sentences: Ranges | None = None
    grid: tuple[int, int] | None = None
    hop: float | None = None
    edges: tuple[tuple[int, ...], ...] | None = None
    picture: Any = None
    sound: Any = None
    places: Any = None
    bonds: Any = None
    notes: tuple[str, ...] | None = None
    focus: int | None = None


@dataclass(frozen=True, kw_only=True)
class PedigreeHeader:
    """The header of a `Pedigree`."""

    model: str = ""
    run: str = ""
    configuration: dict[str, Any] | None = None
    dtype: str = ""
    foveate: str = ""
    created: str = ""
    difference: float | Literal["NaN", "Infinity"] | None = None
    rounding: float | Literal["NaN", "Infinity"] | None = None


@dataclass(frozen=True, kw_only=True)
class ScoreHeader:
    kind: Literal["product", "additive", "leaky", "dense"]
    factor: float = 1.0
    slope: float | None = None


@dataclass(frozen=True, kw_only=True)
class NativeHeader:
    left: int | None
    right: int | None


@dataclass(frozen=True, kw_only=True)
class VisibilityHeader:
    code: str
    native: NativeHeader | None = None


@dataclass(frozen=True, kw_only=True)
class BiasHeader:
    kind: Literal["distance", "dense"]
    first: int = 0


@dataclass(frozen=True, kw_only=True)
class ReweightHeader:
    kind: Literal["gaussian", "dense"]
    sigma: float = 1.0

    def __post_init__(self) -> None:
        if not self.sigma > 0:
            raise ValueError(f"sigma must be above 0, got {self.sigma}")


@dataclass(frozen=True, kw_only=True)
class SiteHeader:
    """The header of a `Site`."""

    name: str
    kind: Literal["self", "cross", "graph", "recurrent"]
    layer: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    query: str
    key: str
    score: ScoreHeader
    visibility: VisibilityHeader
    bias: BiasHeader | None = None
    normaliser: dict[str, str | float | bool]
    reweight: ReweightHeader | None = None
    shows: Literal["exact", "implied", "projected"] = "exact"
    formula: str = ""
    drawn: bool = False
    posterior: bool = False
    file: str = ""

    def __post_init__(self) -> None:
        for name in ("layer", "queries", "keys"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be below 0, got {getattr(self, name)}")
        if self.heads < 1 or self.kv_heads < 1 or self.heads % self.kv_heads:
            raise ValueError(f"heads are {self.heads} and kv_heads {self.kv_heads}: one must divide the other")
        if not FILE.fullmatch(self.file):
            raise ValueError(f"file must be the name of a file beside it, got {self.file[:60]!r}")


def require_header(header: Mapping[str, Any], where: str) -> None:
    """Raise DamagedError for a header with missing values or values of a wrong type."""
    for name, kind in (("sequences", dict), ("sites", list), ("pedigree", dict)):
        if not isinstance(header.get(name), kind):
            raise DamagedError(f"{where} is not a complete trace: it has no {name}.")
    if not header["sites"]:
        raise DamagedError(f"{where} has no sites. Record a model with attention.")
    lengths = [0]
    for name, track in header["sequences"].items():
        if name != str(name) or not name:
            raise DamagedError(f"{where} has a sequence without a name.")
        lengths.append(len(_read(TrackHeader, track, f"{where}: sequences.{name}").labels))
    for number, site in enumerate(header["sites"]):
        _read(SiteHeader, site, f"{where}: sites[{number}]")
    _read(PedigreeHeader, header["pedigree"], f"{where}: pedigree")
    known = _read(_Marks, header, where)
    for link in known.gold or ():
        if not all(0 <= end < max(lengths) for end in link):
            raise DamagedError(f"{where}: gold links {list(link)}, but there is no such token.")


@dataclass(frozen=True, kw_only=True)
class _Marks:
    gold: Ranges | None = None
    opens: tuple[str, int | None] | None = None
    view: str = ""


def _read(kind: type[Header], value: Any, where: str) -> Header:
    """Read a header, and ignore unknown names, which a later version may have added."""
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    if isinstance(value, Mapping):
        value = {name: part for name, part in value.items() if name in known}
    try:
        return build(kind, value, where=where)
    except UsageError as error:
        raise DamagedError(str(error)) from None


Kind = Callable[[Tensor], bool]


def require_tensors(site: Site, where: str) -> None:
    """Raise DamagedError for a missing tensor, and for a type or size that differs from the header."""
    heads, kv_heads, queries, keys = site.heads, site.kv_heads, site.queries, site.keys
    one = (1, heads)
    requirements: dict[str, tuple[Kind, Sequence[Sequence[int] | None]]] = {
        "statistic": (_is_float, [[heads], [queries]]),
        "query_position": (_is_whole, [[queries]]),
        "key_position": (_is_whole, [[keys]]),
    }
    if site.score["kind"] == "dense":
        requirements["scores"] = _is_float, [[heads], [queries], [keys]]
    else:
        requirements["query"] = _is_float, [[heads], [queries], None]
        requirements["key"] = _is_float, [[kv_heads], [keys], None]
    if site.score["kind"] in ("additive", "leaky"):
        requirements["vector"] = _is_float, [one, None]
    if site.bias is not None:
        dense = site.bias["kind"] == "dense"
        requirements["bias"] = _is_float, [one, [queries], [keys]] if dense else [one, None]
    if site.reweight is not None and site.reweight["kind"] == "dense":
        requirements["reweight"] = _is_float, [one, [queries], [keys]]
    optional: dict[str, tuple[Kind, Sequence[Sequence[int] | None]]] = {
        "visible": (_is_bytes, [one, [queries], [(keys + 7) // 8]]),
        "real": (_is_bool, [[keys]]),
        "centre": (_is_float, [one, [queries]]),
        "value": (_is_float, [[kv_heads, heads], [keys], None]),
    }
    for name, (kind, sizes) in {**optional, **requirements}.items():
        tensor = site.tensors.get(name)
        if tensor is None and name in requirements:
            raise DamagedError(f"{where}: {site.name} has no tensor {name!r}.")
        if tensor is not None and not (kind(tensor) and _fits(tensor, sizes)):
            description = f"{name!r} of {tuple(tensor.shape)} and {tensor.dtype}"
            raise DamagedError(f"{where}: {site.name} has {description}, which does not fit its header.")
    _require_together(site, where)


def _require_together(site: Site, where: str) -> None:
    """Raise DamagedError for tensors that do not match each other."""
    tensors = site.tensors
    if "query" in tensors and "key" in tensors:
        sizes = {tensors[name].shape[-1] for name in ("query", "key", "vector") if name in tensors}
        if len(sizes) > 1:
            raise DamagedError(f"{where}: {site.name} compares features of {' and '.join(map(str, sorted(sizes)))}.")
    if site.bias is not None and site.bias["kind"] == "distance" and site.queries and site.keys:
        query, key = site.query_position, site.key_position
        nearest, farthest = int(key.min()) - int(query.max()), int(key.max()) - int(query.min())
        first = site.bias.get("first")
        if first is None or nearest < first or farthest - first >= tensors["bias"].shape[-1]:
            raise DamagedError(f"{where}: {site.name} has a bias that does not cover all distances.")
    if site.native is None and "visible" not in tensors:
        try:
            _ = site.rule
        except (FoveateError, ValueError) as error:
            raise DamagedError(f"{where}: {site.name}: {error}") from None
    _ = site.built


def _fits(tensor: Tensor, sizes: Sequence[Sequence[int] | None]) -> bool:
    pairs = zip(tensor.shape, sizes, strict=False)
    return tensor.ndim == len(sizes) and all(known is None or size in known for size, known in pairs)


def _is_float(tensor: Tensor) -> bool:
    return tensor.is_floating_point()


def _is_whole(tensor: Tensor) -> bool:
    return tensor.dtype in (torch.int32, torch.int64)


def _is_bytes(tensor: Tensor) -> bool:
    return tensor.dtype == torch.uint8


def _is_bool(tensor: Tensor) -> bool:
    return tensor.dtype == torch.bool
