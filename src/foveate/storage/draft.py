"""Files and folders that are whole or absent: written under a temporary name, flushed to the disk, then renamed.

A process killed at any moment leaves the old state or the new one. What cannot be written is said in one sentence.
"""

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from foveate.errors import SetupError

TEMPORARY = ".tmp-"
REPLACED = f"{TEMPORARY}old-"


@contextlib.contextmanager
def draft_folder(target: Path, *, size: int = 0) -> Iterator[Path]:
    """Yields an empty folder to fill; on a clean exit it takes the place of `target`, otherwise nothing is left of it.

    `size` is the number of bytes about to be written, for a check of the free space. Raises SetupError when the disk
    is full or the place cannot be written to.
    """
    draft = target.parent / f"{TEMPORARY}{target.name}-{os.getpid()}"
    with disk_errors(target, size):
        target.parent.mkdir(parents=True, exist_ok=True)
        require_space(target.parent, size)
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        try:
            yield draft
            for path in draft.iterdir():
                flush(path)
            flush(draft)
            _publish(draft, target)
        except BaseException:  # Ctrl-C is no Exception
            shutil.rmtree(draft, ignore_errors=True)
            raise


def replace_file(path: Path, write: Callable[[Path], Any]) -> None:
    """Writes a file in a temporary folder beside it, flushes it to the disk and renames it over `path`.

    Raises SetupError as `draft_folder` does.
    """
    folder = path.with_name(f"{TEMPORARY}{path.name}-{os.getpid()}")
    try:
        with disk_errors(path):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            write(folder / path.name)
            flush(folder / path.name)
            os.replace(folder / path.name, path)
            flush(path.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_file(path: Path, content: bytes) -> None:
    """Writes a file that is either whole or as it was."""
    replace_file(path, lambda temporary: temporary.write_bytes(content))


def flush(path: Path) -> None:
    """Waits until a file's content, or a folder's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_stale(folder: Path) -> None:
    """Deletes what killed processes left behind, and completes a replacement that was cut in the middle.

    To be called by the only process that writes here.
    """
    for path in folder.glob(f"{TEMPORARY}*"):
        replaced = folder / path.name.removeprefix(REPLACED)
        if path.name.startswith(REPLACED) and not replaced.exists():
            path.rename(replaced)
        else:
            remove(path)


def remove(path: Path) -> None:
    """Deletes a folder with what is in it, a file, or a link but not what it points to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def require_space(folder: Path, size: int) -> None:
    """Raises SetupError when fewer than `size` bytes are free at `folder`."""
    free = shutil.disk_usage(folder).free
    if free < size:
        raise SetupError(_disk_full(folder, size))


@contextlib.contextmanager
def disk_errors(path: Path, size: int = 0) -> Iterator[None]:
    """Turns the system's refusals to write `path` into one sentence: SetupError."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise SetupError(_disk_full(path.parent, size)) from error
        raise SetupError(
            f"{path} cannot be written: {error.strerror or error}. Check the place or choose another; "
            "what was saved before is untouched."
        ) from error


def _publish(draft: Path, target: Path) -> None:
    """Renames the draft to its final name; one that has this name already (damaged, or the same step) makes way."""
    if not target.exists():
        os.rename(draft, target)
    else:
        # A folder cannot be renamed onto one with files in it, so the old one steps aside first.
        old = target.parent / f"{REPLACED}{target.name}"
        remove(old)
        os.rename(target, old)
        try:
            os.rename(draft, target)
        except BaseException:
            os.rename(old, target)
            raise
        remove(old)
    flush(target.parent)


def _disk_full(folder: Path, size: int) -> str:
    needed = f"{_megabytes(size)} are needed, " if size else ""
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = _megabytes(shutil.disk_usage(existing).free)
    return (
        f"The disk is full: {needed}{free} are free at {folder}. Free some space or choose another place; "
        "what was saved before is untouched."
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
