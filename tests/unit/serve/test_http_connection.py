"""Connections with deadlines: clients that send slowly, without end, or do not read."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from foveate.serve.service.admission import Limits
from foveate.serve.service.http_connection import LARGEST_HEAD, http_connection

LIMITS = Limits(arrival=0.2, timeout=0.3)
HEAD = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: "
LARGE = 1 << 23
"""Bytes that no socket keeps."""
LEFT: list[bytes] = []
"""The requests whose client was seen to leave."""


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the body: "wait" after a while, "large" at length, "hold" never."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message["body"], message["more_body"]
    if body == b"hold":
        assert (await receive())["type"] == "http.disconnect"
        LEFT.append(body)
        return
    if body == b"wait":
        await asyncio.sleep(0.5)
    body = b"x" * LARGE if body == b"large" else body
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, bytes]]


class Quiet(uvicorn.Server):
    @asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.config.load()
            self.lifespan = self.config.lifespan_class(self.config)
            await self.startup(sockets=[listener])
            yield listener.getsockname()[1]
            await self.shutdown(sockets=[listener])


def told(talk: Talk, application: ASGIApp = echo) -> bytes:
    """What the server tells a client that talks like this."""

    async def whole() -> bytes:
        connection = http_connection(LIMITS)
        server = Quiet(
            uvicorn.Config(application, http=connection, lifespan="off", log_level="error", timeout_graceful_shutdown=1)
        )
        async with server.listening() as port, asyncio.timeout(10):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2 * LARGE)
            try:
                return await talk(reader, writer)
            finally:
                writer.close()
                for _ in range(200):
                    if not server.server_state.connections:
                        break
                    await asyncio.sleep(0.01)
                assert not server.server_state.connections

    return asyncio.run(whole())


async def rest(reader: asyncio.StreamReader) -> bytes:
    """Everything until the server closes."""
    try:
        return await reader.read()
    except ConnectionError:
        return b"reset"


@pytest.mark.parametrize("beginning", [b"", b"POST / HT", HEAD + b"9\r\n\r\n", HEAD + b"9\r\n\r\nab", b"\r\n"])
def test_a_request_that_does_not_arrive_in_time_is_refused(beginning: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(beginning)
        return await rest(reader)

    answer = told(talk)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"0.2 seconds" in answer


def test_a_client_that_sends_byte_by_byte_does_not_win_time() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(HEAD + b"9999\r\n\r\n")
        reading = asyncio.ensure_future(rest(reader))
        while not reading.done():
            writer.write(b"a")
            await asyncio.sleep(0.01)
        return await reading

    assert told(talk)[:13] in (b"HTTP/1.1 408 ", b"reset")  # the latter where a byte met a closed connection


OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n"
"""What Java's client and `curl --http2` send."""


@pytest.mark.parametrize("cut", [0, 30, 130, 175, 180, 200])
def test_a_request_that_offers_another_protocol_keeps_its_body(cut: int) -> None:
    body = b"POST /other HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
    first = HEAD + b"%d\r\n" % len(body) + OFFER + b"\r\n" + body
    last = HEAD + b"4\r\nConnection: close\r\n\r\nlast"

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        sent = first + first + last
        for part in (sent[:cut], sent[cut:]):
            writer.write(part)
            await asyncio.sleep(0.02)
        return await rest(reader)

    answers = told(talk)
    assert answers.count(b"HTTP/1.1 200 OK") == 3, "the body is not a request of its own"
    assert answers.count(body) == 2
    assert answers.endswith(b"last")


def test_another_protocol_is_offered_again_and_again() -> None:
    many = 600

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write((HEAD + b"1\r\n" + OFFER + b"\r\na") * many)
        writer.write(HEAD + b"4\r\nConnection: close\r\n\r\nlast")
        return await rest(reader)

    assert told(talk).count(b"HTTP/1.1 200 OK") == many + 1


