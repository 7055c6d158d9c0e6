"""Files in requests: forms of several parts, and the bytes that all requests together may have."""

import asyncio
from typing import Any

import pytest
from starlette.requests import Request

from foveate.serve.service.admission import Limits
from foveate.serve.service.refused import RefusedError
from foveate.serve.service.upload import Freight, parts_of

TYPE = "multipart/form-data; boundary=a"


def part(name: str, content: bytes, more: str = "") -> bytes:
    return f'--a\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + content + b"\r\n"


def test_a_form_has_files_and_fields_in_their_order() -> None:
    file = b"\r\n--b\r\n\0\xff--a"
    content = part("run", b"asr") + part("file", file, '; filename="x"') + part("to", b"a") + part("to", "é".encode())
    upload = parts_of(content + b"--a--\r\n", TYPE, 2)
    assert upload.files == [file]
    assert upload.fields == {"run": ["asr"], "to": ["a", "é"]}
    assert (upload.one("to"), upload.one("none")) == ("é", None)
    with pytest.raises(RefusedError, match="no field 'to'"):
        upload.require_fields("run")


@pytest.mark.parametrize(
    ("content", "kind", "status", "words"),
    [
        (part("file", b"a"), TYPE, 400, "its end is missing"),
        (part("file", b"a")[:-3], TYPE, 400, "its end is missing"),
        (b"a=b&c=d", TYPE, 400, "not divided"),
        (b"", "multipart/form-data", 400, "no boundary"),
        (b"", TYPE + ";a=b" * 9_000, 400, "type is too long"),
        (b"--a\r\nX: " + b"y" * 9_000 + b"\r\n\r\n--a--", TYPE, 400, "not divided"),
        (b"--a\r\nX: y\r\n\r\nz\r\n--a--", TYPE, 400, "no name"),
        (part("run", b"\xff") + b"--a--", TYPE, 400, "UTF-8"),
        (part("file", b"") * 3 + b"--a--", TYPE, 422, "more than 2 files"),
        (part("run", b"") * 41 + b"--a--", TYPE, 422, "more than 40 parts"),
        (part("song", b"", '; filename="x"') + b"--a--", TYPE, 422, "part 'file'"),
    ],
)
def test_a_damaged_form_says_how(content: bytes, kind: str, status: int, words: str) -> None:
    with pytest.raises(RefusedError, match=words) as refusal:
        parts_of(content, kind, 2)
    assert refusal.value.status == status


def request(content: bytes, *, declared: int | None = None) -> Request:
    async def receive() -> Any:
        return {"type": "http.request", "body": content, "more_body": False}

    headers = [] if declared is None else [(b"content-length", str(declared).encode())]
    return Request({"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}, receive)


def test_files_count_until_they_are_answered_and_others_are_refused_meanwhile() -> None:
    freight = Freight(Limits(upload=60, freight=100))

    async def hold() -> None:
        async with freight.upload(request(b"a" * 60)) as upload:
            assert freight.held == len(upload.files[0]) == 60
            with pytest.raises(RefusedError, match="60 bytes") as busy:
                async with freight.body(request(b"a" * 41)):
                    pass
            assert (busy.value.status, busy.value.headers) == (429, {"retry-after": "1"})
            assert freight.held == 60
            async with freight.body(request(b"a" * 40)):
                assert freight.held == 100
        for long in (request(b"a" * 61), request(b"", declared=61)):
            with pytest.raises(RefusedError, match="at most 60 bytes") as large:
                async with freight.body(long):
                    pass
            assert large.value.status == 413

    asyncio.run(hold())
    assert freight.held == 0
