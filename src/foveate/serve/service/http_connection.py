"""Connections of HTTP with deadlines: a client that sends or reads too slowly does not keep its place."""

import asyncio
from typing import Any

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from foveate.serve.service.admission import Limits

LARGEST_HEAD = 65_536
"""Bytes of a request before its body."""
REASONS = {408: "Request Timeout", 431: "Request Header Fields Too Large"}


def http_connection(limits: Limits) -> type[asyncio.Protocol]:
    """uvicorn's connection with these limits."""

    class HttpConnection(HttpToolsProtocol):
        """uvicorn waits without end for the rest of a request, and for a client that does not read. It loses the body
        of a request that offers another protocol, and reads what comes later of it as the next request. When a
        client that has sent several requests leaves, it goes on with all but the last.
        """

        _late: asyncio.TimerHandle | None = None
        _stuck: asyncio.TimerHandle | None = None
        _head = 0
        """Bytes of the header until now, and then of what follows the body."""
        _in_body = False
        _answering: RequestResponseCycle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._expect()

        def data_received(self, data: bytes) -> None:
            if self._late is None:
                self._expect()
            if not self._in_body:
                self._head += len(data)
            self._unset_keepalive_if_required()
            self._parse(data)
            if self._head > LARGEST_HEAD:
                self._refuse(431, f"The header of a request has at most {LARGEST_HEAD:,} bytes.")

        def _parse(self, data: bytes) -> None:
            while True:
                try:
                    return self.parser.feed_data(data)
                except httptools.HttpParserUpgrade as error:
                    again = self._without_offer() if self._offers() else b""  # CONNECT was answered, without a tunnel
                    data = again + data[error.args[0] :]
                    self.parser = httptools.HttpRequestParser(self)
                except httptools.HttpParserError:
                    return self.send_400_response("Invalid HTTP request received.")

        def _offers(self) -> bool:
            """Whether the header offers another protocol (Upgrade), which a server may ignore: RFC 9110, 7.8. Java's
            client offers HTTP/2.
            """
            return self.parser.should_upgrade() and any(name == b"upgrade" for name, _ in self.headers)

        def _without_offer(self) -> bytes:
            """The header as if no other protocol were offered."""
            version = self.parser.get_http_version().encode()
            lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, version)]
            lines += [b"%s: %s" % (name, value) for name, value in self.headers if name != b"upgrade"]
            return b"\r\n".join(lines) + b"\r\n\r\n"

        def on_message_begin(self) -> None:
            if self._late is None:  # it may have begun in one piece with the end of the request before
                self._expect()
            super().on_message_begin()

        def on_header(self, name: bytes, value: bytes) -> None:
            if not self._in_body:
                super().on_header(name, value)
            else:  # uvicorn would add a trailer to the header: RFC 9110, 6.5.1, forbids it
                self._head += len(name) + len(value) + len(b":\r\n")

        def on_headers_complete(self) -> None:
            if self._offers():
                return
            self._in_body, self._head = True, 0
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            if self._offers():
                return
            self._in_body, self._head = False, 0
            self._forget()
            super().on_message_complete()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._stuck = self.loop.call_later(limits.timeout, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self._stuck is not None:
                self._stuck.cancel()

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget()
            if self._stuck is not None:
                self._stuck.cancel()
            if self._answering is not None and not self._answering.response_complete:  # uvicorn tells the newest alone
                self._answering.disconnected = True
                self._answering.message_event.set()
            self.pipeline.clear()
            super().connection_lost(exc)

        def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
            self._answering = cycle
            super()._start_asgi_task(cycle, app)

        def _expect(self) -> None:
            """A request has to arrive in time from now on."""
            self._late = self.loop.call_later(limits.arrival, self._overdue)

        def _forget(self) -> None:
            if self._late is not None:
                self._late.cancel()
                self._late = None

        def _overdue(self) -> None:
            if self._answers_another():
                self._expect()
            else:
                self._refuse(408, f"A request has to arrive whole within {limits.arrival:g} seconds.")

        def _answers_another(self) -> bool:
            """Whether an earlier request on this connection has no answer yet, so that nothing more may be read."""
            if self._in_body:
                return bool(self.pipeline)
            return self.cycle is not None and not self.cycle.response_complete

        def _refuse(self, status: int, reason: str) -> None:
            """Say why, unless another answer has begun, and close."""
            if self.transport.is_closing():
                return
            if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
                body = msgspec.json.encode({"error": reason})
                head = f"HTTP/1.1 {status} {REASONS[status]}\r\ncontent-type: application/json\r\n"
                self.transport.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
            self.transport.close()

    return HttpConnection
