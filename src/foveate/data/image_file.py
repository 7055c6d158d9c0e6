"""Reads the pixels of PNG, JPEG and GIF files with the renderer that draws our own figures.

resvg, written in Rust, reads them as parts of a drawing and writes a PNG with 8 bits per channel, the only format that
has to be decoded here. A picture's size is read from its header, and limited, before anything is unpacked.
"""

import base64
import struct
import zlib
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from foveate.errors import DataError
from foveate.suggestion import missing_file

LARGEST = 1 << 24
"""The limit on the number of pixels."""
_PNG = b"\x89PNG\r\n\x1a\n"
_MEDIA = {_PNG: "png", b"\xff\xd8": "jpeg", b"GIF8": "gif"}
STARTS = tuple(_MEDIA)
"""The first bytes of the files that can be read."""
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif"})
_ORIENTATION = 0x0112
_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_SCAN = 0xDA
MOST_PARTS = 20_000
"""The most segments of a JPEG before its pixels, or chunks of a PNG."""


def read_pixels(path: Path) -> UInt8[np.ndarray, "rows columns 3"]:
    """Red, green and blue of a file, transparent parts on white. Raises DataError for other files."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise DataError(missing_file(path)) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    return pixels_of(data, str(path))


def pixels_of(data: bytes, name: str) -> UInt8[np.ndarray, "rows columns 3"]:
    """`read_pixels` for the content of a file; messages use `name`."""
    media = next((kind for start, kind in _MEDIA.items() if data.startswith(start)), None)
    size = None if media is None else size_of(data)
    if media is None or size is None or not all(size):
        raise DataError(f"{name} is not a complete PNG, JPEG or GIF file. Save it again, or leave it out.")
    width, height = size
    if width * height > LARGEST:
        raise DataError(f"{name} has {width} × {height} pixels, and at most {LARGEST:,} are read. Scale it down.")
    import resvg_py  # needed only for pictures

    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"><image width="{width}" '
        f'height="{height}" image-rendering="optimizeSpeed" '
        f'href="data:image/{media};base64,{base64.b64encode(data).decode("ascii")}"/></svg>'
    )
    drawn = bytes(resvg_py.svg_to_bytes(svg_string=svg, skip_system_fonts=True))
    pixels = _decoded(drawn)
    if pixels.shape[2] == 4:
        opacity = pixels[..., 3:].astype(np.float32) / 255
        if not opacity.any():
            raise DataError(f"{name} is damaged or entirely transparent. Save it again, or leave it out.")
        pixels = np.rint(pixels[..., :3] * opacity + 255 * (1 - opacity)).astype(np.uint8)
    return pixels


def size_of(data: bytes) -> tuple[int, int] | None:
    """Columns and rows according to the header of a file; None without a valid header, and for a PNG without its end.

    >>> size_of(b"GIF89a" + struct.pack("<HH", 3, 2))
    (3, 2)
    """
    return None if data.startswith(_PNG) and not _end_of_png(data)[1] else size_in_header(data)


def size_in_header(data: bytes) -> tuple[int, int] | None:
    """`size_of` for the beginning of a file, whose end may be missing."""
    if _has_too_many_parts(data):
        return None
    if data.startswith(b"GIF8") and len(data) >= 10:
        return struct.unpack("<HH", data[6:10])
    if data.startswith(_PNG):
        return struct.unpack(">II", data[16:24]) if len(data) >= 33 and data[12:16] == b"IHDR" else None
    frame = _frame(data)
    if frame is None:
        return None
    height, width = struct.unpack(">HH", data[frame + 5 : frame + 9])
    return width, height


def unusual(data: bytes) -> str:
    """The property of a file that resvg ignores, though it changes the pixels; empty for most files."""
    if orientation_of(data) != 1:
        return "an EXIF orientation"
    frame = _frame(data) if data.startswith(b"\xff\xd8") else None
    return "colours for printing (CMYK)" if frame is not None and data[frame + 9 : frame + 10] == b"\x04" else ""


def orientation_of(data: bytes) -> int:
    r"""The EXIF orientation of a JPEG or PNG, from 1, upright, to 8; 1 where it is missing or unreadable.

    >>> entry = struct.pack("<HHIHH", 0x0112, 3, 1, 6, 0)
    >>> orientation_of(b"\xff\xd8\xff\xe1\0\0Exif\0\0II*\0" + struct.pack("<IH", 8, 1) + entry)
    6
    """
    mark = next((mark for mark in (b"Exif\0\0", b"eXIf") if mark in data[: 1 << 16]), None)
    if mark is None:
        return 1
    at = data.index(mark) + len(mark)
    order = {b"II": "<", b"MM": ">"}.get(data[at : at + 2])
    if order is None:
        return 1
    try:
        (first,) = struct.unpack_from(f"{order}I", data, at + 4)
        (count,) = struct.unpack_from(f"{order}H", data, at + first)
        for entry in range(min(count, 512)):
            tag, _, _, value = struct.unpack_from(f"{order}HHIH", data, at + first + 2 + 12 * entry)
            if tag == _ORIENTATION:
                return value if 1 <= value <= 8 else 1
    except struct.error:
        pass
    return 1


def _has_too_many_parts(data: bytes) -> bool:
    """Whether a JPEG or PNG has more segments before its pixels, or chunks, than any program writes: millions of empty
    ones keep a decoder busy for seconds.
    """
    parts = 0
    if data.startswith(b"\xff\xd8"):
        at = 2
        while at + 4 <= len(data) and data[at] == 0xFF and data[at + 1] != _SCAN and parts <= MOST_PARTS:
            at, parts = _after(data, at), parts + 1
    elif data.startswith(_PNG):
        parts = _end_of_png(data)[0]
    return parts > MOST_PARTS


def _end_of_png(data: bytes) -> tuple[int, bool]:
    """The number of chunks before the end of a PNG, and whether the end is there; programs may write more behind it."""
    at, parts = 8, 0
    while at + 12 <= len(data) and data[at + 4 : at + 8] != b"IEND" and parts <= MOST_PARTS:
        at, parts = at + 12 + int(struct.unpack(">I", data[at : at + 4])[0]), parts + 1
    return parts, at + 12 <= len(data) and parts <= MOST_PARTS


def _after(data: bytes, at: int) -> int:
    """The place after a segment of a JPEG, or after a byte that fills the file up before one.

    Reference: ITU-T T.81, section B.1.1.2.
    """
    return at + 1 if data[at + 1] == 0xFF else at + 2 + int(struct.unpack(">H", data[at + 2 : at + 4])[0])


def _frame(data: bytes) -> int | None:
    """The place of the segment of a JPEG that has its size."""
    at = 2 if data.startswith(b"\xff\xd8") else len(data)
    while at + 9 <= len(data) and data[at] == 0xFF:
        if data[at + 1] in _FRAMES:
            return at
        at = _after(data, at)
    return None


def _decoded(data: bytes) -> UInt8[np.ndarray, "rows columns channels"]:
    """Decode a PNG by resvg: 8 bits per channel, not interlaced. Reference: PNG, third edition, section 9."""
    width, height, bits, colour, _, _, interlaced = struct.unpack(">IIBBBBB", data[16:29])
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[colour]
    assert (bits, interlaced) == (8, 0)
    packed, at = b"", 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + length]
        at += 12 + length
    lines = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + width * channels)
    return _unfiltered(lines[:, 0], lines[:, 1:].reshape(height, width, channels))


def _unfiltered(
    filters: UInt8[np.ndarray, " rows"], lines: UInt8[np.ndarray, "rows columns channels"]
) -> UInt8[np.ndarray, "rows columns channels"]:
    """Undo the prediction of each pixel from those to the left, above, and between.

    A pixel needs only these three, so pixels on a diagonal from top right to bottom left are computed together:
    `skewed[d, r]` is pixel (r, d − r).
    """
    rows, columns, channels = lines.shape
    row, column = np.arange(rows)[:, None], np.arange(columns)
    skewed = np.zeros((rows + columns - 1, rows, channels), np.int16)
    skewed[row + column, row] = lines
    real = np.zeros((rows + columns - 1, rows, 1), np.int16)
    real[row + column, row] = 255
    by = [np.where(filters == number, np.int16(1), np.int16(0))[:, None] for number in (1, 2, 3, 4)]
    # One more row above and two more diagonals before, because pixels outside the picture count as 0.
    before, last = np.zeros((2, rows + 1, channels), np.int16)
    for new, inside in zip(skewed, real, strict=True):
        left, above, between = last[1:], last[:-1], before[:-1]
        to_left, to_above = np.abs(above - between), np.abs(left - between)
        to_between = np.abs(left + above - 2 * between)
        nearest = np.where(to_above <= to_between, above, between)
        nearest = np.where((to_left <= to_above) & (to_left <= to_between), left, nearest)
        new += by[0] * left + by[1] * above + by[2] * ((left + above) >> 1) + by[3] * nearest
        new &= inside
        before, last = last, np.concatenate([np.zeros((1, channels), np.int16), new])
    return skewed[row + column, row].astype(np.uint8)
