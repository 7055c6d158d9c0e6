"""The routes of the server: the viewer's files, and the provider's methods as paths under `t/TOKEN/`."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import asdict
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from foveate.config import parse_json
from foveate.errors import FoveateError, UsageError
from foveate.inspect import TraceProvider, steps
from foveate.inspect.tile import CancelledError
from foveate.inspect.tile.provider import Cancelled, Level
from foveate.inspect.trace.html import numbers, static_folder
from foveate.serve.guard import LARGEST, Guard
from foveate.serve.session import Session

Answer = TypeVar("Answer")
FILES = {"": "index.html", "index.html": "index.html", "viewer.css": "viewer.css", "viewer.js": "viewer.js"}
FILES["worker.js"] = "worker.js"
SMALL = 1 << 24
"""The number of weights of a site up to which its statistics are exact at once."""
WATCH = 0.1
"""Seconds between two checks whether the client is still connected."""


def application(session: Session, *, token: str, port: int) -> Starlette:
    """The server of one session, at 127.0.0.1:`port` only."""
    hosts = frozenset(f"{host}:{port}" for host in ("127.0.0.1", "localhost"))
    api = _Endpoints(session)
    paths: dict[str, Callable[..., Any]] = {
        "trace": api.trace,
        "tile/{site:int}/{head:int}/{level}/{row:int}/{column:int}": api.tile,
        "row/{site:int}/{head:int}/{query:int}": api.row,
        "value/{site:int}/{head:int}/{query:int}/{key:int}": api.value,
        "counts/{site:int}/{head:int}": api.counts,
        "statistics/{site:int}": api.statistics,
        "overview/{site:int}/{head:int}": api.overview,
        "steps/{site:int}/{head:int}/{query:int}": api.steps,
        "numbers/{site:int}": api.numbers,
    }
    base = f"/t/{token}/"
    routes = [Route(f"{base}api/{path}", endpoint) for path, endpoint in paths.items()]
    routes.append(Route(f"{base}api/rerun", api.rerun, methods=["POST"]))
    routes.append(Route(f"{base}api/ablate", api.ablate, methods=["POST"]))
    routes.append(Route(f"{base}{{name}}", _file))
    routes.append(Route(base, _file))
    guard = Middleware(Guard, token=token, hosts=hosts)
    return Starlette(routes=routes, middleware=[guard], exception_handlers={FoveateError: _refused})


async def _file(request: Request) -> Response:
    name = request.path_params.get("name", "")
    path = static_folder() / FILES.get(name, "-")
    if name not in FILES:
        return PlainTextResponse("This page does not exist.", 404)
    if not path.exists():
        return PlainTextResponse("The viewer is not built: run `npm ci && npm run build` in viewer/.", 503)
    return FileResponse(path, headers={"cache-control": "no-cache"})


async def _refused(request: Request, error: Exception) -> Response:
    return PlainTextResponse(str(error), 400)


class _Endpoints:
    """One method for each route; `?trace=` names the trace of a rerun."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.running = asyncio.Lock()

    async def trace(self, request: Request) -> Response:
        return JSONResponse(self.session.meta(request.query_params.get("trace")))

    async def tile(self, request: Request) -> Response:
        provider, site, head = self._place(request)
        parts, pool = request.path_params, request.query_params.get("pool", "peak")
        level = _level(parts["level"])
        place: tuple[Any, ...] = (site, head, level, parts["row"], parts["column"], pool)
        quick = request.query_params.get("estimate") == "1" and isinstance(level, int) and level >= 5
        if quick and not provider.is_built(site, head):
            return _numbers(await run_in_threadpool(provider.estimate, *place), "<u2", estimate=True)
        codes = await _waited(request, lambda cancelled: provider.tile(*place, cancelled=cancelled))
        return _numbers(codes, "<u2")

    async def row(self, request: Request) -> Response:
        provider, site, head = self._place(request)
        query = _within("query", request.path_params["query"], provider.trace.sites[site].queries)
        return _numbers(await run_in_threadpool(provider.row, site, head, query), "<f4")

    async def value(self, request: Request) -> Response:
        provider, site, head = self._place(request)
        here = provider.trace.sites[site]
        query = _within("query", request.path_params["query"], here.queries)
        key = _within("key", request.path_params["key"], here.keys)
        cell = await run_in_threadpool(provider.value, site, head, query, key)
        return JSONResponse(_finite(asdict(cell)))

    async def counts(self, request: Request) -> Response:
        provider, site, head = self._place(request)
        return _numbers(await run_in_threadpool(provider.counts, site, head), "<u4")

    async def statistics(self, request: Request) -> Response:
        provider, site, _ = self._place(request)
        here = provider.trace.sites[site]
        small = here.queries * here.keys * here.heads <= SMALL
        exact = small or all(provider.is_built(site, head) for head in range(here.heads))
        if exact or request.query_params.get("wait") == "1":
            heads = await _waited(request, lambda cancelled: provider.statistics(site, cancelled=cancelled))
        else:
            heads = await run_in_threadpool(provider.estimated, site)
        answer: dict[str, Any] = {
            "heads": [each.means() for each in heads],
            "behaviours": [each.behaviour for each in heads],
            "estimate": not exact,
        }
        if "head" in request.query_params:
            one = heads[_within("head", _number(request.query_params["head"]), here.heads)]
            answer["rows"] = {name: _finite(row.tolist()) for name, row in one.rows.items()}
            answer["keys"] = {"received": _finite(one.received.tolist())}
        return JSONResponse(answer)

    async def overview(self, request: Request) -> Response:
        provider, site, head = self._place(request)
        here = provider.trace.sites[site]
        built = provider.is_built(site, head) or max(here.queries, here.keys) <= 64 << 4
        return _numbers(await run_in_threadpool(provider.overview, site, head), "<u2", estimate=not built)

    async def steps(self, request: Request) -> Response:
        provider, site, head = self._place(request)
        query = request.path_params["query"]
        lines = await run_in_threadpool(steps, provider.trace, site, head, query)
        return JSONResponse([step.header() for step in lines])

    async def numbers(self, request: Request) -> Response:
        provider, site, _ = self._place(request)
        content = await run_in_threadpool(numbers, provider.trace, site)
        return Response(content, media_type="application/octet-stream", headers={"cache-control": "no-store"})

    async def rerun(self, request: Request) -> Response:
        arguments = _rerun(await _body(request))
        async with self.running:  # switching heads off changes the model while it runs
            return JSONResponse(await run_in_threadpool(self.session.rerun, *arguments))

    async def ablate(self, request: Request) -> Response:
        body = await _body(request)
        heads, tokens = _switches(body)
        site, head = body.get("site"), body.get("head")
        if not isinstance(site, int) or not _whole([site] if head is None else [site, head]):
            raise UsageError('Switches need {"site": number, "head": number or null} of the weights to show.')
        async with self.running:
            return JSONResponse(await run_in_threadpool(self.session.ablate, heads, tokens, site, head))

    def _place(self, request: Request) -> tuple[TraceProvider, int, int]:
        provider = self.session.provider(request.query_params.get("trace"))
        site = _within("site", request.path_params["site"], len(provider.trace.sites))
        head = _within("head", request.path_params.get("head", 0), provider.trace.sites[site].heads)
        return provider, site, head


