"""Writes the files of a store of rows as a stream, which may be interrupted and go on."""

import contextlib
import hashlib
import json
import os
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from jaxtyping import Float, Integer

from foveate.data.level import Levels
from foveate.errors import DataError
from foveate.storage.draft import draft_folder, flush

Writer = TypeVar("Writer", bound="RowWriter")
OFFSETS = "offsets.bin"
CHUNK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Written:
    """The rows of an unfinished store that are on the disk."""

    rows: int = 0
    values: int = 0
    sizes: dict[str, int]
    """The bytes of each file."""


class RowWriter(ABC):
    """Appends rows to the files of a new store, with one chunk in memory."""

    format: ClassVar[str]
    file: ClassVar[str]

    def __init__(self, folder: Path, dtype: str, written: Written | None = None) -> None:
        """`written` is what another writer has left in the folder, as its `keep` has described it."""
        self._dtype = np.dtype(dtype)
        self._closing = contextlib.ExitStack()
        sizes = {self.file: 0, OFFSETS: 0} if written is None else written.sizes
        self._files, self._digests = {}, {}
        for name, size in sizes.items():
            file = self._closing.enter_context((folder / name).open("r+b" if size else "w+b"))
            file.truncate(size)
            self._files[name], self._digests[name] = file, hashlib.file_digest(file, "sha256")
        self._offsets = array("q", [] if written else [0])
        self.num_rows, self.num_values = (written.rows, written.values) if written else (0, 0)

    @abstractmethod
    def _chunk(self) -> np.ndarray:
        """Return the values in memory in their file format, and clear them."""

    @abstractmethod
    def _counts(self) -> dict[str, int]:
        """The entries of the index that describe the values."""

    def keep(self) -> Written:
        """Put all rows on the disk, from where a later writer of the same folder goes on."""
        self._drain()
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        sizes = {name: file.tell() for name, file in self._files.items()}
        return Written(rows=self.num_rows, values=self.num_values, sizes=sizes)

    def finish(self) -> dict[str, Any]:
        """Write the rest and return the index."""
        self._drain()
        digests = {name: digest.hexdigest() for name, digest in self._digests.items()}
        counts = {"rows": self.num_rows, **self._counts()}
        return {"format": self.format, **counts, "dtype": self._dtype.str, "sha256": digests}

    def close(self) -> None:
        self._closing.close()

    def _count(self, values: int) -> None:
        self.num_rows += 1
        self.num_values += values
        self._offsets.append(self.num_values)

    def _drain(self) -> None:
        offsets = np.array(self._offsets, dtype="<i8")
        for name, part in ((self.file, self._chunk()), (OFFSETS, offsets)):
            self._files[name].write(part.tobytes())
            self._digests[name].update(part.tobytes())
        self._offsets = array("q")


class TokenWriter(RowWriter):
    """Appends rows of ids."""

    format, file = "foveate token store 1", "tokens.bin"

    def __init__(self, folder: Path, dtype: str, written: Written | None = None) -> None:
        super().__init__(folder, dtype, written)
        self._tokens = array("q")

    def append(self, row: Sequence[int]) -> None:
        self._tokens.extend(row)
        self._count(len(row))
        if len(self._tokens) >= CHUNK or len(self._offsets) >= CHUNK:
            self._drain()

    def extend(self, values: Integer[np.ndarray, " values"], lengths: Integer[np.ndarray, " rows"]) -> None:
        """Append rows that stand one after the other."""
        self._tokens.frombytes(values.astype(np.int64).tobytes())
        self._offsets.frombytes((self.num_values + np.cumsum(lengths, dtype=np.int64)).tobytes())
        self.num_rows += len(lengths)
        self.num_values += len(values)
        if len(self._tokens) >= CHUNK or len(self._offsets) >= CHUNK:
            self._drain()

    def _counts(self) -> dict[str, int]:
        return {"tokens": self.num_values}

    def _chunk(self) -> np.ndarray:
        tokens = np.frombuffer(self._tokens, dtype=np.int64) if self._tokens else np.empty(0, np.int64)
        limits = np.iinfo(self._dtype)
        if len(tokens) and not (tokens.min() >= 0 and tokens.max() <= limits.max):
            raise DataError(
                f"Ids must be from 0 to {limits.max:,}, got some from {tokens.min():,} to {tokens.max():,}."
            )
        self._tokens = array("q")
        return tokens.astype(self._dtype)


class FeatureWriter(RowWriter):
    """Appends rows of vectors. Raises DataError for another width, and for numbers outside the dtype."""

    format, file = "foveate feature store 1", "features.bin"

    def __init__(self, folder: Path, dtype: str, width: int, levels: Levels | None = None) -> None:
        super().__init__(folder, dtype)
        self.width, self.levels = width, levels
        self._vectors: list[np.ndarray] = []
        self._waiting = 0

    def append(self, row: Float[np.ndarray, "length width"]) -> None:
        if row.ndim != 2 or row.shape[1] != self.width:
            raise DataError(
                f"A row has the shape {row.shape}, but this store contains vectors of {self.width} numbers."
            )
        with np.errstate(over="ignore"):
            stored = row.astype(self._dtype) if self.levels is None else self.levels.bytes(row)
        if not np.isfinite(stored).all():
            raise DataError(f"A row has a number that is not finite, or too large for {self._dtype.name}.")
        self._vectors.append(stored)
        self._waiting += stored.size
        self._count(len(row))
        if self._waiting >= CHUNK or len(self._offsets) >= CHUNK:
            self._drain()

    def _counts(self) -> dict[str, int]:
        return {"vectors": self.num_values, "width": self.width}

    def _chunk(self) -> np.ndarray:
        vectors = np.concatenate([np.empty((0, self.width), self._dtype), *self._vectors])
        self._vectors, self._waiting = [], 0
        return vectors


@contextlib.contextmanager
def writing(folder: Path | str, make: Callable[[Path], Writer], **more: Any) -> Iterator[Writer]:
    """A writer in a folder that is written completely, with its index, or not at all."""
    with draft_folder(Path(folder)) as draft:
        writer = make(draft)
        try:
            yield writer
            index = {**writer.finish(), **more}
        finally:
            writer.close()
        write_index(draft, index)


def write_index(folder: Path, index: dict[str, Any]) -> None:
    """Complete a store by its index, which has its own digest."""
    index["digest"] = index_digest(index)
    path = folder / "index.json"
    path.write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
    flush(path)


def token_type(vocab_size: int | None) -> str:
    """The type of stored ids: two bytes in vocabularies of up to 65,536, else four."""
    return "<u2" if vocab_size is not None and vocab_size <= 1 << 16 else "<u4"


def index_digest(index: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(index, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()
