"""Detects damage to folders and files by digests.

A sealed folder has a MANIFEST with the size and SHA-256 of each of its files. The manifest's first line is the digest
of its other lines, so that damage to the manifest itself is detected too.
"""

import contextlib
import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any

from foveate.config import parse_json
from foveate.errors import DataError
from foveate.storage.draft import draft_folder, write_file

MANIFEST = "MANIFEST"


class DamagedError(DataError):
    """A folder or file is damaged; the message says which and how."""


@contextlib.contextmanager
def sealed_folder(target: Path, *, size: int = 0, digests: Mapping[str, str] | None = None) -> Iterator[Path]:
    """A `draft_folder` with a manifest, which is written before the folder appears.

    `digests` are those of files, by name, that other processes write and know; the caller may fill it in the context.
    """
    with draft_folder(target, size=size) as folder:
        yield folder
        _seal(folder, digests or {})


def sealed_names(folder: Path) -> set[str] | None:
    """The names of a sealed folder's files, its manifest included; None if it has no manifest that can be read."""
    try:
        return {MANIFEST, *_read_manifest(folder)}
    except DamagedError:
        return None


def verify(folder: Path) -> None:
    """Raises DamagedError unless every file in the manifest exists with its size and digest."""
    for name, (digest, size) in _read_manifest(folder).items():
        path = folder / name
        try:
            actual = path.stat().st_size
        except OSError:
            raise DamagedError(f"{path} is missing.") from None
        if actual != size:
            raise DamagedError(f"{path} has {actual:,} bytes but {size:,} were written.")
        if file_digest(path) != digest:
            raise DamagedError(f"{path} has changed since it was written: its SHA-256 differs.")


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Plain data as a readable JSON file, replaced atomically."""
    write_file(path, (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """The mapping in a JSON file. Raises DamagedError if the file is missing or contains something else."""
    try:
        value = parse_json(read_file(path))
    except FileNotFoundError:
        raise DamagedError(f"{path} is missing.") from None
    except (OSError, ValueError) as error:
        raise DamagedError(f"{path} cannot be read as JSON: {error}.") from None
    if not isinstance(value, dict):
        raise DamagedError(f"{path} holds a {type(value).__name__}, not a mapping.")
    return value


def read_file(path: Path) -> bytes:
    """A file's content. Raises OSError, also for a device or a pipe, which may never end."""
    with _opened(path) as file:
        return file.read()


def _opened(path: Path) -> BufferedReader:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a file")
    return os.fdopen(descriptor, "rb")


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal. Raises DamagedError if it cannot be read or is not a regular file."""
    try:
        with _opened(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DamagedError(f"{path} cannot be read: {error.strerror or error}.") from None


def files_digest(files: Sequence[Path]) -> str:
    """SHA-256 of a file; of several in a folder, that of their list as `sha256sum` prints it. Raises as
    `file_digest`.
    """
    if len(files) == 1:
        return file_digest(files[0])
    listed = "".join(f"{file_digest(file)}  {file.name}\n" for file in files)
    return hashlib.sha256(listed.encode()).hexdigest()


def _seal(folder: Path, known: Mapping[str, str]) -> None:
    body = "".join(
        f"{known.get(path.name) or file_digest(path)} {path.stat().st_size} {path.name}\n"
        for path in sorted({*folder.iterdir(), *(folder / name for name in known)})
    )
    (folder / MANIFEST).write_text(f"{hashlib.sha256(body.encode()).hexdigest()}\n{body}", encoding="utf-8")


def _read_manifest(folder: Path) -> dict[str, tuple[str, int]]:
    path = folder / MANIFEST
    try:
        own, body = read_file(path).split(b"\n", 1)
    except OSError:
        raise DamagedError(f"{path} is missing.") from None
    except ValueError:
        raise DamagedError(f"{path} is truncated.") from None
    if hashlib.sha256(body).hexdigest().encode() != own:
        raise DamagedError(f"{path} has changed since it was written: its SHA-256 differs.")
    try:
        entries = [line.split(" ", 2) for line in body.decode().splitlines()]
        files = {name: (digest, int(size)) for digest, size, name in entries}
    except ValueError:
        raise DamagedError(f"{path} does not list digests, sizes and names.") from None
    if outside := [name for name in files if name != Path(name).name or name in (".", "..")]:
        raise DamagedError(f"{path} names {outside[0][:60]!r}, which is not in its folder.")
    return files
