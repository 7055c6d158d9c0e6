"""Protection against links: a run folder may come from somebody else, and its links must not redirect writes."""

import os
import stat
from pathlib import Path
from typing import BinaryIO, cast

from foveate.errors import DataError
from foveate.storage.draft import disk_errors


def require_unlinked(folder: Path) -> None:
    """Raises DataError if a folder for writing contains a symbolic link, at any depth.

    The path to the folder may contain links, which belong to the user. Reading follows links, because Hugging Face
    stores its models with them.
    """
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place, name)
            if path.is_symlink():
                raise DataError(
                    f"{path} is a link to {os.readlink(path)[:200]!r}, but a run is written only within its own "
                    "folder. Replace the link by its target, or remove it."
                )


def open_own(path: Path, mode: str) -> BinaryIO:
    """Open a file of a run folder for writing: "ab" or "wb". Raises DataError for a link, SetupError for a full disk.

    A file with a second name (hard link) is refused too, because writing would change the other one.
    """
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with disk_errors(path):
        if path.is_symlink():
            raise DataError(f"{path} is a link, but a run is written only within its own folder. Remove it.")
        descriptor = os.open(path, flags | (os.O_APPEND if mode == "ab" else 0), 0o666)
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode) or state.st_nlink > 1:
            os.close(descriptor)
            raise DataError(
                f"{path} is not a regular file, or has a second name (hard link) that a run must not change. Copy it, "
                "remove it, and give the copy its name."
            )
        if mode == "wb":
            os.truncate(descriptor, 0)
        return cast(BinaryIO, os.fdopen(descriptor, mode))
