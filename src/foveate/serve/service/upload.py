"""Files in requests: a body that is a file, or a form of several parts with files among them."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from foveate.serve.service.admission import Limits
from foveate.serve.service.body import PARTS, body_of
from foveate.serve.service.refused import RefusedError, invalid
from foveate.suggestion import did_you_mean

JSON = "application/json"
FILE = "file"
"""The name of the part of a form that is a file."""
logging.getLogger("python_multipart").addHandler(logging.NullHandler())  # the log of the service is JSON alone
MOST_PARTS = 40
LONGEST_TYPE = 8_192
"""Bytes of the type of a form."""


@dataclass
class Upload:
    """The files of a request and its other fields, each with its values in order."""

    files: list[bytes] = field(default_factory=list)
    fields: dict[str, list[str]] = field(default_factory=dict)

    def one(self, name: str) -> str | None:
        """The value of a field, the last one if there are several."""
        return self.fields.get(name, [None])[-1]

    def require_fields(self, *known: str) -> None:
        """Raises RefusedError (422) for a field that does not exist."""
        for name in self.fields:
            if name not in known:
                guess = did_you_mean(name, known)
                raise invalid(f"There is no field {name!r}.{guess} Known: {', '.join((FILE, *known))}.")


class Freight:
    """Counts the bytes of the files that are being sent, wait or are answered."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.held = limits, 0

    @asynccontextmanager
    async def body(self, request: Request, most: int | None = None) -> AsyncIterator[bytes]:
        """The body of a request with files, which counts until the end of the context. Raises RefusedError: 413 for
        more than `most` bytes, 429 where all requests together have too many.
        """
        most, own = self.limits.upload if most is None else most, 0

        def take(size: int) -> None:
            nonlocal own
            if self.held + size > self.limits.freight:
                raise RefusedError(
                    429,
                    f"The service is busy: other requests have files of {self.held:,} bytes. Try again later.",
                    "overloaded",
                    {"retry-after": "1"},
                )
            own += size
            self.held += size

        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and len(declared) < 20 and int(declared) > most:
            raise too_large(most)
        try:
            yield await body_of(request, most, take=take, refusal=too_large(most))
        finally:
            self.held -= own

    @asynccontextmanager
    async def upload(self, request: Request) -> AsyncIterator[Upload]:
        """The files of a request: the parts `file` of a form, or the body itself. The fields are the others of the
        form, and those of the query string.
        """
        async with self.body(request) as content:
            if type_of(request) == PARTS:
                # In a thread: a form that somebody has made up may take long.
                kind = request.headers["content-type"]
                upload = await asyncio.to_thread(parts_of, content, kind, self.limits.files)
            else:
                upload = Upload([content])
            query = request.scope["query_string"].decode("latin-1")
            try:
                for name, value in parse_qsl(query, keep_blank_values=True, max_num_fields=20, errors="strict"):
                    upload.fields.setdefault(name, [value])
            except ValueError as error:
                raise RefusedError(400, f"The query string cannot be read: {error}.", "malformed") from None
            if not upload.files:
                raise invalid(f"The form has no file. Send one as its part {FILE!r}: curl -F {FILE}=@NAME.")
            yield upload


def type_of(request: Request) -> str:
    """The type of a body, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def too_large(most: int) -> RefusedError:
    return RefusedError(
        413,
        f"A request with files has at most {most:,} bytes. Send a shorter or smaller file, or fewer at once.",
        "too_large",
    )


def parts_of(content: bytes, kind: str, most: int) -> Upload:
    """The parts of a form, by the boundary in its type. Raises RefusedError: 400 for a form that is damaged, 422 for
    more than `most` files, and for another file than the part `file`.
    """
    if len(kind) > LONGEST_TYPE:
        raise _damaged("its type is too long")
    boundary = parse_options_header(kind)[1].get(b"boundary")
    if not boundary:
        raise _damaged("it has no boundary")
    form = _Form(most)
    try:
        parser = MultipartParser(boundary, form.callbacks())
        parser.write(content)
        parser.finalize()
    except FormParserError:
        raise _damaged("it is not divided as its boundary says") from None
    if not form.ended:
        raise _damaged("its end is missing")
    return form.upload


class _Form:
    """Collects the parts of a form."""

    def __init__(self, most: int) -> None:
        self.upload, self.most, self.ended = Upload(), most, False
        self._parts = 0

    def callbacks(self) -> Any:
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._to_name,
            "on_header_value": self._to_value,
            "on_header_end": self._end_header,
            "on_part_data": self._to_data,
            "on_part_end": self._end,
            "on_end": self._finish,
        }

    def _begin(self) -> None:
        self._name, self._value, self._data = bytearray(), bytearray(), bytearray()
        self._disposition = b""
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise invalid(f"The form has more than {MOST_PARTS} parts. Send fewer.")

    def _to_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _to_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        if bytes(self._name).lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._name.clear()
        self._value.clear()

    def _to_data(self, data: bytes, start: int, end: int) -> None:
        self._data += data[start:end]

    def _end(self) -> None:
        _, options = parse_options_header(self._disposition)
        try:
            name = options.get(b"name", b"").decode()
            if not name:
                raise _damaged("a part has no name")
            if name == FILE:
                self.upload.files.append(bytes(self._data))
                if len(self.upload.files) > self.most:
                    raise invalid(f"The form has more than {self.most} files. Send fewer at once.")
            elif b"filename" in options:
                raise invalid(f"The form has a file as its part {name!r:.40}. Send it as the part {FILE!r}.")
            else:
                self.upload.fields.setdefault(name, []).append(self._data.decode())
        except UnicodeDecodeError:
            raise _damaged("a name or a field is not in UTF-8") from None
        self._data.clear()

    def _finish(self) -> None:
        self.ended = True


def _damaged(why: str) -> RefusedError:
    return RefusedError(400, f"The form of several parts is damaged: {why}.", "malformed")
