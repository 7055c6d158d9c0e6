"""Reads and changes the table of pieces in a SentencePiece model, without the package protobuf."""

from collections.abc import Collection, Iterator

PIECES, KIND = 1, 3
"""Numbers of fields: the pieces of a model, the kind of a piece (sentencepiece_model.proto)."""
UNUSED = bytes([KIND << 3, 5])
"""The kind of a piece that SentencePiece splits into those it was merged from."""
NUMBER, EIGHT_BYTES, SIZED, FOUR_BYTES = 0, 1, 2, 5
"""Kinds of fields in the encoding of protocol buffers."""


def without_pieces(model: bytes, ids: Collection[int]) -> bytes:
    """The model with the same ids, in which texts are spelt without the pieces of `ids`.

    Raises ValueError for bytes that cannot be read as a message of protocol buffers.
    """
    parts, piece = [], 0
    for number, field, body in _fields(model):
        if number == PIECES:
            if piece in ids:
                other = b"".join(part for inner, part, _ in _fields(body) if inner != KIND) + UNUSED
                field = bytes([PIECES << 3 | SIZED]) + _varint(len(other)) + other
            piece += 1
        parts.append(field)
    return b"".join(parts)


def _fields(message: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """The number, the whole and the content of each field."""
    start = 0
    while start < len(message):
        key, end = _read_varint(message, start)
        kind, body = key & 7, end
        if kind == NUMBER:
            _, end = _read_varint(message, end)
        elif kind == SIZED:
            size, body = _read_varint(message, end)
            end = body + size
        elif kind in (EIGHT_BYTES, FOUR_BYTES):
            end += 8 if kind == EIGHT_BYTES else 4
        else:
            raise ValueError(f"byte {start} begins a field of the unknown kind {kind}")
        if end > len(message):
            raise ValueError(f"the field that begins at byte {start} ends behind byte {len(message)}, the last")
        yield key >> 3, message[start:end], message[body:end]
        start = end


def _read_varint(message: bytes, start: int) -> tuple[int, int]:
    """A number whose bytes have seven digits each, the lowest first, and the place behind it."""
    value = shift = 0
    for place in range(start, len(message)):
        value |= (message[place] & 127) << shift
        if message[place] < 128:
            return value, place + 1
        shift += 7
    raise ValueError(f"the number that begins at byte {start} does not end")


def _varint(value: int) -> bytes:
    digits = bytearray()
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    digits.append(value)
    return bytes(digits)