async def _waited(request: Request, work: Callable[[Cancelled], Answer]) -> Answer:
    """Do work in a thread, which stops if the client disconnects."""
    disconnected = threading.Event()
    task = asyncio.ensure_future(run_in_threadpool(work, disconnected.is_set))
    while not (await asyncio.wait({task}, timeout=WATCH))[0]:
        if await request.is_disconnected():
            disconnected.set()
    try:
        return task.result()
    except CancelledError:
        raise UsageError("The request was cancelled.") from None


async def _body(request: Request) -> dict[str, Any]:
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > LARGEST:
            raise UsageError(f"A request can have at most {LARGEST:,} bytes.")
    try:
        body = parse_json(bytes(content))
    except ValueError as error:
        raise UsageError(f"The request is not JSON: {error}.") from error
    if not isinstance(body, dict):
        raise UsageError("The request must be a mapping in JSON.")
    return body


def _rerun(body: dict[str, Any]) -> tuple[str, str | None, list[tuple[int, int]], list[int]]:
    """The four parts of a rerun; raises UsageError for anything else."""
    source, target = body.get("source"), body.get("target")
    if not isinstance(source, str) or not (target is None or isinstance(target, str)):
        raise UsageError('A rerun needs {"source": text, "target": text or null} and its switches.')
    return source, target, *_switches(body)


def _switches(body: dict[str, Any]) -> tuple[list[tuple[int, int]], list[int]]:
    """The heads and tokens to switch off; raises UsageError for anything else."""
    heads, tokens = body.get("heads_off") or [], body.get("tokens_off") or []
    well = isinstance(heads, list) and isinstance(tokens, list) and all(isinstance(pair, list) for pair in heads)
    if not well or any(len(pair) != 2 for pair in heads) or not _whole([*tokens, *chain(*heads)]):
        raise UsageError('Switches are {"heads_off": [[site, head], …], "tokens_off": [position, …]}.')
    return [(site, head) for site, head in heads], tokens


def _whole(numbers: list[Any]) -> bool:
    return all(isinstance(number, int) and not isinstance(number, bool) and number >= 0 for number in numbers)


def _level(text: str) -> Level:
    if text == "word":
        return "word"
    return "sentence" if text == "sentence" else _number(text)


def _number(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise UsageError(f"{text!r} is not a number.")
    return int(text)


def _within(what: str, number: int, count: int) -> int:
    if not 0 <= number < count:
        raise UsageError(f"There is no {what} {number}: there are {count}, counted from 0.")
    return number


def _finite(value: Any) -> Any:
    """A value with None instead of NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _numbers(array: np.ndarray, kind: str, *, estimate: bool = False) -> Response:
    headers = {"cache-control": "no-store", "x-foveate-estimate": "1" if estimate else "0"}
    return Response(array.astype(kind).tobytes(), media_type="application/octet-stream", headers=headers)
