"""The application: all interfaces, health, metrics and the page, behind one door."""

import asyncio
import json
import re
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from foveate import __version__
from foveate.errors import FoveateError
from foveate.serve.service import (
    hugging_face_shape,
    kserve,
    libre_translate,
    open_ai,
    open_ai_audio,
    open_inference,
    own_interface,
)
from foveate.serve.service.body import answer
from foveate.serve.service.desk import Desk
from foveate.serve.service.failure import described
from foveate.serve.service.keyring import Keyring
from foveate.serve.service.refused import RefusedError
from foveate.serve.service.spoken import CUT, LENGTH
from foveate.suggestion import did_you_mean

PAGE = Path(__file__).parent / "page"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "media-src blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
LOOK_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; img-src data: blob:; "
    "media-src data: blob:; worker-src blob:; connect-src data: blob:; frame-ancestors 'self'; base-uri 'none'; "
    "form-action 'none'; sandbox allow-scripts allow-downloads"
)
"""A page of the viewer has its scripts inside, loads nothing, and is a document of no origin."""
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}
UNKNOWN = "x-foveate-unknown"
"""The header that names what the model does not know."""
MOST_UNKNOWN, LONGEST_UNKNOWN = 8, 40
"""Words or characters in it, and the letters of a word."""
UNASKING = frozenset({"/detect", "/admin/reload"})
"""Paths for POST that ask no model."""
CODES = {400: "malformed", 404: "not_found", 405: "method_not_allowed", 413: "too_large"}


@dataclass(frozen=True)
class Door:
    """Who may knock: the names of this service in the header Host (none: any), and pages of other origins."""

    hosts: frozenset[str] | None
    origins: frozenset[str] = frozenset()


def application(desk: Desk, keys: Keyring, door: Door, log: Callable[[str], None] | None) -> "Gate":
    """The ASGI application. `log` receives a line for each request."""
    routes = [
        *libre_translate.routes(desk, keys),  # the first are found soonest
        *own_interface.routes(desk, keys),
        *kserve.routes(desk, keys),
        *open_ai.routes(desk, keys),
        *open_ai_audio.routes(desk, keys),
        *open_inference.routes(desk, keys),
        *hugging_face_shape.routes(desk, keys),
        *_own(desk, keys),
    ]
    handlers: dict[Any, Any] = {
        RefusedError: _refused,
        HTTPException: _http,
        ClientDisconnect: _left,
        Exception: _failed,
    }
    return Gate(Starlette(routes=routes, exception_handlers=handlers), desk, door, log)


