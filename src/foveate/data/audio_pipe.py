"""Reads sound from a pipe while it arrives: a WAV file, or raw samples whose rate is given."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from foveate.data.audio_file import CUT, LONGEST, RATES, Recording, remarks_on
from foveate.data.audio_header import UNKNOWN_SIZE
from foveate.errors import DataError, UsageError

NAME = "standard input"
SECONDS = 0.2
"""The length of a piece."""
_FORMATS = {(1, 16): "<i2", (1, 32): "<i4", (3, 32): "<f4", (3, 64): "<f8"}
"""The types of samples by the number of their encoding and their bits: whole numbers, and floats."""
_EXTENSIBLE = 0xFFFE
_CONTAINERS = (b"fLaC", b"OggS", b"ID3", b"RF64", b"RIFX", b"FORM", b".snd", b"caff", b"NIST_1A", b"riff\x2e\x91")
_LARGEST = 1 << 20
"""The limit on the size of a chunk before the samples, in bytes."""


@runtime_checkable
class Bytes(Protocol):
    """A file or a pipe of bytes."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True)
class Pipe:
    """Sound of a pipe: its rate in samples per second, and how its samples are written."""

    file: Bytes
    rate: int
    dtype: str = "<i2"
    channels: int = 1
    size: int | None = None
    """The number of bytes of samples; None until the end of the pipe."""

    @classmethod
    def of(cls, file: Bytes, rate: int | None = None) -> "Pipe":
        """A WAV file, or with a `rate`, raw samples: whole numbers of 16 bits, little endian, of one channel.

        Raises DataError for anything else, UsageError for a rate beside that of a WAV file.
        """
        if rate is not None and not RATES[0] <= rate <= RATES[1]:
            raise UsageError(f"The rate must be from {RATES[0]:,} to {RATES[1]:,} samples a second, got {rate:,}.")
        begin = _read(file, 12)
        riff = begin[:4] == b"RIFF" and begin[8:] == b"WAVE"
        if not begin:
            raise DataError(f"{NAME} is empty. Send a WAV file, or raw samples with --rate.")
        if riff and rate is not None:
            raise UsageError(f"{NAME} is a WAV file, which has a rate of its own. Leave --rate out.")
        if riff:
            return cls(file, *_header(file))
        if rate is None:
            raise DataError(
                f"{NAME} is not a WAV file. Raw samples, whole numbers of 16 bits of one channel, need --rate N; "
                "other files are named as arguments."
            )
        if begin.startswith(_CONTAINERS):
            raise DataError(
                f"{NAME} is a compressed or another file of sound and not raw samples. Name the file as an argument, "
                "or send it as WAV."
            )
        return cls(_Before(begin, file), rate)

    def pieces(self, remarks: list[str]) -> Iterator[Float[np.ndarray, " samples"]]:
        """Samples from −1 to 1 of one channel, some at a time; of several channels the mean. At the end, what the user
        should know about the sound is added to `remarks`.
        """
        remarks += [f"{self.channels} channels, whose mean is read"] if self.channels > 1 else []
        dtype = np.dtype(self.dtype)
        scale = 1.0 if dtype.kind == "f" else float(-np.iinfo(dtype).min)
        frame, left = dtype.itemsize * self.channels, self.size
        while left is None or left >= frame:
            most = max(int(SECONDS * self.rate), 1) * frame
            data = _read(self.file, most if left is None else min(most, left - left % frame))
            left = None if left is None else left - len(data)
            whole = np.frombuffer(data[: len(data) // frame * frame], dtype).reshape(-1, self.channels)
            if len(whole):
                yield (whole.mean(1, dtype=np.float64) / scale).astype(np.float32)
            if len(data) % frame and left is None:
                remarks.append(f"{len(data) % frame} of the {frame} bytes of a last sample, which are left out")
            if len(data) < frame:
                break
        if left is not None and left >= frame:
            remarks.append(CUT)

    def recording(self) -> Recording:
        """All samples. Raises DataError for a pipe without samples, and for hours of sound."""
        pieces, count = [], 0
        remarks: list[str] = []
        for piece in self.pieces(remarks):
            pieces.append(piece)
            count += len(piece)
            if count > LONGEST * self.rate:
                raise DataError(f"{NAME} lasts more than {LONGEST / 3600:g} hours. Cut it, or give --stream.")
        if not count:
            raise DataError(f"{NAME} has no samples.")
        samples = np.concatenate(pieces)
        return Recording(NAME, samples, self.rate, (*remarks, *remarks_on(samples)))


class _Before:
    """A file whose first bytes have been read already."""

    def __init__(self, begin: bytes, file: Bytes) -> None:
        self.begin, self.file = begin, file

    def read(self, size: int, /) -> bytes:
        if self.begin:
            begin, self.begin = self.begin[:size], self.begin[size:]
            return begin
        return self.file.read(size)


def _read(file: Bytes, size: int) -> bytes:
    """As many bytes as `size`, fewer only at the end; a pipe gives them in pieces."""
    data = b""
    while len(data) < size and (more := file.read(size - len(data))):
        data += more
    return data


def _header(file: Bytes) -> tuple[int, str, int, int | None]:
    """Rate, type of samples, channels and bytes of samples of a WAV file, which is read up to its first sample."""
    rate, dtype, channels = 0, "", 0
    while len(head := _read(file, 8)) == 8:
        name, size = struct.unpack("<4sI", head)
        if name == b"data":
            if not dtype:
                break
            # Programs that write to a pipe do not know the size, and write 0 or the largest number.
            return rate, dtype, channels, size if 0 < size < UNKNOWN_SIZE else None
        if size > _LARGEST:
            break
        body = _read(file, size + size % 2)
        if name == b"fmt " and len(body) >= 16:
            code, channels, rate, _, _, bits = struct.unpack("<HHIIHH", body[:16])
            if code == _EXTENSIBLE and len(body) >= 26:
                (code,) = struct.unpack("<H", body[24:26])
            dtype = _FORMATS.get((code, bits), "")
            if not dtype or not 1 <= channels <= 64 or not RATES[0] <= rate <= RATES[1]:
                raise DataError(
                    f"{NAME} has samples of {bits} bits (code {code}) of {channels} channels at {rate:,} a second. "
                    "Send 16 bits: ffmpeg -i FILE -f wav -c:a pcm_s16le - | foveate transcribe …"
                )
    raise DataError(f"{NAME} is damaged: it begins as a WAV file and has no samples. Send it again.")
