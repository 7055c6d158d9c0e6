"""The amount of work in a file by its header: seconds of sound, pixels, or vectors. The front does not decode
files: what it takes from a header may be wrong, and is used for the price of a request only. The readers in the model
process know.
"""

import re
import struct
from collections.abc import Callable

from foveate.data.image_file import size_in_header
from foveate.tasks.file_limit import LONGEST, MOST_PIXELS, MOST_VECTORS

HEAD = 1 << 18
"""The bytes of a file that are looked at."""
COMPRESSED, PLAIN = 16_000, 400_000
"""The bytes of a second of MP3, and of two channels in floats, 48,000 times a second; no usual file has more."""
BYTES_A_PIXEL = 4
"""The bytes of a pixel at most; a longer file has other things to read, such as the frames of an animation."""
SHAPE = re.compile(rb"'shape': \((\d{1,18}), *\d")
"""The length in the header of an `.npy` file with sequences."""
PIXELS_A_BYTE = 4
"""Pixels for each byte of a picture whose header is not understood."""


def units(reads: str, content: bytes) -> float:
    """The seconds of a recording, the pixels of a picture, or the vectors of an array."""
    measures: dict[str, Callable[[bytes], float]] = {"recordings": seconds, "pictures": pixels, "vectors": vectors}
    return float(measures[reads](content))


def vectors(content: bytes) -> int:
    r"""The vectors of an `.npy` file, at most the most that is read.

    >>> vectors(b"\x93NUMPY\1\0v\0{'descr': '<f4', 'fortran_order': False, 'shape': (7, 3), }")
    7
    """
    shape = SHAPE.search(content[:HEAD])
    return min(int(shape[1]), MOST_VECTORS) if shape else 1


def pixels(content: bytes) -> int:
    r"""The pixels of a picture, at most the most that is read.

    >>> pixels(b"GIF89a\3\0\2\0")
    6
    """
    size = size_in_header(content[:HEAD])
    known = PIXELS_A_BYTE * len(content) if size is None else size[0] * size[1]
    return min(max(known, len(content) // BYTES_A_PIXEL), MOST_PIXELS)


def seconds(content: bytes) -> float:
    """The seconds of a recording, at most the most that is read."""
    known = _wave(content) or _flac(content) or _ogg(content) or len(content) / COMPRESSED
    return min(max(known, len(content) / PLAIN), LONGEST)


def _wave(content: bytes) -> float:
    """The samples of WAV have as many bytes a second as its header says; 0 for other formats."""
    form = content[:HEAD].find(b"fmt ") if content.startswith((b"RIFF", b"RF64")) else -1
    if form < 0 or len(content) < form + 20:
        return 0.0
    (rate,) = struct.unpack_from("<I", content, form + 16)
    return len(content) / rate if rate else 0.0


def _flac(content: bytes) -> float:
    """The first block of FLAC says 20 bits of rate, 8 of channels and bits, and 36 of the number of samples."""
    if not content.startswith(b"fLaC") or len(content) < 26:
        return 0.0
    bits = int.from_bytes(content[18:26], "big")
    rate, samples = bits >> 44, bits & ((1 << 36) - 1)
    return samples / rate if rate else 0.0


def _ogg(content: bytes) -> float:
    """The last page of Ogg has the number of its last sample: of Opus, 48,000 a second.

    Reference: RFC 3533, section 6.
    """
    last = content.rfind(b"OggS\0") if content.startswith(b"OggS") else -1
    if last < 0 or len(content) < last + 14:
        return 0.0
    (sample,) = struct.unpack_from("<q", content, last + 6)
    vorbis = content[:HEAD].find(b"\x01vorbis")
    rate = 48_000
    if 0 <= vorbis <= len(content) - 16:
        (rate,) = struct.unpack_from("<I", content, vorbis + 12)
    return max(sample, 0) / rate if rate else 0.0