def _own(desk: Desk, keys: Keyring) -> Iterable[Route]:
    async def live(request: Request) -> Response:
        return answer({"status": "ok"})

    async def ready(request: Request) -> Response:
        """A model has answered in a process that is alive now; before, and while the service closes, 503."""
        desk.require_ready()
        return answer({"status": "ok"})

    async def metrics(request: Request) -> Response:
        keys.require(request)
        return PlainTextResponse(desk.measure(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def look(request: Request) -> Response:
        page = desk.page(request.path_params["name"])
        return HTMLResponse(page, headers={"content-security-policy": LOOK_POLICY, "cache-control": "no-store"})

    async def reload(request: Request) -> Response:
        keys.require(request)
        if not _is_local(request):
            raise RefusedError(403, "Reload from the machine of the service, or send it SIGHUP.", "forbidden")
        try:
            await desk.pool.reload()
        except FoveateError as error:
            raise RefusedError(500, f"The runs were not loaded anew: {error}", "failed") from error
        return answer({"data": [open_ai.shown(card, card.name) for card in desk.pool.cards]})

    async def about(request: Request) -> Response:
        return answer(
            {
                "version": __version__,
                "keyRequired": keys.needed,
                "runs": [
                    {
                        "name": card.name,
                        "task": card.verb,
                        "languages": card.languages,
                        "directions": card.directions,
                        "reads": card.reads,
                    }
                    for card in desk.pool.cards
                ],
            }
        )

    def file(name: str, kind: str) -> Callable[[Request], Any]:
        content = (PAGE / name).read_bytes()

        async def endpoint(request: Request) -> Response:
            return Response(content, media_type=kind, headers={"cache-control": "no-cache"})

        return endpoint

    return [
        Route("/", file("index.html", "text/html"), name="page"),
        Route("/page.js", file("page.js", "text/javascript"), name="page"),
        Route("/words.js", file("words.js", "text/javascript"), name="page"),
        Route("/page.css", file("page.css", "text/css"), name="page"),
        Route("/about", about, name="about"),
        Route("/health", ready, name="health"),
        Route("/health/live", live, name="health"),
        Route("/health/ready", ready, name="health"),
        Route("/metrics", metrics, name="metrics"),
        Route("/look/{name}", look, name="look"),
        Route("/admin/reload", reload, methods=["POST"], name="reload"),
    ]


class Gate:
    """Checks Host and Origin, refuses what a full service cannot answer, adds headers, gives each request a number,
    counts it and logs it without its text.
    """

    def __init__(self, app: Starlette, desk: Desk, door: Door, log: Callable[[str], None] | None) -> None:
        self.app, self.desk, self.door, self.log = app, desk, door, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        started, status, number = time.perf_counter(), 500, secrets.token_hex(8)
        scope.setdefault("state", {}).update(number=number, desk=self.desk)
        request = Request(scope)
        origin = request.headers.get("origin")

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = {**HEADERS, "x-request-id": number}
                if unknown := scope["state"].get("unknown"):
                    own[UNKNOWN] = listed(list(unknown))
                names = {name.lower() for name, _ in message["headers"]}
                if b"content-security-policy" not in names:
                    own["content-security-policy"] = POLICY
                if origin in self.door.origins:
                    own |= {"access-control-allow-origin": origin, "vary": "Origin"}
                    own["access-control-expose-headers"] = f"x-request-id, {UNKNOWN}, {LENGTH}, {CUT}"
                    own["cross-origin-resource-policy"] = "cross-origin"
                extra = [(name.encode(), value.encode()) for name, value in own.items()]
                message = {**message, "headers": [*message["headers"], *extra]}
            async with asyncio.timeout(self.desk.limits.timeout):  # a client that does not read is left
                await send(message)

        refusal = self._refusal(request)
        app: ASGIApp = self.app if refusal is None else refusal
        try:
            await app(scope, receive, sent)
        except Exception as error:  # Starlette has answered 500, and raises again
            if self.log is not None:
                self.log(json.dumps({"id": number, "error": described(error)}))
        route = getattr(scope.get("route"), "name", None) or "none"
        seconds = time.perf_counter() - started
        self.desk.counters.requests.labels(route, str(status)).inc()
        self.desk.counters.seconds.labels(route).observe(seconds)
        if self.log is not None:
            self.log(_line(request, route, status, seconds, number))

    def _refusal(self, request: Request) -> Response | None:
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
        if self.door.hosts is not None and name not in self.door.hosts:
            names = ", ".join(sorted(self.door.hosts))
            return answer({"error": f"The request is for another host, and this service answers to {names} only."}, 421)
        known = origin is None or origin in self.door.origins or origin.partition("//")[2] == host
        if not known:
            return answer({"error": "Pages of this origin may not ask. Allow it by --allow-origin."}, 403)
        if request.method == "OPTIONS" and origin in self.door.origins:
            headers = request.headers.get("access-control-request-headers", "")  # OpenAI's client has some of its own
            allowed = {"access-control-allow-methods": "GET, POST", "access-control-allow-headers": headers}
            return Response(status_code=204, headers=allowed)
        if self._is_full_for(request):  # unread: the more are refused, the less each of them may cost
            refused = self.desk.admission.busy()
            _count(request, refused.code)
            return shown(request, refused)
        return None

    def _is_full_for(self, request: Request) -> bool:
        asks = request.method == "POST" and request.scope["path"] not in UNASKING
        return asks and self.desk.admission.is_full and not self.desk.draining


def listed(unknown: Sequence[str]) -> str:
    """Words or characters as a header has them: in the escapes of addresses, the first few, and how many others.

    >>> listed(["🙂", "naïve"]), listed(["a"] * 10)
    ('%F0%9F%99%82,na%C3%AFve', 'a,a,a,a,a,a,a,a,+2')
    """
    short = (word if len(word) <= LONGEST_UNKNOWN else f"{word[:LONGEST_UNKNOWN]}…" for word in unknown[:MOST_UNKNOWN])
    more = [f"+{len(unknown) - MOST_UNKNOWN}"] if len(unknown) > MOST_UNKNOWN else []
    return ",".join([*(quote(word, safe="") for word in short), *more])


def shown(request: Request, refused: RefusedError) -> Response:
    """A refusal in the shape of the interface that was asked."""
    path = request.scope["path"]
    openai = path.startswith(open_ai.PREFIXES) and not path.endswith((":predict", ":explain"))
    body = open_ai.error(refused) if openai else {"error": refused.reason}
    return answer(body, refused.status, refused.headers)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    _count(request, error.code)
    return shown(request, error)


async def _failed(request: Request, error: Exception) -> Response:
    number = request.scope.get("state", {}).get("number", "")
    return shown(
        request, RefusedError(500, f"The service failed. The log says why, at the request {number}.", "failed")
    )


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    reason = error.detail
    if error.status_code == 404:
        paths = [re.sub(r"\{.*?\}", "NAME", route.path) for route in request.app.routes]
        reason = f"There is no such path.{did_you_mean(request.scope['path'], paths)}"
    elif error.status_code == 405:
        reason = f"This path is for {' and '.join(sorted((error.headers or {}).get('Allow', '').split(', ')))}."
    code = CODES.get(error.status_code, "failed")
    return shown(request, RefusedError(error.status_code, reason, code, error.headers))


async def _left(request: Request, error: Exception) -> Response:
    return answer({"error": "The client has left."}, 499)


def _count(request: Request, code: str) -> None:
    desk = request.scope.get("state", {}).get("desk")
    if desk is not None:
        desk.counters.refusals.labels(code).inc()


def _is_local(request: Request) -> bool:
    return request.client is not None and request.client.host in ("127.0.0.1", "::1")


def _line(request: Request, route: str, status: int, seconds: float, number: str) -> str:
    """One line of the log: never a text, an address, a query string or a key."""
    line: dict[str, Any] = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + "Z",
        "id": number,
        "method": request.method if request.method.isalpha() else "other",
        "route": route,
        "status": status,
        "ms": round(1000 * seconds, 1),
    }
    parent = request.headers.get("traceparent", "")
    if parent.isascii() and 0 < len(parent) <= 64:
        line["traceparent"] = parent
    return json.dumps(line)


def printed(line: str) -> None:
    """Print a line of the log."""
    print(line, file=sys.stderr, flush=True)
