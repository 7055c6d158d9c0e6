"""Stores rows in memory-mapped files, which are written as a stream, so that a corpus need not fit in memory.

A store is a folder: the values of all rows one after the other (`tokens.bin`: ids of 16 or 32 bits; `features.bin`:
vectors of one width, floats of 16 or 32 bits or bytes; little endian), `offsets.bin` (where each row begins, 64 bits,
one more than rows) and `index.json` (counts, SHA-256 of both, for ids the digest of the tokeniser, for vectors their
width, and for bytes the numbers that they stand for).
"""

import contextlib
import mmap
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from jaxtyping import Int64

from foveate.config import build, parse_json
from foveate.data.level import Levels
from foveate.data.row_writer import CHUNK, OFFSETS, FeatureWriter, TokenWriter, index_digest, token_type, writing
from foveate.errors import DataError, UsageError
from foveate.storage.manifest import file_digest

Store = TypeVar("Store", bound="RowStore")
VectorType = Literal["float16", "float32"]
"""The type of stored vectors, unless they are bytes."""
_AGAIN = "Prepare the data again."


@dataclass(frozen=True, kw_only=True)
class _Index:
    """The content of `index.json` for all kinds of rows."""

    format: str
    rows: int
    sha256: dict[str, str]

    def __post_init__(self) -> None:
        if min(value for value in vars(self).values() if isinstance(value, int)) < 0:
            raise ValueError("counts in a store cannot be negative")
        if len(self.sha256) != 2 or OFFSETS not in self.sha256:
            raise ValueError("sha256 must contain the digests of the values and of the offsets")


@dataclass(frozen=True, kw_only=True)
class _TokenIndex(_Index):
    tokens: int
    dtype: Literal["<u2", "<u4"]
    tokeniser: str


@dataclass(frozen=True, kw_only=True)
class _FeatureIndex(_Index):
    vectors: int
    width: int
    dtype: Literal["<f2", "<f4", "|u1"]
    offset: tuple[float, ...] = ()
    step: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.dtype == "|u1") != bool(self.step):
            raise ValueError("bytes need offset and step, and floats have none")
        if self.step:
            Levels(self.offset, self.step).require(self.width)


