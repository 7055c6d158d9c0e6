"""Arrays of `.npz` files, without pickled objects, and with a limit on their unpacked size."""

import lzma
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np
from jaxtyping import Shaped
from numpy.lib import format as npy

from foveate.errors import DataError
from foveate.suggestion import missing_file

LARGEST = 1 << 33
"""The limit on the unpacked size of an `.npz` file, in bytes."""
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_DAMAGE = (
    *(ValueError, EOFError, OSError, MemoryError, OverflowError, SyntaxError, tokenize.TokenError, struct.error),
    *(RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)
"""The errors of NumPy and zipfile for foreign, damaged, encrypted and strangely compressed files."""


def read_archive(
    path: str, chosen: Callable[[Collection[str]], Collection[str]], *, instead: str
) -> tuple[dict[str, np.ndarray], list[str]]:
    """The arrays of an `.npz` file that are chosen by their names, and the names of all.

    Raises DataError if it is missing, damaged or too large, with what to do `instead`, or has pickled objects. An array
    whose header promises more bytes than the file holds is damaged; no memory is taken for it.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
            if size > LARGEST:
                raise DataError(
                    f"{path} unpacks to {size / 2**30:.1f} GiB, and at most {LARGEST >> 30} are read. {instead}"
                )
            members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
            return {name: _array(archive, members[name]) for name in chosen(list(members))}, list(members)
    except DataError:
        raise
    except FileNotFoundError:
        raise DataError(missing_file(Path(path))) from None
    except _DAMAGE:
        raise DataError(
            f"{path} is not an .npz file of numbers and names, or it is damaged. Save arrays of these with numpy.savez."
        ) from None


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Shaped[np.ndarray, "..."]:
    _require_bytes(archive, member)
    with archive.open(member) as content:
        array: np.ndarray = npy.read_array(content, allow_pickle=False)
        content.read(1)  # zipfile compares the checksum at the end
        return array


def _require_bytes(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Raise ValueError for a header of an array that has more bytes than the file."""
    with archive.open(member) as content:
        version = npy.read_magic(content)
        if version not in _HEADERS:
            raise ValueError(f"Arrays of version {version} hold no plain numbers.")
        shape, _, dtype = _HEADERS[version](content)
        if math.prod(shape) * max(dtype.itemsize, 1) > member.file_size - content.tell():
            raise ValueError(f"The header promises the shape {shape}.")
