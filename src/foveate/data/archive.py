"""Arrays of `.npz` files, without pickled objects, and with a limit on their unpacked size."""

import zipfile
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np

from foveate.errors import DataError
from foveate.suggestion import missing_file

LARGEST = 1 << 33
"""The limit on the unpacked size of an `.npz` file, in bytes."""


def read_archive(
    path: str, chosen: Callable[[Collection[str]], Collection[str]], *, instead: str
) -> tuple[dict[str, np.ndarray], list[str]]:
    """The arrays of an `.npz` file that are chosen by their names, and the names of all.

    Raises DataError if it is missing, damaged or too large, with what to do `instead`, or has pickled objects.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > LARGEST:
            raise DataError(
                f"{path} unpacks to {size / 2**30:.1f} GiB, and at most {LARGEST >> 30} are read. {instead}"
            )
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in chosen(archive.files)}, list(archive.files)
    except DataError:
        raise
    except FileNotFoundError:
        raise DataError(missing_file(Path(path))) from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        raise DataError(
            f"{path} is not an .npz file of numbers and names. Save arrays of these with numpy.savez."
        ) from None
