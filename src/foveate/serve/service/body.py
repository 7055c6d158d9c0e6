"""Reading and writing of bodies: JSON of a known shape, forms, query strings."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from foveate.serve.service.refused import RefusedError, invalid

Shape = TypeVar("Shape")
MOST_FIELDS = 1000
"""The most fields of a form or a query string, where a text may come many times."""
FORM = "application/x-www-form-urlencoded"
PARTS = "multipart/form-data"


async def body_of(
    request: Request, most: int, *, take: Callable[[int], None] | None = None, refusal: RefusedError | None = None
) -> bytes:
    """The body of a request. Raises RefusedError (413, or the `refusal`) as soon as it is too long, and (415) if it is
    compressed. `take` is told the bytes of each piece.
    """
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise RefusedError(415, "A compressed request is not read. Send it without Content-Encoding.", "compressed")
    content = bytearray()
    async for chunk in request.stream():
        if take is not None:
            take(len(chunk))
        content += chunk
        if len(content) > most:
            raise refusal or RefusedError(
                413, f"A request has at most {most:,} bytes. Send fewer texts at once.", "too_large"
            )
    return bytes(content)


async def read(request: Request, shape: type[Shape], most: int) -> Shape:
    """A body of JSON as `shape`. Raises RefusedError for another one (400: not JSON, 422: of another shape)."""
    return decoded(await body_of(request, most), shape)


def decoded(content: bytes, shape: type[Shape]) -> Shape:
    """JSON as `shape`."""
    try:
        return msgspec.json.decode(content, type=shape)
    except msgspec.ValidationError as error:
        raise invalid(f"The request has another shape: {error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RefusedError(400, f"The request is not JSON in UTF-8: {error}.", "malformed") from None


async def fields(request: Request, most: int) -> dict[str, Any]:
    """The fields of a request whose clients send JSON, a form, or a query string; those of the body count."""
    content = await body_of(request, most)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    values = _pairs(_text(request.scope["query_string"]))
    if kind == PARTS:
        raise RefusedError(415, f"A form of several parts ({PARTS}) is not read. Send JSON, or {FORM}.", "multipart")
    if kind == FORM and not content.lstrip().startswith(b"{"):  # curl -d says that JSON is a form
        values |= _pairs(_text(content))
    elif content:
        values |= decoded(content, dict)
    return values


def shaped(values: Mapping[str, Any], shape: type[Shape]) -> Shape:
    """Fields as `shape`; numbers may be texts, as forms have them."""
    try:
        return msgspec.convert(values, shape, strict=False)
    except msgspec.ValidationError as error:
        raise invalid(f"The request has another shape: {error}.") from None


def answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A value as JSON."""
    return Response(msgspec.json.encode(value), status, headers=headers, media_type="application/json")


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise RefusedError(400, f"The form is not in UTF-8: {error}.", "malformed") from None


def _pairs(text: str) -> dict[str, Any]:
    """The fields of a form; one that occurs several times is a list."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError as error:
        raise RefusedError(400, f"The form cannot be read: {error}.", "malformed") from None
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name not in values:
            values[name] = value
        elif isinstance(values[name], list):
            values[name].append(value)
        else:
            values[name] = [values[name], value]
    return values
