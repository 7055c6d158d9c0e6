"""Records for traces: the content of `record`, values, other formulas, and the difference between run and explain."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn

from foveate.attention import Attention, AttentionRecord, Explanation, Recording, record
from foveate.attention.record import active
from foveate.inspect.trace.conversion import bits, require_small
from foveate.inspect.trace.site import Site, SiteKind, layer_of
from foveate.inspect.trace.track import Track
from foveate.interruption import ask

CHECKED = 32
"""The number of queries of each call on which explain and run are compared."""
_changing = Lock()
"""Held while modules get and lose their observers, since observations in several threads begin and end in any order."""


@dataclass(frozen=True, eq=False)
class _Explained:
    name: str
    kind: SiteKind
    explanation: Explanation


@dataclass(eq=False)
class Observation:
    """The result of `observe`."""

    recording: Recording
    values: dict[int, Tensor] = field(default_factory=dict)
    """The values of records, by the record's id."""
    others: list[_Explained] = field(default_factory=list)
    """Explanations of mechanisms other than `Attention`, which have their own formulas."""
    difference: float | None = None

    def note_difference(self, far: float) -> None:
        """Note a difference: the largest is kept, and one that is not a number stays."""
        if self.difference is None or math.isnan(far) or far > self.difference:
            self.difference = far

    def __repr__(self) -> str:
        others = f", and {', '.join(other.name for other in self.others)}" if self.others else ""
        return f"<Observation: {self.recording!r}{others}>"

    def _repr_html_(self) -> str:
        return self.recording._repr_html_()

    def __iter__(self) -> Iterator[AttentionRecord]:
        return iter(self.recording.records)

    def explained(self, tracks: dict[str, Track], example: int) -> Iterator[Site]:
        """The mechanisms other than `Attention`, as sites with stored weights."""
        for other in self.others:
            weights = other.explanation.weights[example].float().cpu()
            queries = next(iter(tracks)) if other.kind == "self" else list(tracks)[-1]
            keys = next(iter(tracks))
            length = min(weights.shape[1], len(tracks[queries])) if queries in tracks else weights.shape[1]
            if other.explanation.shows == "projected" or weights.shape[2] < len(tracks[keys]):
                keys = mixed(keys)
                tracks[keys] = Track(labels=tuple(f"mixture {place}" for place in range(weights.shape[2])))
            visible = other.explanation.visible[example].cpu()
            cut = (slice(None), slice(0, length), slice(0, len(tracks[keys])))
            yield given(
                weights[cut], visible[cut], name=other.name, kind=other.kind, layer=layer_of(other.name),
                tracks=(queries, keys), shows=other.explanation.shows,
            )  # fmt: skip


def mixed(track: str) -> str:
    """The name of the track of mixtures of a track's positions, which a Linformer looks at instead of them."""
    return f"{track} (mixed)"


def given(
    weights: Tensor,
    visible: Tensor | None = None,
    *,
    name: str = "weights",
    kind: SiteKind = "self",
    layer: int = 0,
    tracks: tuple[str, str] = ("source", "source"),
    shows: Any = "exact",
    formula: str = "given weights",
    posterior: bool = False,
) -> Site:
    """A site from given weights: `heads query key`.

    An alignment that is not an attention is such a site, too, with `posterior`. For CTC, the weight of a token for a
    frame is the probability that the frame belongs to the token, given the whole transcript, and the sum of a row is
    the expected number of its frames; for a forced alignment, the weights are 1 on the frames of a token, otherwise 0.
    """
    heads, queries, keys = weights.shape
    require_small("A map of given weights", queries, keys)
    tensors = {
        "scores": weights.float(),
        "statistic": torch.zeros(heads, queries),
        "query_position": torch.arange(queries, dtype=torch.int32),
        "key_position": torch.arange(keys, dtype=torch.int32),
    }
    native: dict[str, Any] | None = {"left": None, "right": None}
    if visible is not None and not bool(visible.all()):
        tensors["visible"], native = bits(visible), None
    return Site(
        name=name, kind=kind, layer=layer, heads=heads, kv_heads=heads, queries=queries, keys=keys, query=tracks[0],
        key=tracks[1], score={"kind": "dense"}, visibility={"code": "everything()", "native": native},
        normaliser={"kind": "relu", "normalised": False}, shows=shows, formula=formula, posterior=posterior,
        tensors=tensors,
    )  # fmt: skip


