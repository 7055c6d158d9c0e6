"""Links: a run folder may come from somebody else, and what is written into it may not end up elsewhere."""

import os
import stat
from pathlib import Path
from typing import BinaryIO, cast

from foveate.errors import DataError
from foveate.storage.draft import disk_errors


def require_unlinked(folder: Path) -> None:
    """Raises DataError when a folder that is to be written into holds a symbolic link, at any depth.

    The folder itself may be reached through links, which are the user's. Whoever only reads follows links: Hugging
    Face keeps its models with them.
    """
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place, name)
            if path.is_symlink():
                raise DataError(
                    f"{path} is a link to {os.readlink(path)[:200]!r}, and a run is written only within its own "
                    "folder. Put what it points to in its place, or remove it."
                )


def open_own(path: Path, mode: str) -> BinaryIO:
    """A file of a run folder to write on: "ab" or "wb". Raises DataError for a link, SetupError for a full disk.

    A file with a second name elsewhere is refused too: what is written would be found there.
    """
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with disk_errors(path):
        if path.is_symlink():
            raise DataError(f"{path} is a link, and a run is written only within its own folder. Remove it.")
        descriptor = os.open(path, flags | (os.O_APPEND if mode == "ab" else 0), 0o666)
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode) or state.st_nlink > 1:
            os.close(descriptor)
            raise DataError(
                f"{path} is not a regular file, or has a second name elsewhere that a run must not write to. Copy it, "
                "remove it, and give the copy its name."
            )
        if mode == "wb":
            os.truncate(descriptor, 0)
        return cast(BinaryIO, os.fdopen(descriptor, mode))
