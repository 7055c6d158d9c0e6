"""Access control: only pages from this server, on this machine, with the token of this run."""

import hmac

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "worker-src 'self' blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}
LARGEST = 1_000_000
"""The maximum size of a request's body in bytes."""
LONGEST = 1_000
"""The most characters of an address, whose parts are numbers and names of files."""


class Guard:
    """Checks Host against DNS rebinding, Origin against other pages, and the token in the path in constant time.

    Every response has a strict content security policy.
    """

    def __init__(self, app: ASGIApp, *, token: str, hosts: frozenset[str]) -> None:
        self.app, self.token, self.hosts = app, token, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [(name, value) for name, value in message["headers"] if name.decode().lower() != "server"]
                extra = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*headers, *extra]}
            await send(message)

        refusal = self._refusal(Request(scope))
        await (self.app if refusal is None else refusal)(scope, receive, guarded)

    def _refusal(self, request: Request) -> PlainTextResponse | None:
        host = request.headers.get("host", "")
        if host not in self.hosts:
            return PlainTextResponse("This server answers to its own address only.", 421)
        origin = request.headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return PlainTextResponse("Another page may not ask this server.", 403)
        if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            return PlainTextResponse("Another page may not ask this server.", 403)
        parts = request.url.path.split("/", 3)
        token = parts[2] if len(parts) > 2 and parts[1] == "t" else ""
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            return PlainTextResponse("The address lacks the token that was printed with it.", 404)
        if len(request.url.path) > LONGEST:
            return PlainTextResponse(f"An address can have at most {LONGEST:,} characters.", 414)
        if int(request.headers.get("content-length") or 0) > LARGEST:
            return PlainTextResponse(f"A request can have at most {LARGEST:,} bytes.", 413)
        return None
