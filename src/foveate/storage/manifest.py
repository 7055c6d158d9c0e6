"""Folders and files that are whole or absent, and know when they are damaged.

A folder is filled under a temporary name, every file is flushed to the disk, a MANIFEST with the size and SHA-256 of
each is added, and the folder is renamed to its final name in one step. A process killed at any moment leaves the old
state or the new one. The manifest's first line is the digest of its other lines, so that damage to the manifest
itself is noticed too.
"""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from foveate.errors import DataError, SetupError

MANIFEST = "MANIFEST"
TEMPORARY = ".tmp-"
REPLACED = f"{TEMPORARY}old-"


class DamagedError(DataError):
    """A folder or file differs from what was written; the message says which and how."""


@contextlib.contextmanager
def sealed_folder(target: Path, *, size: int = 0) -> Iterator[Path]:
    """Yields an empty folder to fill; on a clean exit it becomes `target`, otherwise nothing is left of it.

    `size` is the number of bytes about to be written, for a check of the free space. Raises SetupError when the disk
    is full.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    require_space(target.parent, size)
    folder = target.parent / f"{TEMPORARY}{target.name}-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        with disk_errors(target, size):
            yield folder
            _seal(folder)
            _publish(folder, target)
    except BaseException:  # SafetensorError is no OSError, and Ctrl-C is no Exception
        shutil.rmtree(folder, ignore_errors=True)
        raise


def verify(folder: Path) -> None:
    """Raises DamagedError unless every file in the manifest is there, with its size and digest."""
    for name, (digest, size) in _read_manifest(folder).items():
        path = folder / name
        try:
            found = path.stat().st_size
        except OSError:
            raise DamagedError(f"{path} is missing.") from None
        if found != size:
            raise DamagedError(f"{path} has {found:,} bytes but {size:,} were written.")
        if file_digest(path) != digest:
            raise DamagedError(f"{path} has changed since it was written: its SHA-256 differs.")


def replace_file(path: Path, write: Callable[[Path], Any]) -> None:
    """Writes a file in a temporary folder beside it, flushes it to the disk and renames it over `path`."""
    folder = path.with_name(f"{TEMPORARY}{path.name}-{os.getpid()}")
    try:
        with disk_errors(path):
            folder.mkdir(exist_ok=True)
            write(folder / path.name)
            _flush(folder / path.name)
            os.replace(folder / path.name, path)
            _flush(path.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Plain data as a readable JSON file, replaced atomically."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    replace_file(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def read_json(path: Path) -> dict[str, Any]:
    """The mapping in a JSON file; raises DamagedError when the file is missing or holds something else."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DamagedError(f"{path} is missing.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedError(f"{path} cannot be read as JSON: {error}.") from None
    if not isinstance(value, dict):
        raise DamagedError(f"{path} holds a {type(value).__name__}, not a mapping.")
    return value


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """A safetensors file with the mode that the umask gives (safetensors alone writes 0600)."""
    path.touch()
    mode = path.stat().st_mode
    save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path)
    path.chmod(mode)


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file, in memory of their own rather than in the mapped file."""
    try:
        return {name: tensor.clone() for name, tensor in load_file(path).items()}
    except FileNotFoundError:
        raise DamagedError(f"{path} is missing.") from None
    except (OSError, SafetensorError) as error:
        raise DamagedError(f"{path} cannot be read as safetensors: {error}.") from None


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_space(folder: Path, size: int) -> None:
    """Raises SetupError when fewer than `size` bytes are free at `folder`."""
    free = shutil.disk_usage(folder).free
    if free < size:
        raise SetupError(_disk_full(folder, f"{_megabytes(size)} are needed, {_megabytes(free)} are free"))


@contextlib.contextmanager
def disk_errors(path: Path, size: int = 0) -> Iterator[None]:
    """Turns failures to write into one sentence."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        free = shutil.disk_usage(path.parent).free
        full = getattr(error, "errno", None) == 28 or "No space left" in str(error)
        if full:
            needed = f"{_megabytes(size)} are needed, " if size else ""
            raise SetupError(_disk_full(path.parent, f"{needed}{_megabytes(free)} are free")) from error
        raise SetupError(f"Cannot write {path}: {error}. What was saved before is untouched.") from error


def remove_stale(folder: Path) -> None:
    """Deletes what killed processes left behind, and completes a replacement that was cut in the middle.

    To be called by the only process that writes here.
    """
    for path in folder.glob(f"{TEMPORARY}*"):
        replaced = folder / path.name.removeprefix(REPLACED)
        if path.name.startswith(REPLACED) and not replaced.exists():
            path.rename(replaced)
        elif path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _seal(folder: Path) -> None:
    lines = []
    for path in sorted(folder.iterdir()):
        _flush(path)
        lines.append(f"{file_digest(path)} {path.stat().st_size} {path.name}\n")
    body = "".join(lines)
    manifest = folder / MANIFEST
    manifest.write_text(f"{hashlib.sha256(body.encode()).hexdigest()}\n{body}", encoding="utf-8")
    _flush(manifest)
    _flush(folder)


def _publish(folder: Path, target: Path) -> None:
    """Renames the folder to its final name; one that has this name already (damaged, or the same step) makes way."""
    if not target.exists():
        os.rename(folder, target)
    else:
        old = target.parent / f"{REPLACED}{target.name}"
        shutil.rmtree(old, ignore_errors=True)
        os.rename(target, old)
        try:
            os.rename(folder, target)
        except BaseException:
            os.rename(old, target)
            raise
        shutil.rmtree(old, ignore_errors=True)
    _flush(target.parent)


def _read_manifest(folder: Path) -> dict[str, tuple[str, int]]:
    path = folder / MANIFEST
    try:
        own, body = path.read_bytes().split(b"\n", 1)
    except OSError:
        raise DamagedError(f"{path} is missing.") from None
    except ValueError:
        raise DamagedError(f"{path} is cut short.") from None
    if hashlib.sha256(body).hexdigest().encode() != own:
        raise DamagedError(f"{path} has changed since it was written: its SHA-256 differs.")
    entries = (line.split(" ", 2) for line in body.decode().splitlines())
    return {name: (digest, int(size)) for digest, size, name in entries}


def _flush(path: Path) -> None:
    """Forces a file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _disk_full(folder: Path, figures: str) -> str:
    return f"The disk is full: {figures} at {folder}. Free some space; what was saved before is untouched."


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
