"""Files and folders that are whole or absent: written under a temporary name, flushed to the disk, then renamed."""

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from foveate.errors import SetupError


@contextlib.contextmanager
def draft_folder(target: Path) -> Iterator[Path]:
    """Yields an empty folder to fill; on a clean exit it takes the place of `target`, otherwise nothing is left of it.

    Raises SetupError when the disk is full or the place cannot be written to.
    """
    draft = target.parent / f".tmp-{target.name}-{os.getpid()}"
    with _setup_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        try:
            yield draft
            for path in draft.iterdir():
                flush(path)
            flush(draft)
            _replace(draft, target)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise


def write_file(target: Path, content: bytes) -> None:
    """Writes a file that is either whole or as it was. Raises SetupError as `draft_folder` does."""
    draft = target.with_name(f".tmp-{target.name}-{os.getpid()}")
    with _setup_errors(target):
        try:
            draft.write_bytes(content)
            flush(draft)
            os.replace(draft, target)
            flush(target.parent)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise


def flush(path: Path) -> None:
    """Waits until a file's content, or a folder's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace(draft: Path, target: Path) -> None:
    old = target.parent / f".tmp-old-{target.name}-{os.getpid()}"
    if target.exists():
        # A folder cannot be renamed onto one with files in it, so the old one steps aside first.
        target.rename(old)
    draft.rename(target)
    flush(target.parent)
    shutil.rmtree(old, ignore_errors=True)


@contextlib.contextmanager
def _setup_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise SetupError(
                f"The disk is full: {target} could not be written. Make room or choose another --out."
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise SetupError(f"{target} could not be written: {error.strerror}. Choose another --out.") from error
        raise