def test_a_tunnel_is_not_opened() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(b"CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n" + HEAD + b"1\r\n\r\na")
        answers = await reader.readuntil(b"\r\n\r\na")
        writer.write(b"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n" + HEAD + b"1\r\n\r\nb")
        return answers + await rest(reader)

    answers = told(talk)
    assert answers.startswith(
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na"
    )
    assert answers.count(b" 400 Bad Request") == 1


def test_a_header_has_an_end() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(b"GET / HTTP/1.1\r\n" + b"".join(b"x%d: y\r\n" % number for number in range(LARGEST_HEAD // 7)))
        return await rest(reader)

    assert told(talk)[:13] in (b"HTTP/1.1 431 ", b"reset")


@pytest.mark.parametrize("line", [b"a:\r\n", b"x-key: " + b"k" * 100 + b"\r\n"])
def test_trailers_have_an_end_too(line: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nword\r\n0\r\n")
        writer.write(line * (LARGEST_HEAD // len(line) + 200))
        return await rest(reader)

    assert b"431 Request Header Fields Too Large" in told(talk)


def test_trailers_do_not_become_headers() -> None:
    headers: list[list[bytes]] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["more_body"]:
            pass
        headers.append([name for name, _ in scope["headers"]])
        await echo(scope, receive_nothing, send)

    async def receive_nothing() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write((head + b"4\r\nword\r\n0\r\nAuthorization: x\r\n\r\n") * 2)
        return await reader.readuntil(b"content-length: 0\r\n\r\n") + await reader.readuntil(b"\r\n\r\n")

    assert told(talk, application).count(b"HTTP/1.1 200") == 2
    assert headers == [[b"host", b"transfer-encoding"]] * 2


def test_requests_that_wait_for_the_one_before_them_are_not_late() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(HEAD + b"4\r\n\r\nwait" + HEAD + b"1\r\n\r\na" + HEAD[:20])
        answers = await reader.readuntil(b"wait") + await reader.readuntil(b"a")
        writer.write(HEAD[20:] + b"1\r\nConnection: close\r\n\r\nb")
        return answers + await rest(reader)

    answers = told(talk)
    assert answers.count(b"HTTP/1.1 200 OK") == 3
    assert answers.endswith(b"b")


@pytest.mark.parametrize("beginning", [HEAD[:20], HEAD + b"9\r\n\r\n", HEAD + b"9\r\n\r\nab"])
def test_a_request_that_begins_in_one_piece_with_the_one_before_it_has_to_arrive_in_time_too(beginning: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(HEAD + b"1\r\n\r\na" + beginning)
        return await rest(reader)

    answers = told(talk)
    assert answers.startswith(b"HTTP/1.1 200 OK")
    assert b"HTTP/1.1 408 " in answers


def test_nothing_but_new_lines_does_not_keep_a_connection() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(HEAD + b"1\r\n\r\na")
        await reader.readuntil(b"a")
        writer.write(b"\r\n")
        return await rest(reader)

    assert told(talk).startswith(b"HTTP/1.1 408 ")


def test_a_client_that_does_not_read_is_cut_off() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        transport: Any = writer.transport
        transport.pause_reading()
        writer.write(HEAD + b"5\r\n\r\nlarge")
        await asyncio.sleep(0.6)
        transport.resume_reading()
        return await rest(reader)

    assert len(told(talk)) < LARGE


@pytest.mark.parametrize("later", [b"", HEAD + b"1\r\n\r\na", (HEAD + b"4\r\n\r\nhold") * 2])
def test_a_client_that_leaves_is_noticed_whatever_it_has_sent_after(later: bytes) -> None:
    LEFT.clear()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(HEAD + b"4\r\n\r\nhold" + later)
        await asyncio.sleep(0.1)
        writer.close()
        for _ in range(100):
            if LEFT:
                break
            await asyncio.sleep(0.01)
        return b""

    told(talk)
    assert LEFT == [b"hold"]
