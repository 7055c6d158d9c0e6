"""Copies remote files to this machine, each content once, by its SHA-256: `s3://bucket/train.en`, `https://…`.

Copies are in `$FOVEATE_STAGED`, by default `$XDG_CACHE_HOME/foveate/staged` or `~/.cache/foveate/staged`, and may be
deleted at any time. A file is copied again when its size, time or tag has changed, as far as its server tells them; an
address that ends with `#sha256=…` is refused with any other content, also that of a copy. The package fsspec reads the
addresses.
"""

import contextlib
import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from foveate.errors import DataError, SetupError
from foveate.storage.draft import TEMPORARY, disk_errors, flush, require_space
from foveate.storage.manifest import DamagedError, file_digest, read_json, write_json
from foveate.suggestion import missing_file
from foveate.voice import say

CHUNK = 1 << 20
_DIGEST = "#sha256="


def is_remote(path: Path | str) -> bool:
    """Whether a name is the address of a remote file.

    >>> is_remote("s3://bucket/train.en"), is_remote("train.en")
    (True, False)
    """
    return isinstance(path, str) and "://" in path


def staged(address: str) -> Iterator[tuple[str, Path]]:
    """The files at an address, in the order of their names if it ends with a slash: address and copy of each.

    Each is copied when it is its turn. Raises DataError for an address that cannot be read or has another digest,
    SetupError without fsspec or a package that it needs for the protocol, and for a full disk.
    """
    place, asks, digest = address.partition(_DIGEST)
    if asks and not re.fullmatch("[0-9a-fA-F]{64}", digest):
        raise DataError(f"{address}: a SHA-256 has 64 digits of 0 to 9 and a to f, and this is {digest!r}.")
    if not place.endswith("/"):
        yield place, _copy(place, digest)
        return
    if digest:
        raise DataError(f"{address}: a digest belongs to one file, and this is the address of a folder.")
    with _remote_errors(place):
        system, path = _system(place)
        files = sorted(entry["name"] for entry in system.ls(path, detail=True) if entry["type"] == "file")
    if not files:
        raise DataError(f"{place} has no files. Name a folder with files, or a file, without the slash at the end.")
    for file in files:
        named = str(system.unstrip_protocol(file))
        yield named, _copy(named, "")


def stamps(path: str | None) -> list[list[object]]:
    """Name, size and time of a file, or of the copies of a remote one; none without a path.

    Raises DataError for a file that does not exist or may not be looked at.
    """
    if path is None:
        return []
    files = [copy for _, copy in staged(path)] if is_remote(path) else [Path(path)]
    try:
        return [[str(file.absolute()), file.stat().st_size, file.stat().st_mtime_ns] for file in files]
    except FileNotFoundError:
        raise DataError(missing_file(Path(path))) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None


def _copy(address: str, digest: str) -> Path:
    """The copy of a remote file, which is made if there is none of its present state."""
    home, key = _home(), hashlib.sha256(address.encode()).hexdigest()
    with _remote_errors(address):
        system, path = _system(address)
        state = json.dumps({name: str(value) for name, value in sorted(system.info(path).items())})
    index = home / "addresses" / f"{key}.json"
    known = _known(index, state)
    copy = None if known is None else home / known / _name(address)
    if known is None or copy is None or not copy.exists() or (digest and file_digest(copy) != known):
        known, copy = _fetch(system, path, address, home)
        with disk_errors(index):
            index.parent.mkdir(parents=True, exist_ok=True)
        write_json(index, {"address": address, "state": state, "sha256": known})
    if digest and digest.lower() != known:
        raise DataError(f"{address} has the SHA-256 {known}, but the address asks for {digest}.")
    return copy


def _fetch(system: Any, path: str, address: str, home: Path) -> tuple[str, Path]:
    """Copy a file under a temporary name, and give it that of its digest."""
    say(f"Copying {address} to {home}.")
    draft = home / f"{TEMPORARY}{uuid.uuid4().hex}"  # containers that share the folder have the same process numbers
    digest = hashlib.sha256()
    with disk_errors(draft):
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        with _remote_errors(address):
            source = system.open(path, "rb")
        with source, disk_errors(draft), draft.open("wb") as out:
            size = system.info(path).get("size")
            require_space(home, size or 0)
            while chunk := _read(source, address):
                digest.update(chunk)
                out.write(chunk)
            if size is not None and out.tell() != size:
                raise DataError(
                    f"{address} has {size:,} bytes, but {out.tell():,} arrived. It has changed meanwhile, or the "
                    "connection broke: try again."
                )
        flush(draft)
        copy = home / digest.hexdigest() / _name(address)
        with disk_errors(copy):
            copy.parent.mkdir(exist_ok=True)
            os.replace(draft, copy)
            flush(copy.parent)
    finally:
        draft.unlink(missing_ok=True)
    return digest.hexdigest(), copy


def _read(source: Any, address: str) -> bytes:
    with _remote_errors(address):
        return bytes(source.read(CHUNK))


def _known(index: Path, state: str) -> str | None:
    """The digest of the content that an address had in this state."""
    if not index.exists():
        return None
    try:
        entry = read_json(index)
    except DamagedError:
        return None
    return str(entry["sha256"]) if entry.get("state") == state and "sha256" in entry else None


def _name(address: str) -> str:
    """The file name of an address, whose ending says how to unpack it."""
    return address.partition("?")[0].rstrip("/").rpartition("/")[2] or "file"


def _home() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("FOVEATE_STAGED") or Path(cache) / "foveate" / "staged")


def _system(address: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise SetupError(f"To read {address}, foveate needs fsspec: `pip install 'foveate[remote]'`.") from None
    system, path = url_to_fs(address)
    return system, str(path)


@contextlib.contextmanager
def _remote_errors(address: str) -> Iterator[None]:
    """Turns the errors of a remote file into one sentence."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{address} does not exist. Check the address.") from None
    except ImportError as error:
        raise SetupError(f"{address} cannot be read: {error}. Install the package that this names, with pip.") from None
    except (DataError, SetupError):
        raise
    except Exception as error:  # fsspec's file systems have errors of their own
        raise DataError(f"{address} cannot be read: {error or type(error).__name__}.") from None
