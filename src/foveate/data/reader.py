"""What a modality is to the rest of the package: a reader of files, and what makes rows of the things in them.

A `Reader` is a configuration: it says how files are read, and learns from the training data what makes rows of things:
a vocabulary, a scale, a grid. A `RowMaker` is what was learned; it is kept with the run, and serves in use. A new
modality is one file with both, and an `Input` of `foveate.nn.embed`. A reader of one's own is named in a TOML file:
`reader = "my_module:MyReader"`.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

from foveate.config import build, parse_json
from foveate.data.row import Row
from foveate.errors import DataError, UsageError
from foveate.nn.embed import Input
from foveate.storage.draft import write_file

ROWS = "rows.json"
"""The file of a run folder that stores its row maker, unless that is a tokeniser."""
FORMAT = "foveate rows 1"
Kept = TypeVar("Kept", bound="KeptRows")
Read = TypeVar("Read", bound="Reader")


class Example(NamedTuple):
    """A thing with its label, and its number among those of its file, from 1."""

    line: int
    thing: Any
    label: str


@runtime_checkable
class RowMaker(Protocol):
    """Makes rows of things."""

    @property
    def input(self) -> Input:
        """What a model of these rows is built from."""

    def row(self, thing: Any) -> Row:
        """The row of a thing, whose `str` is its name. Raises DataError for a thing that a model cannot read."""

    def unknown(self, row: Row) -> int:
        """How many ids of a row stand for what the training data do not have."""

    def track(self, thing: Any) -> Mapping[str, Any]:
        """What a trace draws beneath its maps: the settings of `foveate.inspect.Track`."""

    def things(self, path: str) -> Iterator[Any]:
        """What a file holds, without labels."""

    def save(self, folder: Path) -> None:
        """Write it into a run folder."""

    def digests(self) -> dict[str, str]:
        """SHA-256 by the names of the files that `save` writes."""


@runtime_checkable
class Reader(Protocol):
    """Reads the files of a modality: a dataclass, whose fields are the settings in `reader` of a configuration."""

    what: ClassVar[str]
    """What the things are, in the plural."""

    @property
    def about(self) -> str:
        """What is made of the things, in words."""
        return self.what

    def suited(self: Read, sample: Sequence[Any]) -> Read:
        """With settings that suit a sample of the examples, which has at least one."""
        return self

    def read(self, path: str) -> Iterator[Any]:
        """Labelled examples, each with `line`, `thing` and `label`. Raises DataError, with the place, for bad files."""

    def learn(self, examples: Iterable[Any]) -> RowMaker:
        """What makes rows, from the training examples."""

    def open(self, folder: Path) -> RowMaker:
        """What `RowMaker.save` has written. Raises DataError when it is missing or damaged."""


@dataclass(frozen=True, kw_only=True)
class KeptRows:
    """A row maker whose fields are all that it knows: it is kept as JSON."""

    kind: ClassVar[str]

    def unknown(self, row: Row) -> int:
        return 0

    def digests(self) -> dict[str, str]:
        return {ROWS: _digest(self._plain())}

    def save(self, folder: Path) -> None:
        plain = self._plain()
        record = {"format": FORMAT, "digest": _digest(plain), **plain}
        write_file(folder / ROWS, (json.dumps(record, indent=1) + "\n").encode("ascii"))

    @classmethod
    def open(cls: type[Kept], folder: Path) -> Kept:
        """What `save` has written. Raises DataError when it is missing, damaged or of another kind."""
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
            raise DataError(f"{path} is damaged or does not say how {cls.kind} rows are made. Restore it from a copy.")
        try:
            return build(cls, settings, where=f"{path}:")
        except UsageError as error:
            raise DataError(f"{error} Restore the file from a copy of the run.") from None

    def _plain(self) -> dict[str, Any]:
        fields = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}
        return {"kind": self.kind, **fields}


def _digest(plain: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode("ascii")).hexdigest()
