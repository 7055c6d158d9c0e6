"""A live viewer in a notebook: a sandboxed frame whose requests Python answers.

A notebook can display a trace as a page with all its numbers. This widget is for larger traces: the page contains only
the viewer, and a tile is computed when it becomes visible.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import cache
from threading import Event, Lock
from typing import Any

import numpy as np

from foveate.errors import SetupError, UsageError
from foveate.inspect.step import steps
from foveate.inspect.tile import TraceProvider
from foveate.inspect.tile.provider import CancelledError
from foveate.inspect.tile.sweep import BASE
from foveate.inspect.trace.html import live_page, numbers, part
from foveate.inspect.trace.trace import Trace

Say = Callable[[dict[str, Any], list[bytes]], None]
SMALL = 1 << 24
"""The number of weights of a site up to which its statistics are exact at once."""


class Answers:
    """Answers requests in threads, so that the notebook is not blocked: `{id, method, args}`, or `{stop: id}`.

    >>> import torch
    >>> from foveate.inspect.trace import Track, given
    >>> trace = Trace(tracks={"source": Track.numbered(2)}, sites=(given(torch.eye(2)[None]),))
    >>> said = []
    >>> Answers(trace).hear({"id": "1", "method": "row", "args": [0, 0, 1]}, lambda *words: said.append(words)).result()
    >>> said
    [({'id': '1', 'array': 'float32'}, [b'\\x00\\x00\\x00\\x00\\x00\\x00\\x80?'])]
    """

    def __init__(self, trace: Trace) -> None:
        self.provider = TraceProvider(trace)
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="foveate")
        self._asked: dict[str, Event] = {}
        self._lock = Lock()

    def hear(self, question: Mapping[str, Any], say: Say) -> Any:
        """Start answering a request; `say` receives an estimate and the answer. Returns the future, for waiting."""
        if "stop" in question:
            with self._lock:
                stopped = self._asked.get(str(question["stop"]))
            if stopped:
                stopped.set()
            return None
        name, cancelled = str(question.get("id")), Event()
        with self._lock:
            self._asked[name] = cancelled
        return self._threads.submit(self._answered, name, question, cancelled, say)

    def _answered(self, name: str, question: Mapping[str, Any], cancelled: Event, say: Say) -> None:
        try:
            method, args = str(question.get("method")), question.get("args")
            if method not in _METHODS or not isinstance(args, Sequence):
                raise UsageError(f"The viewer requested the unknown method {method!r}.")

            def guess(codes: np.ndarray) -> None:
                say({"id": name, "array": "uint16", "guess": True}, [_bytes(codes, "<u2")])

            answer, buffers = getattr(self, f"_{method}")(*args, cancelled=cancelled, guess=guess)
            say({"id": name, **answer}, buffers)
        except CancelledError:
            say({"id": name, "error": "called off", "aborted": True}, [])
        except Exception as error:  # the frame has to receive every error
            say({"id": name, "error": str(error) or repr(error), "aborted": False}, [])
        finally:
            with self._lock:
                self._asked.pop(name, None)

    # -- one method for each question of the viewer: the answer as JSON or as the kind of its one array ----------------

    def _meta(self, **_: Any) -> tuple[dict[str, Any], list[bytes]]:
        return {"value": {**self.provider.meta(), "attached": False}}, []

    def _tile(self, request: Mapping[str, Any], *, cancelled: Event, guess: Callable[[np.ndarray], None]) -> Any:
        place = tuple(request[name] for name in ("site", "head", "level", "row", "column", "pool"))
        site, head, level = self._within(place[0], place[1]), place[1], place[2]
        if isinstance(level, int) and level >= BASE and not self.provider.is_built(site, head):
            guess(self.provider.estimate(*place))
        return {"array": "uint16"}, [_bytes(self.provider.tile(*place, cancelled=cancelled.is_set), "<u2")]

    def _row(self, site: int, head: int, query: int, **_: Any) -> Any:
        return {"array": "float32"}, [_bytes(self.provider.row(self._within(site, head), head, query), "<f4")]

    def _counts(self, site: int, head: int, **_: Any) -> Any:
        return {"array": "uint32"}, [_bytes(self.provider.counts(self._within(site, head), head), "<u4")]

    def _value(self, site: int, head: int, query: int, key: int, **_: Any) -> Any:
        return {"value": _finite(asdict(self.provider.value(self._within(site, head), head, query, key)))}, []

    def _statistics(self, site: int, *, cancelled: Event, **_: Any) -> Any:
        here = self.provider.trace.sites[self._within(site, 0)]
        small = here.queries * here.keys * here.heads <= SMALL
        exact = small or all(self.provider.is_built(site, head) for head in range(here.heads))
        provider = self.provider
        heads = provider.statistics(site, cancelled=cancelled.is_set) if exact else provider.estimated(site)
        means = [{name: value or 0 for name, value in _finite(each.means()).items()} for each in heads]
        behaviours = [each.behaviour for each in heads]
        return {"value": {"heads": means, "behaviours": behaviours, "estimate": not exact}}, []

    def _overview(self, site: int, head: int, **_: Any) -> Any:
        here = self.provider.trace.sites[self._within(site, head)]
        exact = self.provider.is_built(site, head) or max(here.queries, here.keys) <= 64 << (BASE - 1)
        return {"array": "uint16", "thumbnail": {"estimate": not exact}}, [
            _bytes(self.provider.overview(site, head), "<u2")
        ]

    def _steps(self, site: int, head: int, query: int, **_: Any) -> Any:
        return {
            "value": [step.header() for step in steps(self.provider.trace, self._within(site, head), head, query)]
        }, []

    def _numbers(self, site: int, **_: Any) -> Any:
        return {"array": "uint8"}, [numbers(self.provider.trace, self._within(site, 0))]

    def _within(self, site: int, head: int) -> int:
        sites = self.provider.trace.sites
        if not (0 <= site < len(sites) and 0 <= head < sites[site].heads):
            raise UsageError(f"There is no head {head} at site {site}.")
        return site


_METHODS = frozenset({"meta", "tile", "row", "counts", "value", "statistics", "overview", "steps", "numbers"})


def widget(trace: Trace, *, height: int = 720) -> Any:
    """The viewer as a notebook's widget. Raises SetupError without the package anywidget.

    Its `site`, `head` and `cursor` (a query and a key, or None) are synchronised with the page in both directions.

    The frame runs only the viewer's script: it has no origin, cannot read the notebook, and loads nothing. It exchanges
    only the widget's own messages with Python.
    """
    try:
        kind = _kind()
    except ImportError as error:
        raise SetupError(
            f"A live viewer in a notebook needs {error.name}: `pip install 'foveate[notebook]'`. Without it a trace "
            "shows itself, as long as its numbers fit into a page."
        ) from error
    return kind(trace, height)


@cache
def _kind() -> type:
    """The class, defined when anywidget is imported."""
    import anywidget
    import traitlets

    class TraceWidget(anywidget.AnyWidget):
        """The model of the widget in Python: the page, its height, the selected place, and the answers."""

        _esm = part("widget.js")
        page = traitlets.Unicode().tag(sync=True)
        height = traitlets.Int(720).tag(sync=True)
        site = traitlets.Int(0).tag(sync=True)
        head = traitlets.Int(0).tag(sync=True)
        cursor: Any = traitlets.List(traitlets.Int(), None, allow_none=True, minlen=2, maxlen=2).tag(sync=True)

        def __init__(self, trace: Trace, height: int) -> None:
            self.trace, self.answers = trace, Answers(trace)
            site, head = trace.opening
            super().__init__(page=live_page(), height=height, site=site, head=head or 0)
            self.on_msg(lambda _, content, buffers: self.answers.hear(content, self.send))

        @traitlets.validate("site", "head", "cursor")
        def _checked(self, proposal: Any) -> Any:
            return _there(self.trace, self.site, proposal["trait"].name, proposal["value"])

        @traitlets.observe("site")
        def _fitted(self, _: Any) -> None:
            here = self.trace.sites[self.site]
            self.head = min(self.head, here.heads - 1)
            if self.cursor and not (self.cursor[0] < here.queries and self.cursor[1] < here.keys):
                self.cursor = None

    return TraceWidget


def _there(trace: Trace, site: int, name: str, value: Any) -> Any:
    """The value, if the trace has this place."""
    here = trace.sites[site] if name != "site" else None
    called = here.title if here else ""
    if here is None:
        there, extent = 0 <= value < len(trace.sites), f"the trace has {len(trace.sites)}"
    elif name == "head":
        there, extent = 0 <= value < here.heads, f"{called} has {here.heads}"
    else:
        there = value is None or (0 <= value[0] < here.queries and 0 <= value[1] < here.keys)
        extent = f"{called} has {here.queries} queries and {here.keys} keys"
    if not there:
        raise UsageError(f"There is no {name} {value}: {extent}, counted from 0.")
    return value


def _bytes(array: np.ndarray, kind: str) -> bytes:
    return array.astype(kind).tobytes()


def _finite(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Replace NaN and infinity, which JSON does not have, by None."""
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value for name, value in plain.items()
    }