@contextmanager
def observe(model: nn.Module, *, values: bool = True, check: bool = True) -> Iterator[Observation]:
    """Record for a trace. Results do not change, to the bit.

    In addition to `record`, values are stored on request, mechanisms with another formula are explained (their weights
    are implied or projected), and for some rows of every call the context of `run` is compared with that of `explain`.

    >>> site = Attention()
    >>> x = torch.randn(1, 1, 5, 4)
    >>> with observe(site) as recording:
    ...     _ = site.run(query=x, key=x, value=x)
    >>> recording.difference < 1e-6
    True
    """
    with record(model) as recording:
        observer = _Observer(Observation(recording), values, check)
        modules = [module for module in model.modules() if _runs(module)]
        with _changing:
            watchers = [_watch(module) for module in modules]
            for watcher in watchers:
                watcher.observers.append(observer)
        try:
            yield observer.observation
        finally:
            with _changing:
                for watcher in watchers:
                    _leave(watcher, observer)


def _runs(module: nn.Module) -> bool:
    return callable(getattr(module, "run", None)) and callable(getattr(module, "explain", None))


@dataclass(frozen=True, eq=False)
class _Observer:
    """An observation, and what it wants of each call."""

    observation: Observation
    values: bool
    check: bool


@dataclass(frozen=True, eq=False)
class _Watched:
    """`run` of a module, which is observed."""

    module: nn.Module
    run: Callable[..., Tensor]
    earlier: Any
    """The `run` that the module itself had, or None where it is that of its class."""
    observers: list[_Observer] = field(default_factory=list)

    def of(self, module: Attention) -> "_Watched":
        """The same for an attention that `Attention.over` has made of this one."""
        return replace(self, module=module, run=partial(type(module).run, module))

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, **keywords: Any) -> Tensor:
        # A call belongs to the innermost recording of its own thread, in which `record` notes it.
        recording = active()
        observer = next((each for each in tuple(self.observers) if each.observation.recording is recording), None)
        if observer is None:
            return self.run(query, key, value, **keywords)
        ask()
        observation, module = observer.observation, self.module
        context = self.run(query, key, value, **keywords)
        with torch.no_grad():
            if not isinstance(module, Attention):
                kind: SiteKind = "self" if query.shape[2] == key.shape[2] else "cross"
                explain: Callable[..., Explanation] = module.explain  # type: ignore[assignment]
                explanation = explain(query, key, value, at=keywords.get("at"))
                observation.others.append(_Explained(observation.recording.names[id(module)], kind, explanation))
            else:
                if observer.values and observation.recording.records:
                    observation.values[id(observation.recording.records[-1])] = value.detach()
                if observer.check and not keywords.get("dropout"):
                    observation.note_difference(_difference(module, query, key, value, context, keywords))
        return context


def _watch(module: nn.Module) -> _Watched:
    """The watcher of a module, one for all observations together."""
    watched = vars(module).get("run")
    if not isinstance(watched, _Watched):
        watched = _Watched(module, module.run, earlier=watched)  # type: ignore[arg-type]
        module.run = watched  # type: ignore[assignment]
    return watched


def _leave(watched: _Watched, observer: _Observer) -> None:
    watched.observers.remove(observer)
    if not watched.observers and vars(watched.module).get("run") is watched:  # nobody has put another there
        if watched.earlier is None:
            del watched.module.run
        else:
            watched.module.run = watched.earlier


def _difference(
    attention: Attention, query: Tensor, key: Tensor, value: Tensor, context: Tensor, keywords: Mapping[str, Any]
) -> float:
    """|explain − run| on some rows, because explain computes all weights of them."""
    if not query.shape[2] or not key.shape[2]:
        return 0.0
    at = attention._positions(query, key, value, keywords.get("at"))
    rows = slice(0, None, max(1, query.shape[2] // CHECKED))
    exact = attention.explain(query[:, :, rows], key, value, at=at.rows(rows)).context
    return float((exact - context[:, :, rows]).abs().max())
