"""A client of HTTP that costs little itself: many connections that stay open, in one thread of asyncio."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Response:
    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class LostError(Exception):
    """The connection was closed before there was an answer."""


class Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[Response] | None = None
        self.transport: Any = None
        self.open = True
        self._content, self._headless = b"", False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def send(self, content: bytes) -> "asyncio.Future[Response]":
        self._content, self._headless = b"", content.startswith(b"HEAD ")
        self.answer = asyncio.get_running_loop().create_future()
        self.transport.write(content)
        return self.answer

    def data_received(self, data: bytes) -> None:
        self._content += data
        head, end, body = self._content.partition(b"\r\n\r\n")
        if not end or self.answer is None or self.answer.done():
            return
        head = head.lower()
        length = _field(head, b"content-length")
        if length is not None:
            complete = len(body) >= int(length)
        elif _field(head, b"transfer-encoding") == b"chunked":
            complete = body.endswith(b"0\r\n\r\n")
        else:
            complete = False  # until the connection is closed
        status = int(head[9:12])
        if status < 200:  # the answer follows
            self._content = b""
            self.data_received(body)
        elif complete or self._headless or status in (204, 304):
            if _field(head, b"connection") == b"close":
                self.close()
            self.answer.set_result(Response(status, body))

    def connection_lost(self, error: Exception | None) -> None:
        self.open = False
        if self.answer is not None and not self.answer.done():
            head, end, body = self._content.partition(b"\r\n\r\n")
            if end and _field(head.lower(), b"content-length") is None:
                self.answer.set_result(Response(int(head[9:12]), body))
            else:
                self.answer.set_exception(LostError("The connection was closed before there was an answer."))

    def close(self) -> None:
        self.open = False
        self.transport.close()


class Client:
    """Asks a server by as many connections as there are requests at a time."""

    def __init__(self, address: str) -> None:
        self.host, port = address.removeprefix("http://").split(":")
        self.port = int(port)
        self._idle: list[Connection] = []

    async def ask(self, content: bytes) -> Response:
        """The answer to a request. Raises LostError where the connection ends without one."""
        while self._idle:
            connection = self._idle.pop()
            if connection.open:
                break
        else:
            _, connection = await asyncio.get_running_loop().create_connection(Connection, self.host, self.port)
        try:
            response = await connection.send(content)
        except BaseException:
            connection.close()
            raise
        if connection.open:
            self._idle.append(connection)
        return response

    def posted(self, path: str, **fields: Any) -> bytes:
        """A request with JSON."""
        body = json.dumps(fields).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {self.host}\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def got(self, path: str) -> bytes:
        return f"GET {path} HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode()

    def close(self) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()


def _field(head: bytes, name: bytes) -> bytes | None:
    """The value of a field in a head of small letters."""
    place = head.find(b"\r\n" + name + b":")
    return None if place < 0 else head[place + len(name) + 3 :].partition(b"\r\n")[0].strip()
