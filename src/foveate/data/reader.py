"""The interface of modalities: a `Reader` reads files, and a `RowMaker` makes rows of the things in them.

A `Reader` is a configuration. It reads files and learns a `RowMaker` (a vocabulary, a scale, a grid) from the training
data; the run folder stores the `RowMaker` for later use. A new modality is one file with both, and an `Input` of
`foveate.nn.embed`. A TOML file names a user's own reader: `reader = "my_module:MyReader"`.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

from foveate.config import build, parse_json
from foveate.data.level import Levels
from foveate.data.row import Row
from foveate.data.store import VectorType
from foveate.errors import DataError, UsageError
from foveate.nn.embed import Input
from foveate.storage.draft import write_file

ROWS = "rows.json"
"""The file of a run folder that stores its row maker, unless that is a tokeniser."""
FORMAT = "foveate rows 1"
AnyRows = TypeVar("AnyRows", bound="StoredRows")
Thing = TypeVar("Thing")
AnyReader = TypeVar("AnyReader", bound="Reader")


class Example(NamedTuple):
    """A thing with its label, and its number in its file, counted from 1."""

    line: int
    thing: Any
    label: str


@runtime_checkable
class RowMaker(Protocol):
    """Makes rows of things, such as texts or pictures."""

    @property
    def input(self) -> Input:
        """The input that a model of these rows is built for."""

    def row(self, thing: Any) -> Row:
        """The row of a thing. Raises DataError, with `str(thing)`, for a thing that a model cannot read."""

    def unknown(self, row: Row) -> int:
        """The number of ids in a row for parts that the training data do not contain."""

    def track(self, thing: Any) -> Mapping[str, Any]:
        """The settings of `foveate.inspect.Track`, which a trace draws beneath its maps."""

    def things(self, path: str) -> Iterator[Any]:
        """The things in a file, without labels."""

    def save(self, folder: Path) -> None:
        """Write this row maker into a run folder."""

    def digests(self) -> dict[str, str]:
        """The SHA-256 of each file that `save` writes, by its name."""


@runtime_checkable
class Reader(Protocol):
    """Reads the files of a modality. A reader is a dataclass whose fields are the settings in `reader`."""

    what: ClassVar[str]
    """The plural noun for the things."""

    @property
    def about(self) -> str:
        """A description of the rows."""
        return self.what

    def suited(self: AnyReader, sample: Sequence[Any]) -> AnyReader:
        """A reader with settings for a sample of at least one example."""
        return self

    def read(self, path: str) -> Iterator[Any]:
        """Labelled examples with `line`, `thing` and `label`. Raises DataError with the place of an error."""

    def learn(self, examples: Iterable[Any]) -> RowMaker:
        """Learn a row maker from the training examples."""

    def open(self, folder: Path) -> RowMaker:
        """Read the files of `RowMaker.save`. Raises DataError if they are missing or damaged."""


@dataclass(frozen=True, kw_only=True)
class StoredRows:
    """A row maker that is stored as JSON with its fields."""

    kind: ClassVar[str]
    dtype: ClassVar[VectorType] = "float32"
    """float16 halves a store, where its rounding is harmless."""

    @property
    def levels(self) -> Levels | None:
        """The levels of numbers that can be stored as bytes; None for other numbers."""
        return None

    def unknown(self, row: Row) -> int:
        return 0

    def digests(self) -> dict[str, str]:
        return {ROWS: _digest(self._plain())}

    def save(self, folder: Path) -> None:
        plain = self._plain()
        record = {"format": FORMAT, "digest": _digest(plain), **plain}
        write_file(folder / ROWS, (json.dumps(record, indent=1) + "\n").encode("ascii"))

    @classmethod
    def open(cls: type[AnyRows], folder: Path) -> AnyRows:
        """Read the file of `save`. Raises DataError if it is missing, damaged or of another kind."""
        path = folder / ROWS
        try:
            record = parse_json(path.read_bytes())
            settings = {name: value for name, value in record.items() if name not in ("format", "digest", "kind")}
            sound = record["format"] == FORMAT and record["digest"] == _digest({"kind": record["kind"], **settings})
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}.") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            sound = False
        if not sound or record["kind"] != cls.kind:
            raise DataError(f"{path} is damaged or does not describe {cls.kind} rows. Restore it from a copy.")
        try:
            return build(cls, settings, where=f"{path}:")
        except UsageError as error:
            raise DataError(f"{error} Restore the file from a copy of the run.") from None

    def _plain(self) -> dict[str, Any]:
        fields = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}
        return {"kind": self.kind, **fields}


def stored_type(rows: RowMaker) -> VectorType:
    """The type of stored vectors of a row maker."""
    return rows.dtype if isinstance(rows, StoredRows) else "float32"


def stored_levels(rows: RowMaker) -> Levels | None:
    """The levels of vectors that are stored as bytes; None for others."""
    return rows.levels if isinstance(rows, StoredRows) else None


def spread(examples: Iterable[Thing], least: int) -> list[Thing]:
    """Examples at equal distances: all, or from `least` to twice as many.

    >>> spread(range(10), 2)
    [0, 4, 8]
    """
    chosen, step = list[Thing](), 1
    for number, example in enumerate(examples):
        if number % step == 0:
            chosen.append(example)
        if len(chosen) == 2 * least:
            chosen, step = chosen[::2], 2 * step
    return chosen


def _digest(plain: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode("ascii")).hexdigest()
