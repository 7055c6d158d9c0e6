"""The pictures of positions in a trace, of limited size."""

import base64
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped, UInt8
from torch import Tensor

from foveate.errors import UsageError
from foveate.inspect.figure.pixel import SIGNATURE, encode, photograph

LARGEST = 4_000_000
"""The limit on the size of a picture in a trace, in bytes."""
GREY = tuple((level, level, level) for level in range(256))
_START_OF_JPEG, _FRAMES = b"\xff\xd8", frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})


@dataclass(frozen=True)
class Picture:
    """A PNG or JPEG file: the picture of patches, or the spectrogram whose columns are frames.

    >>> Picture.of(torch.rand(3, 8, 12)).size
    (12, 8)
    """

    data: bytes

    def __post_init__(self) -> None:
        if len(self.data) > LARGEST:
            raise UsageError(
                f"The picture takes {len(self.data) / 1e6:.1f} MB; a trace contains at most {LARGEST / 1e6:.0f}. "
                "Scale it down: a screen does not show more."
            )
        _ = self.size

    @classmethod
    def of(cls, pixels: "Shaped[np.ndarray, '...'] | Shaped[Tensor, '...'] | bytes") -> "Picture":
        """Make a picture from a file's bytes, or from an array: rows × columns, with 3 colours before or after, of
        whole numbers up to 255, or of floats up to 1.
        """
        return cls(pixels if isinstance(pixels, bytes) else _drawn(_pixels(pixels)))

    @property
    def media(self) -> str:
        return "image/png" if self.data.startswith(SIGNATURE) else "image/jpeg"

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows of pixels according to the file. Raises UsageError for other formats than PNG and JPEG."""
        size = _size_of_png(self.data) if self.data.startswith(SIGNATURE) else _size_of_jpeg(self.data)
        if size is None or not all(size):
            raise UsageError(
                "The picture is not a complete PNG or JPEG file. Give an array, or save it in one of these formats."
            )
        return size

    @property
    def grey(self) -> UInt8[np.ndarray, "rows columns"] | None:
        """The levels from 0 to 255 of a grey picture that was made from an array; None for other pictures."""
        if not self.data.startswith(SIGNATURE):
            return None
        chunks, at = dict[bytes, bytes](), len(SIGNATURE)
        while at + 8 <= len(self.data):
            (length,) = struct.unpack_from(">I", self.data, at)
            chunks.setdefault(self.data[at + 4 : at + 8], self.data[at + 8 : at + 8 + length])
            at += 12 + length
        width, height = self.size
        if chunks.get(b"PLTE") != bytes(part for colour in GREY for part in colour):
            return None
        try:
            rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), dtype=np.uint8).reshape(height, width + 1)
        except (KeyError, ValueError, zlib.error):
            return None
        return rows[:, 1:] if not rows[:, 0].any() else None

    def header(self) -> dict[str, Any]:
        width, height = self.size
        data = base64.b64encode(self.data).decode("ascii")
        return {"media": self.media, "width": width, "height": height, "data": data}

    @classmethod
    def read(cls, header: Mapping[str, Any]) -> "Picture":
        """Read plain data. Raises ValueError for a picture that differs from its header."""
        try:
            picture = cls(base64.b64decode(header["data"], validate=True))
        except (KeyError, ValueError, UsageError) as error:
            raise ValueError(f"its picture is damaged: {error}") from error
        if picture.header() != dict(header):
            raise ValueError("its picture differs from its header")
        return picture


def spectrogram(energies: "Float[np.ndarray, 'frames bands'] | Float[Tensor, 'frames bands']") -> Picture:
    """Energies (or their logarithms) as a grey picture: time to the right, the highest band on top, black for the
    smallest.
    """
    bands = np.asarray(torch.as_tensor(energies).detach().cpu(), dtype=np.float32).T[::-1]
    least, most = float(bands.min(initial=np.inf)), float(bands.max(initial=-np.inf))
    return Picture.of(np.rint(255 * (bands - least) / max(most - least, 1e-12)).astype(np.uint8))


def _pixels(pixels: "np.ndarray | Tensor") -> np.ndarray:
    array = np.asarray(pixels.detach().cpu() if isinstance(pixels, Tensor) else pixels)
    if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3):
        array = array.transpose(1, 2, 0)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] != 3) or not array.size:
        raise UsageError(f"A picture is rows × columns, grey or with 3 colours; this has the shape {array.shape}.")
    if array.dtype.kind == "f":
        array = np.rint(np.clip(np.nan_to_num(array), 0, 1) * 255)
    if array.min() < 0 or array.max() > 255:
        raise UsageError(f"Whole numbers of a picture are 0 to 255; here they are {array.min()} to {array.max()}.")
    return array.astype(np.uint8)


def _drawn(pixels: np.ndarray) -> bytes:
    return encode(pixels, GREY) if pixels.ndim == 2 else photograph(pixels)


def _size_of_png(data: bytes) -> tuple[int, int] | None:
    whole = len(data) >= 33 and data[12:16] == b"IHDR" and data[-8:-4] == b"IEND"
    return struct.unpack(">II", data[16:24]) if whole else None


def _size_of_jpeg(data: bytes) -> tuple[int, int] | None:
    """Skip segments up to the one with the size."""
    at = 2 if data.startswith(_START_OF_JPEG) else len(data)
    while at + 9 <= len(data) and data[at] == 0xFF:
        if data[at + 1] in _FRAMES:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + int(struct.unpack(">H", data[at + 2 : at + 4])[0])
    return None
