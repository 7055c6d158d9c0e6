"""Keeps the rows of an interrupted preparation, so that the next attempt makes only those that are missing.

Rows are kept in parts, each written completely or not at all, after some seconds of work. A row is found again by its
row maker, its thing, and the size and time of the thing's file; if one of them has changed, the row is made again.
"""

import contextlib
import hashlib
import json
import shutil
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from foveate import __version__
from foveate.data.reader import RowMaker
from foveate.data.row import Row
from foveate.data.variant import varies
from foveate.storage.draft import disk_errors, remove_stale, replace_file
from foveate.voice import say

SECONDS = 5.0
"""A part is written after so much work, which is the most that a killed process loses."""
LARGEST = 1 << 28
"""The largest size of a part, in bytes."""
_INDEX = "index"
_ARRAYS = ("values", "places", "edges")


@contextlib.contextmanager
def resumable(folder: Path, rows: RowMaker) -> Iterator["Preparation"]:
    """A maker of the same rows that keeps them beside `folder` until the preparation of this folder has succeeded.

    Rows of things without a file are not kept. The next preparation of the same folder reads what is there, after an
    error, Ctrl-C, or a killed process.
    """
    parts = folder.parent / f".rows-{folder.name}"
    preparation = Preparation(parts, rows)
    try:
        yield preparation
    except BaseException:  # including Ctrl-C
        preparation.keep()
        if parts.exists():
            say("What is prepared is kept: the same command goes on from there.")
        raise
    finally:
        preparation.close()
    shutil.rmtree(parts, ignore_errors=True)


class Preparation:
    """A row maker whose rows survive the process."""

    def __init__(self, folder: Path, rows: RowMaker) -> None:
        self.folder, self.maker = folder, rows
        self._maker = json.dumps([__version__, rows.digests()], sort_keys=True)
        self._kept: dict[bytes, tuple[Path, int]] = {}
        self._open: tuple[Path, Any, Any] | None = None
        self._waiting: list[tuple[bytes, list[Row]]] = []
        self._size, self._since = 0, time.monotonic()
        if folder.exists():
            remove_stale(folder)
        for path in sorted(folder.glob("*.npz")):
            self._index(path)
        self.reused = 0
        """The number of rows, or groups of variants, that did not have to be made."""

    def row(self, thing: Any) -> Row:
        """The row of a thing, made or kept."""
        (row,) = self._rows(thing, "row")
        return row

    def variants(self, thing: Any) -> list[Row]:
        """The other rows of a training example, made or kept."""
        return self._rows(thing, "variants") if varies(self.maker) else []

    def keep(self) -> None:
        """Write the rows that are in memory."""
        if not self._waiting:
            return
        with disk_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        number = max((int(path.stem) for path in self.folder.glob("*.npz")), default=-1) + 1
        arrays, index = dict[str, np.ndarray](), list[Any]()
        for key, rows in self._waiting:
            entry = [[name for name in _ARRAYS if getattr(row, name) is not None] for row in rows]
            for place, row in enumerate(rows):
                for name in entry[place]:
                    arrays[f"{len(index)}.{place}.{name}"] = getattr(row, name)
            index.append([key.hex(), entry, [list(row.remarks) for row in rows]])
        arrays[_INDEX] = np.frombuffer(json.dumps(index).encode(), np.uint8)
        path = self.folder / f"{number:06}.npz"
        replace_file(path, lambda draft: _save(draft, arrays))
        self._waiting, self._size, self._since = [], 0, time.monotonic()

    def close(self) -> None:
        """Close the part that was read last."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _rows(self, thing: Any, kind: str) -> list[Row]:
        file = _file(thing)
        key = b"" if file is None else self._key(thing, file, kind)
        if key in self._kept and (rows := self._read(*self._kept[key])) is not None:
            self.reused += 1
            return rows
        maker: Any = self.maker
        fresh: list[Row] = [maker.row(thing)] if kind == "row" else maker.variants(thing)
        if key:
            self._waiting.append((key, fresh))
            self._size += sum(row.values.nbytes for row in fresh)
            if self._size > LARGEST or time.monotonic() - self._since > SECONDS:
                self.keep()
        return fresh

    def _key(self, thing: Any, file: Path, kind: str) -> bytes:
        try:
            status = file.stat()
        except OSError:
            return b""  # whoever reads the file says what is wrong
        plain = json.dumps([self._maker, kind, str(thing), repr(thing), status.st_size, status.st_mtime_ns])
        return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).digest()

    def _index(self, path: Path) -> None:
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                index = json.loads(bytes(archive[_INDEX]))
            keys = [bytes.fromhex(entry[0]) for entry in index]
        except (OSError, ValueError, KeyError, TypeError, IndexError, EOFError, zipfile.BadZipFile):
            path.unlink(missing_ok=True)  # damaged: its rows are made again
            return
        self._kept |= {key: (path, number) for number, key in enumerate(keys)}

    def _read(self, path: Path, number: int) -> list[Row] | None:
        """Rows of a part; None if it is damaged."""
        try:
            if self._open is None or self._open[0] != path:
                self.close()
                archive = np.load(path, allow_pickle=False)
                self._open = path, archive, json.loads(bytes(archive[_INDEX]))
            _, archive, index = self._open
            _, entry, remarks = index[number]
            return [
                Row(**{name: archive[f"{number}.{place}.{name}"] for name in names}, remarks=tuple(remarks[place]))
                for place, names in enumerate(entry)
            ]
        except (OSError, ValueError, KeyError, TypeError, IndexError, EOFError, zipfile.BadZipFile):
            return None


def _file(thing: Any) -> Path | None:
    """The file of a thing: itself, or its `path`."""
    path = getattr(thing, "path", thing)
    return path if isinstance(path, Path) else None


def _save(path: Path, arrays: dict[str, Any]) -> None:
    with path.open("wb") as file:
        np.savez(file, **arrays)
