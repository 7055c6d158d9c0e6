"""The headers of sound: where the samples of an uncompressed file end, if it is whole, whether an Ogg file ends, and
how many samples an MP3 file has.
"""

import struct
from io import BufferedIOBase

UNKNOWN_SIZE = 0x7FFFF000
"""The bytes of samples from which a header of 32 bits does not know how many there are. Programs that write to a pipe
leave this size (SoX), one above it (arecord has 0x7FFFFF00), the largest number, or 0.
"""
LARGEST = 0xFFFFFFFF
ABSURD_SIZE = 1 << 48
"""The bytes of samples from which a header of 64 bits does not know how many there are."""
_PAGE = 27 + 255 + 255 * 255
"""The largest size of a page of Ogg, in bytes."""
_SEARCHED = 1 << 16
"""Bytes before which an MP3 file has its first frame."""
_MP3_BITS = (
    (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
)
"""Kilobits a second by the number in a frame's header, from 1: of MPEG-2, and of MPEG-1."""
W64_RIFF, W64_WAVE, W64_DATA = (
    name + bytes.fromhex(rest)
    for name, rest in (
        (b"riff", "2e91cf11a5d628db04c10000"),
        (b"wave", "f3acd3118cd100c04f8edb8a"),
        (b"data", "f3acd3118cd100c04f8edb8a"),
    )
)
"""The names of chunks in Sony's Wave64 are GUIDs."""


def end_of_samples(file: BufferedIOBase) -> int | None:
    """The number of bytes of a whole file up to its last sample, by the header of WAV, RF64, AIFF, Wave64, AU or NIST
    SPHERE; None for other formats, and where the header does not know.
    """
    file.seek(0)
    head = file.read(1024)
    kind, form = head[:4], head[8:12]
    if kind in (b"RIFF", b"RIFX") and form == b"WAVE":
        return _known(_chunk(file, "<4sI" if kind == b"RIFF" else ">4sI", b"data"))
    if kind == b"RF64" and form == b"WAVE":
        return _wave_of_64_bits(file)
    if kind == b"FORM" and form in (b"AIFF", b"AIFC"):
        return _known(_chunk(file, ">4sI", b"SSND"))
    if head.startswith(W64_RIFF) and head[24:40] == W64_WAVE:
        return _wave64(file)
    if kind in (b".snd", b"dns.") and len(head) >= 12:
        return _known(struct.unpack_from(">II" if kind == b".snd" else "<II", head, 4))
    return _sphere(head) if head.startswith(b"NIST_1A\n") else None


def ogg_ends(file: BufferedIOBase) -> bool:
    """Whether the last page of an Ogg file is whole and is marked as the end of its stream; True for other formats.

    Reference: RFC 3533, section 6.
    """
    file.seek(0)
    if file.read(4) != b"OggS":
        return True
    size = file.seek(0, 2)
    file.seek(max(size - _PAGE, 0))
    tail = file.read()
    page = tail[tail.rfind(b"OggS\0") :]
    if len(page) < 27 or not page[5] & 4:
        return False
    return len(page) >= 27 + page[26] + sum(page[27 : 27 + page[26]])


def ogg_streams(file: BufferedIOBase) -> int:
    """The number of streams of an Ogg file that follow one another; 0 for other formats. Streams that begin together,
    such as sound and its Skeleton, are one.

    Reference: RFC 3533, section 4: the first pages of streams side by side stand together, before all others.
    """
    file.seek(0)
    streams, begins = 0, False
    while (page := file.read(27))[:5] == b"OggS\0" and len(page) == 27:
        before, begins = begins, bool(page[5] & 2)
        streams += begins and not before
        file.seek(sum(file.read(page[26])), 1)
    return streams


def mp3_samples(file: BufferedIOBase) -> int | None:
    """The samples of each channel in the frames of an MP3 file, without decoding; None for other formats.

    Reference: ISO/IEC 11172-3, section 2.4.1.3, and 13818-3 for the lower rates.
    """
    file.seek(0)
    head = file.read(10)
    start = 0
    if head[:3] == b"ID3" and len(head) == 10:
        start = 10 + sum(byte << shift for byte, shift in zip(head[6:], (21, 14, 7, 0), strict=True))
    file.seek(start)
    content = file.read()
    place = samples = 0
    while 0 <= (place := content.find(b"\xff", place)) <= len(content) - 4:
        size, count = _mp3_frame(content[place : place + 4])
        samples += count
        place += size or 1
        if not samples and place > _SEARCHED:
            return None
    return samples or None


def _mp3_frame(head: bytes) -> tuple[int, int]:
    """The bytes and the samples of a frame of layer III by its header; zeros if it is none."""
    version, layer = head[1] >> 3 & 3, head[1] >> 1 & 3
    bits, rate, padding = head[2] >> 4, head[2] >> 2 & 3, head[2] >> 1 & 1
    if head[1] < 0xE0 or version == 1 or layer != 1 or bits in (0, 15) or rate == 3:
        return 0, 0
    first = version == 3  # MPEG-1; 2 and 0 are MPEG-2 and 2.5
    kilobits = _MP3_BITS[first][bits - 1]
    hertz = (44_100, 48_000, 32_000)[rate] // {3: 1, 2: 2, 0: 4}[version]
    return (144 if first else 72) * 1000 * kilobits // hertz + padding, 1152 if first else 576


def _known(samples: tuple[int, int] | None) -> int | None:
    """The end of the samples, from their offset and size."""
    return sum(samples) if samples and 0 < samples[1] < UNKNOWN_SIZE else None


def _chunk(file: BufferedIOBase, head: str, name: bytes) -> tuple[int, int] | None:
    """Offset and size of the content of the first chunk with this name. Chunks have even lengths."""
    file.seek(12)
    while len(read := file.read(8)) == 8:
        kind, size = struct.unpack(head, read)
        if kind == name:
            return file.tell(), size
        file.seek(size + size % 2, 1)
    return None


def _wave_of_64_bits(file: BufferedIOBase) -> int | None:
    """The chunk ds64 has the true size of the samples where the chunk of samples has the largest number as its own.

    Reference: EBU Tech 3306, section 3.
    """
    sizes, data = _chunk(file, "<4sI", b"ds64"), _chunk(file, "<4sI", b"data")
    if sizes is None or data is None:
        return None
    if data[1] != LARGEST:
        return _known(data)
    file.seek(sizes[0] + 8)
    size = file.read(8)
    samples = struct.unpack("<Q", size)[0] if len(size) == 8 else 0
    return data[0] + samples if 0 < samples < ABSURD_SIZE else None


def _wave64(file: BufferedIOBase) -> int | None:
    """Sizes include the 24 bytes of name and size, and chunks begin at multiples of 8."""
    file.seek(40)
    while len(read := file.read(24)) == 24:
        name, size = struct.unpack("<16sQ", read)
        content = max(size - 24, 0)
        if name == W64_DATA:
            return file.tell() + content if 0 < content < ABSURD_SIZE else None
        file.seek(min(content + -content % 8, ABSURD_SIZE), 1)
    return None


def _sphere(head: bytes) -> int | None:
    """The header is text: its own size, then names, types and values."""
    lines = [line.split() for line in head.decode("latin-1").splitlines()]
    values = {line[0]: line[2] for line in lines if len(line) == 3}
    try:
        size = int(lines[1][0])
        counts = [int(values[name]) for name in ("sample_count", "channel_count", "sample_n_bytes")]
    except (IndexError, KeyError, ValueError):
        return None
    return size + counts[0] * counts[1] * counts[2] if counts[0] > 0 else None
