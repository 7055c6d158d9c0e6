"""Rows of token ids in memory-mapped files: written as a stream, read without loading, so a corpus need not fit in RAM.

A store is a folder: `tokens.bin` (all rows one after the other, 16 or 32 bits an id, little endian), `offsets.bin`
(where each row begins, 64 bits, one more than rows) and `index.json` (counts, SHA-256 of both, the tokeniser's digest).
"""

import contextlib
import hashlib
import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Int64

from foveate.config import build, parse_json
from foveate.errors import DataError, UsageError
from foveate.storage.draft import draft_folder
from foveate.storage.manifest import file_digest

FORMAT = "foveate token store 1"
_FILES = ("tokens.bin", "offsets.bin")
_CHUNK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class _Index:
    """What `index.json` says."""

    format: str
    rows: int
    tokens: int
    dtype: Literal["<u2", "<u4"]
    sha256: dict[str, str]
    tokeniser: str

    def __post_init__(self) -> None:
        if self.rows < 0 or self.tokens < 0:
            raise ValueError("rows and tokens cannot be fewer than none")
        if set(self.sha256) != set(_FILES):
            raise ValueError(f"sha256 is of {', '.join(_FILES)}")


class TokenStore:
    """A sequence of rows of token ids on disk.

    `store[i]` is a read-only view into the file; `lengths` are the rows' numbers of tokens.
    """

    def __init__(self, folder: Path, index: dict[str, Any]) -> None:
        self.folder = folder
        self.tokeniser_digest: str = index["tokeniser"]
        self.num_tokens: int = index["tokens"]
        self._index = index
        self._tokens = _map(folder / _FILES[0], np.dtype(index["dtype"]), index["tokens"])
        self._offsets = _map(folder / _FILES[1], np.dtype("<i8"), index["rows"] + 1)
        if self._offsets[0] != 0 or self._offsets[-1] != self.num_tokens or (len(self) and self.lengths.min() < 0):
            raise DataError(f"{folder / _FILES[1]} has changed: it does not say where rows begin. {_AGAIN}")

    @classmethod
    def write(
        cls, folder: Path | str, rows: Iterable[Sequence[int]], tokeniser_digest: str, *, vocab_size: int | None = None
    ) -> "TokenStore":
        """Writes rows as they come and opens the store. Vocabularies up to 65,536 take two bytes an id, others four."""
        with TokenStore.writer(folder, tokeniser_digest, vocab_size=vocab_size) as writer:
            for row in rows:
                writer.append(row)
        return cls.open(folder)

    @staticmethod
    @contextlib.contextmanager
    def writer(folder: Path | str, tokeniser_digest: str, *, vocab_size: int | None = None) -> Iterator["TokenWriter"]:
        """Yields what rows are appended to; the store appears, whole, on a clean exit."""
        with draft_folder(Path(folder)) as draft:
            writer = TokenWriter(draft, "<u2" if vocab_size is not None and vocab_size <= 1 << 16 else "<u4")
            try:
                yield writer
                index = writer.finish() | {"tokeniser": tokeniser_digest}
            finally:
                writer.close()
            index["digest"] = _digest(index)
            (draft / "index.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def open(cls, folder: Path | str) -> "TokenStore":
        """Maps the files into memory. Raises DataError when one is missing or has another size than was written."""
        folder = Path(folder)
        path = folder / "index.json"
        try:
            index = parse_json(path.read_bytes())
            digest = index.pop("digest")
        except FileNotFoundError:
            raise DataError(
                f"{folder} is no token store: it has no index.json. Run the training command anew."
            ) from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise DataError(f"{path} is damaged. {_AGAIN}") from None
        if index.get("format") != FORMAT:
            raise DataError(
                f"{folder} has the format {index.get('format')!r}; this version of foveate reads {FORMAT!r}."
            )
        if digest != _digest(index):
            raise DataError(f"{path} has changed since it was written: its digest differs. {_AGAIN}")
        try:
            build(_Index, index, where=f"{path}:")
        except UsageError as error:
            raise DataError(f"{error} {_AGAIN}") from None
        return cls(folder, index)

    def require(self, *, below: int | None = None, shortest: int = 0) -> "TokenStore":
        """This store. Raises DataError where ids are not below a number, or rows are shorter than that; digests do not
        tell, since whoever wrote other rows could write them anew.
        """
        if len(self) and int(self.lengths.min()) < shortest:
            raise DataError(f"{self.folder} has rows of fewer than {shortest} tokens. {_AGAIN}")
        for start in range(0, self.num_tokens if below is not None else 0, _CHUNK):
            largest = int(self._tokens[start : start + _CHUNK].max())
            if below is not None and largest >= below:
                raise DataError(f"{self.folder} has the id {largest:,}, and there are only {below:,}. {_AGAIN}")
        return self

    def verify(self) -> None:
        """Reads everything. Raises DataError when a file differs from what was written."""
        for name in _FILES:
            if file_digest(self.folder / name) != self._index["sha256"][name]:
                raise DataError(f"{self.folder / name} has changed since it was written: its SHA-256 differs. {_AGAIN}")

    @property
    def tokens(self) -> np.ndarray:
        """All rows, one after the other."""
        return self._tokens

    @property
    def starts(self) -> np.ndarray:
        """The first token of each row, where none is empty."""
        return self._tokens[self._offsets[:-1]]

    @cached_property
    def lengths(self) -> Int64[np.ndarray, " rows"]:
        return np.diff(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of a store with {len(self)} rows")
        row %= len(self)
        return self._tokens[self._offsets[row] : self._offsets[row + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[row] for row in range(len(self)))


class TokenWriter:
    """Appends rows to the files of a store that is being written, keeping one chunk in memory."""

    def __init__(self, folder: Path, dtype: str) -> None:
        self._dtype = np.dtype(dtype)
        self._closing = contextlib.ExitStack()
        self._files = {name: self._closing.enter_context((folder / name).open("wb")) for name in _FILES}
        self._digests = {name: hashlib.sha256() for name in _FILES}
        self._tokens, self._offsets = array("q"), array("q", [0])
        self.num_rows = self.num_tokens = 0

    def append(self, row: Sequence[int]) -> None:
        self._tokens.extend(row)
        self.num_rows += 1
        self.num_tokens += len(row)
        self._offsets.append(self.num_tokens)
        if len(self._tokens) >= _CHUNK or len(self._offsets) >= _CHUNK:
            self._drain()

    def finish(self) -> dict[str, Any]:
        """Writes what is left and returns the index."""
        self._drain()
        digests = {name: digest.hexdigest() for name, digest in self._digests.items()}
        counts = {"rows": self.num_rows, "tokens": self.num_tokens}
        return {"format": FORMAT, **counts, "dtype": self._dtype.str, "sha256": digests}

    def close(self) -> None:
        self._closing.close()

    def _drain(self) -> None:
        tokens = np.frombuffer(self._tokens, dtype=np.int64) if self._tokens else np.empty(0, np.int64)
        limits = np.iinfo(self._dtype)
        if len(tokens) and not (tokens.min() >= 0 and tokens.max() <= limits.max):
            raise DataError(
                f"Ids must be from 0 to {limits.max:,}, got some from {tokens.min():,} to {tokens.max():,}."
            )
        offsets = np.array(self._offsets, dtype="<i8")
        for name, part in zip(_FILES, (tokens.astype(self._dtype), offsets), strict=True):
            self._files[name].write(part.tobytes())
            self._digests[name].update(part.tobytes())
        self._tokens, self._offsets = array("q"), array("q")


_AGAIN = "Prepare the data anew."


def _map(path: Path, dtype: np.dtype[Any], count: int) -> np.ndarray:
    """A file as a read-only array. Raises DataError when its size is not `count` items."""
    try:
        size = path.stat().st_size
    except OSError:
        raise DataError(f"{path} is missing. {_AGAIN}") from None
    if size != count * dtype.itemsize:
        raise DataError(f"{path} has {size:,} bytes but {count * dtype.itemsize:,} were written. {_AGAIN}")
    if not count:
        return np.empty(0, dtype)
    # A plain view: slicing np.memmap itself costs several times as much.
    return np.memmap(path, dtype=dtype, mode="r").view(np.ndarray)


def _digest(index: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(index, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()
