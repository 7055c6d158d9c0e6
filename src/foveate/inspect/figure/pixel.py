"""Writes PNG files from arrays of palette indices or colours, with zlib only."""

import struct
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import UInt8

from foveate.errors import UsageError

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def encode(
    pixels: UInt8[np.ndarray, "rows columns"],
    palette: Sequence[tuple[int, int, int]],
    text: Mapping[str, str] | None = None,
    clear: int | None = None,
) -> bytes:
    """A PNG with one byte per pixel. `text` is stored as `iTXt` chunks (UTF-8), which programs show as the picture's
    details. Pixels of the colour `clear` are transparent.

    The bytes depend only on the arguments and on the version of zlib: there are no dates and names.

    Reference: PNG, third edition (W3C 2025), sections 5 and 11.
    """
    rows, columns = pixels.shape
    if not pixels.size or int(pixels.max()) >= len(palette) or len(palette) > 256:
        raise UsageError(
            f"a PNG needs at least one pixel and colours within its palette of {len(palette)} (256 at most)."
        )
    header = struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)  # 8 bits, palette, no interlacing
    lines = np.zeros((rows, columns + 1), dtype=np.uint8)  # each line begins with its filter: 0 for none
    lines[:, 1:] = pixels
    chunks = [chunk(b"IHDR", header), chunk(b"PLTE", bytes(part for colour in palette for part in colour))]
    chunks += [chunk(b"iTXt", international(key, value)) for key, value in (text or {}).items()]
    if clear is not None and (pixels == clear).any():
        chunks.append(chunk(b"tRNS", b"\xff" * clear + b"\0"))
    chunks += [chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)), chunk(b"IEND", b"")]
    return SIGNATURE + b"".join(chunks)


def photograph(pixels: UInt8[np.ndarray, "rows columns 3"]) -> bytes:
    """A PNG of red, green and blue with 8 bits each, for pictures with more colours than a palette."""
    rows, columns = pixels.shape[:2]
    if not pixels.size:
        raise UsageError("a PNG needs at least one pixel.")
    header = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    lines = np.zeros((rows, 3 * columns + 1), dtype=np.uint8)
    lines[:, 1:] = pixels.reshape(rows, -1)
    chunks = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)), chunk(b"IEND", b""))
    return SIGNATURE + b"".join(chunks)


def chunk(kind: bytes, content: bytes) -> bytes:
    """A chunk of a PNG: its length, its kind, its content and a checksum."""
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def international(key: str, value: str) -> bytes:
    """The content of an `iTXt` chunk: keyword, no compression, no language, no translated keyword, then the text."""
    return key.encode("latin-1") + b"\0\0\0\0\0" + value.encode("utf-8")
