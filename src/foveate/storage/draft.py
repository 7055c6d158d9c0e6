"""Writes files and folders completely or not at all: under a temporary name, flushed to the disk, then renamed.

A process that is killed at any moment leaves the old state or the new one. Errors of the disk become one sentence.
"""

import contextlib
import ctypes
import errno
import os
import re
import shutil
import stat
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from foveate.errors import SetupError, UsageError

TEMPORARY = ".tmp-"
REPLACED = f"{TEMPORARY}old-"
LITTER = (f"{TEMPORARY}*", ".DS_Store")
"""Remains of killed processes and of file managers in folders."""
AT_FDCWD, RENAME_EXCHANGE = -100, 2
"""Arguments of Linux's renameat2."""


@contextlib.contextmanager
def draft_folder(target: Path, *, size: int = 0) -> Iterator[Path]:
    """Yields an empty folder to fill; on a clean exit it replaces `target`, otherwise it is deleted.

    A link is replaced, and not what it leads to. `size` is the expected number of bytes, for a check of the free space.
    Raises UsageError for `.` and `..`, which cannot be renamed, SetupError if the disk is full or the folder is not
    writable.
    """
    if target.name in ("", ".."):
        raise UsageError(
            f"{target} is the folder that you are in, or one above it. Name another, such as {target}/new."
        )
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
            publish(draft, target)
        except BaseException:  # including Ctrl-C
            shutil.rmtree(draft, ignore_errors=True)
            raise


def require_replaceable(folder: Path, kind: str, *marks: str, only: Collection[str]) -> None:
    """Raises UsageError where a `draft_folder` would delete something else than a folder of its kind: a file, a folder
    with content but without any of the files `marks`, or files whose names match none of the patterns `only`.
    """
    ours = folder.is_dir() and (not any(folder.iterdir()) or any(any(folder.glob(mark)) for mark in marks))
    if folder.exists() and not ours:
        raise UsageError(f"{folder} exists and is not {kind}. Name another folder, or remove it.")
    if not folder.exists():
        return
    known = (*only, *LITTER)
    others = sorted(path.name for path in folder.iterdir() if not any(fnmatchcase(path.name, name) for name in known))
    if others:
        named = f"{', '.join(others[:5])}{' and more' if len(others) > 5 else ''}"
        raise UsageError(
            f"{folder} is {kind} and also holds {named}, which would be deleted. Move what you need, or name another "
            "folder."
        )


def replace_file(path: Path, write: Callable[[Path], Any]) -> None:
    """Writes a file in a temporary folder beside it, flushes it to the disk and renames it over `path`.

    Raises SetupError like `draft_folder`.
    """
    folder = path.with_name(f"{TEMPORARY}{path.name}-{os.getpid()}-{uuid.uuid4().hex[:12]}")  # of this thread alone
    try:
        with disk_errors(path):
            folder.mkdir()
            write(folder / path.name)
            flush(folder / path.name)
            os.replace(folder / path.name, path)
            flush(path.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_file(path: Path, content: bytes) -> None:
    """Writes a file completely or leaves it unchanged."""
    replace_file(path, lambda temporary: temporary.write_bytes(content))


def write_output(path: Path, content: bytes) -> None:
    """Writes a file that a user names: completely or not at all, behind a link, and in place into a device or pipe."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        with disk_errors(path):
            path.write_bytes(content)
    else:
        write_file(path.resolve(), content)


def write_lines(path: Path | str, lines: Iterable[str]) -> None:
    """Writes lines in place, so that the path may also be a pipe. Raises SetupError like `draft_folder`."""
    with disk_errors(Path(path)):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def require_writable(*paths: Path | str | None) -> None:
    """Raises SetupError for a file that cannot be written, before hours of work rather than after them."""
    for path in (Path(path) for path in paths if path):
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.open("a").close()


def flush(path: Path) -> None:
    """Waits until a file's content, or a folder's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_stale(folder: Path) -> None:
    """Deletes the remains of killed processes, and completes an interrupted replacement.

    Only the process that writes in this folder may call it.
    """
    for path in folder.glob(f"{TEMPORARY}*"):
        replaced = folder / path.name.removeprefix(REPLACED)
        if path.name.startswith(REPLACED) and not replaced.exists():
            path.rename(replaced)
        else:
            remove(path)


def remove_drafts(path: Path) -> None:
    """Deletes what killed processes have left of a file. Only the process that writes the file may call it."""
    prefix = f"{TEMPORARY}{path.name}-"
    for draft in path.parent.iterdir():
        if draft.name.startswith(prefix) and re.fullmatch(r"\d+(-[0-9a-f]{12})?", draft.name.removeprefix(prefix)):
            remove(draft)


def remove(path: Path) -> None:
    """Deletes a folder with its content, a file, or a link without its target."""
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
    """Turns the system's errors in writing `path` into a SetupError."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise SetupError(_disk_full(path.parent, size)) from error
        raise SetupError(
            f"{path} cannot be written: {error.strerror or error}. Check the folder or choose another; "
            "earlier files are unchanged."
        ) from error


def publish(draft: Path, target: Path) -> None:
    """Renames the draft to its final name. It takes the place and the permissions of a folder of this name."""
    if not os.path.lexists(target):
        os.rename(draft, target)
        flush(target.parent)
        return
    if target.is_dir() and not target.is_symlink():
        draft.chmod(stat.S_IMODE(target.stat().st_mode))
    if _exchanged(draft, target):
        remove(draft)
    else:
        # A folder cannot be renamed onto one that contains files, so the old one is renamed first.
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


def _exchanged(one: Path, other: Path) -> bool:
    """Exchanges the names of two folders in one step; False where the system or its disk cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    return rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0


def _disk_full(folder: Path, size: int) -> str:
    needed = f"{_megabytes(size)} are needed, " if size else ""
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = _megabytes(shutil.disk_usage(existing).free)
    return (
        f"The disk is full: {needed}{free} are free at {folder}. Free some space or choose another folder; "
        "earlier files are unchanged."
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
