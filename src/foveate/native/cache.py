"""The cache of compiled libraries, and the checks before one is loaded.

A loaded library runs with all rights of the user. Therefore a library is used only if nobody but the user can have
written it, and only unchanged: its name ends with the digest of its content. Everything else is compiled again.
"""

import atexit
import contextlib
import functools
import hashlib
import os
import shutil
import stat
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

OTHERS = stat.S_IWGRP | stat.S_IWOTH
DRAFT = ".new-"
HOUR = 3600


@dataclass(frozen=True)
class Cache:
    """The folder of the user's libraries, or None with the reason."""

    folder: Path | None
    reason: str = ""


@functools.cache
def cache() -> Cache:
    """`$XDG_CACHE_HOME/foveate/native`, created if necessary, provided that only the user can write to it."""
    home = _cache_home()
    if home is None:
        return Cache(None, "there is no home folder")
    folder = home / "foveate" / "native"
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        for own in (folder.parent, folder):
            with contextlib.suppress(FileExistsError):
                own.mkdir(mode=0o700)
        reason = _exposure(folder)
    except OSError as error:
        reason = f"{folder} cannot be used: {error.strerror or error}"
    return Cache(None, reason) if reason else Cache(folder)


def find(stem: str) -> Path | None:
    """The undamaged library whose name begins with `stem`. A damaged one is removed, so that it is compiled again."""
    folder = cache().folder
    if folder is None:
        return None
    for library in sorted(folder.glob(f"{stem}-*.so")):
        if _is_sound(library):
            return library
        with contextlib.suppress(OSError):
            library.unlink()
    return None


def keep(library: Path, stem: str) -> Path:
    """Copies a library into the cache, completely or not at all; returns the path for loading it."""
    folder = cache().folder
    if folder is None:
        return library
    content = library.read_bytes()
    target = folder / f"{stem}-{_digest(content)}.so"
    draft = folder / f"{DRAFT}{os.getpid()}-{target.name}"
    try:
        _remove_stale(folder)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.replace(draft, target)
        _flush(folder)
    except OSError:  # the disk is full or the cache read-only: this process loads the original
        with contextlib.suppress(OSError):
            draft.unlink()
        return library
    return target


_workplace: Path | None = None


def workplace() -> Path:
    """A private folder of this process, removed at exit, and made again if it was removed. Raises OSError."""
    global _workplace
    if _workplace is None or not _workplace.is_dir():
        _workplace = _new_workplace()
    return _workplace


def _new_workplace() -> Path:
    try:
        folder = Path(tempfile.mkdtemp(prefix="foveate-native-"))
    except OSError:
        if (parent := cache().folder) is None:
            raise
        folder = Path(tempfile.mkdtemp(prefix=DRAFT, dir=parent))
    atexit.register(_remove_own, folder, os.getpid())
    return folder


def _remove_own(folder: Path, creator: int) -> None:
    """Removes a folder in the process that has made it, and not in one that was forked from it."""
    if os.getpid() == creator:
        shutil.rmtree(folder, ignore_errors=True)


def forget() -> None:
    """Read the environment again."""
    cache.cache_clear()


def _cache_home() -> Path | None:
    """The user's cache folder. Relative paths are ignored, because the working folder may belong to somebody else."""
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if configured.is_absolute():
        return configured
    try:
        home = Path(os.environ["HOME"] if "HOME" in os.environ else Path.home())
    except RuntimeError:
        return None
    return home / ".cache" if home.is_absolute() else None


def _exposure(folder: Path) -> str:
    """Why another user could write into a folder; empty if only the user can."""
    user = os.geteuid()
    for own in (folder, folder.parent):
        state = own.lstat()
        if stat.S_ISLNK(state.st_mode):
            return f"{own} is a link"
        if not stat.S_ISDIR(state.st_mode):
            return f"{own} is not a folder"
        if state.st_uid != user:
            return f"{own} belongs to somebody else"
        if state.st_mode & OTHERS:
            return f"others may write to {own}"
    above = folder.parent.parent
    for path in dict.fromkeys((above, *above.parents, above.resolve(), *above.resolve().parents)):
        state = path.lstat()
        if stat.S_ISLNK(state.st_mode):
            exposed = state.st_uid not in (user, 0)
        else:  # in a sticky folder like /tmp, users cannot rename files of others
            exposed = _others_may_write(state) and not state.st_mode & stat.S_ISVTX
        if exposed:
            return f"others may write to {path}"
    return ""


def _others_may_write(state: os.stat_result) -> bool:
    """Whether others may write. A private group of the user, which many systems create, does not count."""
    if state.st_mode & stat.S_IWOTH:
        return True
    return bool(state.st_mode & stat.S_IWGRP) and not _is_private(state.st_gid)


def _is_private(group: int) -> bool:
    import grp
    import pwd

    try:
        return grp.getgrgid(group).gr_name == pwd.getpwuid(os.geteuid()).pw_name and not grp.getgrgid(group).gr_mem
    except KeyError:
        return False


def _is_sound(library: Path) -> bool:
    """Whether a library belongs to the user and has the content of the digest in its name."""
    try:
        descriptor = os.open(library, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            state = os.fstat(descriptor)
            ours = stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid() and state.st_nlink == 1
            return ours and not state.st_mode & OTHERS and library.stem.endswith(f"-{_digest(file.read())}")
    except OSError:
        return False


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def _remove_stale(folder: Path) -> None:
    """Remove the files of processes that were killed while writing."""
    for path in folder.glob(f"{DRAFT}*"):
        if time.time() - path.lstat().st_mtime > HOUR:
            path.unlink() if not path.is_dir() else shutil.rmtree(path, ignore_errors=True)


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