class RowStore(ABC):
    """A sequence of rows on disk.

    `store[i]` is a read-only view into the file; `lengths` are the numbers of values in the rows.
    """

    format: ClassVar[str]
    """The name of this kind of store in `index.json`."""
    kind: ClassVar[str]
    """The name of this kind of store in messages."""
    file: ClassVar[str]
    index: ClassVar[type[_Index]]

    def __init__(self, folder: Path, index: dict[str, Any]) -> None:
        self.folder, self._index = folder, index
        self._values = _map(folder / self.file, np.dtype(index["dtype"]), self._shape(index))
        self._offsets = _map(folder / OFFSETS, np.dtype("<i8"), (index["rows"] + 1,))
        if self._offsets[0] != 0 or self._offsets[-1] != len(self._values) or self._shortest() < 0:
            raise DataError(f"{folder / OFFSETS} has changed: it does not contain the beginnings of rows. {_AGAIN}")

    @staticmethod
    @abstractmethod
    def _shape(index: Mapping[str, Any]) -> tuple[int, ...]:
        """The shape of the values of all rows together."""

    @classmethod
    def open(cls: type[Store], folder: Path | str) -> Store:
        """Map the files into memory. Raises DataError if a file is missing or its size has changed."""
        folder = Path(folder)
        path = folder / "index.json"
        try:
            index = parse_json(path.read_bytes())
            digest = index.pop("digest")
        except FileNotFoundError:
            raise DataError(
                f"{folder} is not a {cls.kind}: it has no index.json. Run the training command again."
            ) from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise DataError(f"{path} is damaged. {_AGAIN}") from None
        if index.get("format") != cls.format:
            raise DataError(
                f"{folder} has the format {index.get('format')!r}; this version of foveate reads {cls.format!r}."
            )
        if digest != index_digest(index):
            raise DataError(f"{path} has changed since it was written: its digest differs. {_AGAIN}")
        try:
            build(cls.index, index, where=f"{path}:")
        except UsageError as error:
            raise DataError(f"{error} {_AGAIN}") from None
        return cls(folder, index)

    def verify(self) -> None:
        """Read all files. Raises DataError if one has changed since it was written."""
        for name in (self.file, OFFSETS):
            if file_digest(self.folder / name) != self._index["sha256"].get(name):
                raise DataError(f"{self.folder / name} has changed since it was written: its SHA-256 differs. {_AGAIN}")

    def _require_length(self, shortest: int) -> None:
        if len(self) and self._shortest() < shortest:
            raise DataError(f"{self.folder} has rows of fewer than {shortest} tokens. {_AGAIN}")

    def _shortest(self) -> int:
        """The length of the shortest row, 0 without rows. In constant memory, as stores may be larger than it."""
        starts = range(0, len(self), CHUNK)
        return min(
            (int(self.lengths_between(start, min(start + CHUNK, len(self))).min()) for start in starts), default=0
        )

    @cached_property
    def lengths(self) -> Int64[np.ndarray, " rows"]:
        return np.diff(self._offsets)

    def lengths_between(self, start: int, stop: int) -> Int64[np.ndarray, " rows"]:
        """The lengths of a stretch of rows, without reading those of others. No pages of the file stay in memory."""
        return np.diff(_read(self._offsets, start, stop + 1))

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of a store with {len(self)} rows")
        row %= len(self)
        return self._values[self._offsets[row] : self._offsets[row + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[row] for row in range(len(self)))


class TokenStore(RowStore):
    """Rows of ids: tokens, labels, line numbers and other whole numbers."""

    format, kind, file, index = TokenWriter.format, "token store", TokenWriter.file, _TokenIndex

    def __init__(self, folder: Path, index: dict[str, Any]) -> None:
        super().__init__(folder, index)
        self.tokeniser_digest: str = index["tokeniser"]
        self.num_tokens: int = index["tokens"]

    @staticmethod
    def _shape(index: Mapping[str, Any]) -> tuple[int, ...]:
        return (index["tokens"],)

    @classmethod
    def write(
        cls, folder: Path | str, rows: Iterable[Sequence[int]], tokeniser_digest: str, *, vocab_size: int | None = None
    ) -> "TokenStore":
        """Write rows and open the store. An id needs two bytes in vocabularies of up to 65,536, else four."""
        with cls.writer(folder, tokeniser_digest, vocab_size=vocab_size) as writer:
            for row in rows:
                writer.append(row)
        return cls.open(folder)

    @staticmethod
    @contextlib.contextmanager
    def writer(folder: Path | str, tokeniser_digest: str, *, vocab_size: int | None = None) -> Iterator[TokenWriter]:
        """Yield a writer with `append`. The complete store appears on a clean exit."""
        dtype = token_type(vocab_size)
        with writing(folder, lambda draft: TokenWriter(draft, dtype), tokeniser=tokeniser_digest) as writer:
            yield writer

    def require(self, *, below: int | None = None, shortest: int = 0) -> "TokenStore":
        """Return this store. Raises DataError for ids that are not below a number, and for rows that are too short.
        Digests do not prevent this, because the author of other rows could compute them too.
        """
        self._require_length(shortest)
        for start in range(0, self.num_tokens if below is not None else 0, CHUNK):
            largest = int(_read(self._values, start, start + CHUNK).max())
            if below is not None and largest >= below:
                raise DataError(f"{self.folder} has the id {largest:,}, and there are only {below:,}. {_AGAIN}")
        return self

    @property
    def tokens(self) -> np.ndarray:
        """All rows, one after the other."""
        return self._values

    @property
    def starts(self) -> np.ndarray:
        """The first token of each row; rows must not be empty."""
        return self._values[self._offsets[:-1]]


class FeatureStore(RowStore):
    """Rows of vectors of one width: frames of speech, patches of pictures, measurements."""

    format, kind, file, index = FeatureWriter.format, "feature store", FeatureWriter.file, _FeatureIndex

    def __init__(self, folder: Path, index: dict[str, Any]) -> None:
        super().__init__(folder, index)
        self.width: int = index["width"]
        self.levels = Levels(tuple(index["offset"]), tuple(index["step"])) if "step" in index else None

    def __getitem__(self, row: int) -> np.ndarray:
        """A view into the file; for bytes the numbers that they stand for."""
        values = super().__getitem__(row)
        return values if self.levels is None else self.levels.numbers(values)

    @staticmethod
    def _shape(index: Mapping[str, Any]) -> tuple[int, ...]:
        return index["vectors"], index["width"]

    @staticmethod
    @contextlib.contextmanager
    def writer(
        folder: Path | str, width: int, *, dtype: VectorType = "float32", levels: Levels | None = None
    ) -> Iterator[FeatureWriter]:
        """Yield a writer with `append`. The complete store appears on a clean exit. `levels` are stored as bytes."""
        form = "|u1" if levels else {"float16": "<f2", "float32": "<f4"}[dtype]
        more = {} if levels is None else {name: list(values) for name, values in vars(levels).items()}
        with writing(folder, lambda draft: FeatureWriter(draft, form, width, levels), width=width, **more) as writer:
            yield writer

    def require(self, *, width: int, shortest: int = 0) -> "FeatureStore":
        """Return this store. Raises DataError for vectors of another width, numbers that are not finite, and rows that
        are too short.
        """
        self._require_length(shortest)
        if self.width != width:
            raise DataError(f"{self.folder} has vectors of {self.width} numbers, but {width} are needed. {_AGAIN}")
        for start in range(0, self._values.size if self.levels is None else 0, CHUNK):
            if not np.isfinite(_read(self._values, start, start + CHUNK)).all():
                raise DataError(f"{self.folder} has a number that is not finite. {_AGAIN}")
        return self


def open_rows(folder: Path | str) -> TokenStore | FeatureStore:
    """Open a store of either kind. Raises DataError like `RowStore.open`."""
    return FeatureStore.open(folder) if (Path(folder) / FeatureStore.file).exists() else TokenStore.open(folder)


def _read(mapped: np.ndarray, start: int, stop: int) -> np.ndarray:
    """A copy of a stretch of a mapped file's numbers, whose pages do not stay in this process's memory."""
    stretch = mapped.reshape(-1)[start:stop].copy()
    pages: Any = getattr(mapped.base, "base", None)
    if isinstance(pages, mmap.mmap):  # not where the file is empty
        pages.madvise(mmap.MADV_DONTNEED)
    return stretch


def _map(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
    """A file as a read-only array. Raises DataError if its size has changed."""
    try:
        size = path.stat().st_size
    except OSError:
        raise DataError(f"{path} is missing. {_AGAIN}") from None
    written = dtype.itemsize
    for count in shape:
        written *= count
    if size != written:
        raise DataError(f"{path} has {size:,} bytes but {written:,} were written. {_AGAIN}")
    if not written:
        return np.empty(shape, dtype)
    # A plain view: slicing np.memmap itself costs several times as much.
    return np.memmap(path, dtype=dtype, mode="r", shape=shape).view(np.ndarray)
