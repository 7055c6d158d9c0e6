"""Locks, by which one process at a time works in a folder. The system releases them when a process ends."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows does not have these locks; users must avoid two processes in one folder
    fcntl = None  # type: ignore[assignment]


def lock(descriptor: int) -> bool:
    """Locks an open file or folder; False if another process has locked it. Some file systems have no locks."""
    if fcntl:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True
    return True


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Makes a folder and locks it until the block ends; False if another process has locked it.

    The lock is the folder's own, which may be renamed in the meantime.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not fcntl:
        yield True
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        free = lock(descriptor)
        # Another process may have renamed the folder before this one had the lock.
        yield free and folder.exists() and os.path.samestat(os.fstat(descriptor), folder.stat())
    finally:
        os.close(descriptor)
