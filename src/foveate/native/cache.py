"""Where compiled libraries are kept, and which of those that lie there may be loaded.

What is loaded runs with all rights of the user. So a library counts only where nobody but the user can have put it, and
only as it was written: its name ends with the digest of its content. Everything else is compiled anew.
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
    """The folder of the user's libraries, or None and the reason."""

    folder: Path | None
    reason: str = ""


@functools.cache
def cache() -> Cache:
    """`$XDG_CACHE_HOME/foveate/native`, which is made if it has to be, when it is the user's alone."""
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
    """The library whose name begins so, as it was written. A damaged one is removed, so that it is compiled anew."""
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
    """Copies a library into the cache, whole or not at all; returns where it is to be loaded from."""
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
    except OSError:  # a full disk, a cache that may only be read: this process can do without
        with contextlib.suppress(OSError):
            draft.unlink()
        return library
    return target


@functools.cache
def workplace() -> Path:
    """A folder of this process that nobody else may enter; it is removed at exit. Raises OSError."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="foveate-native-"))
    except OSError:
        if (kept := cache().folder) is None:
            raise
        folder = Path(tempfile.mkdtemp(prefix=DRAFT, dir=kept))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def forget() -> None:
    """Look at the environment anew."""
    cache.cache_clear()


def _cache_home() -> Path | None:
    """Relative places do not count: the working folder may be anybody's."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if named.is_absolute():
        return named
    try:
        home = Path(os.environ["HOME"] if "HOME" in os.environ else Path.home())
    except RuntimeError:
        return None
    return home / ".cache" if home.is_absolute() else None


def _exposure(folder: Path) -> str:
    """Why somebody else could have put something into a folder; empty where only the user can."""
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
        else:  # in a folder like /tmp, nobody can rename what is somebody else's
            exposed = _others_may_write(state) and not state.st_mode & stat.S_ISVTX
        if exposed:
            return f"others may write to {path}"
    return ""


def _others_may_write(state: os.stat_result) -> bool:
    """A group of nobody but the user, which many systems make for each, is no other."""
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
    """Whether a library is a file of the user's with the content that its name promises."""
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
    """What processes left that were killed while they wrote."""
    for path in folder.glob(f"{DRAFT}*"):
        if time.time() - path.lstat().st_mtime > HOUR:
            path.unlink() if not path.is_dir() else shutil.rmtree(path, ignore_errors=True)


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
