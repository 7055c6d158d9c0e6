"""Writes the stores of a preparation, and remembers how far it has come, so that another process goes on."""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Generic, cast

from foveate import __version__
from foveate.config import build
from foveate.data.block_encoding import EncodedBlock, Encoder, ReportType, encoded
from foveate.data.row_writer import TokenWriter, Written, token_type, write_index
from foveate.errors import DataError, UsageError
from foveate.storage.draft import TEMPORARY, disk_errors, flush, publish, remove
from foveate.storage.lock import locked
from foveate.storage.manifest import read_json, write_json
from foveate.voice import say

INTERVAL = 1 << 17
"""Examples after which the disk has all rows: the most that a killed process loses."""
_JOURNAL = "journal.json"


@dataclass(frozen=True, kw_only=True)
class _State:
    """The content of the journal."""

    key: str
    report: dict[str, Any]
    stores: dict[str, Written]


def write_rows(
    folder: Path, examples: Iterable[Any], encoder: Encoder[ReportType], *, processes: int = 1, origin: str = ""
) -> ReportType:
    """Encode a stream of examples into the stores of a folder, which is written completely or not at all.

    Memory does not grow with the number of examples, and the bytes are the same for any number of processes.

    `origin` says where the examples come from: the same text promises the same examples. With it, a preparation that
    was interrupted goes on where it stopped, which may be in a killed process. Raises SetupError if a process dies, the
    disk is full or the folder is not writable, and UsageError while another process prepares the same.
    """
    with RowJournal.open(folder, encoder, origin) as journal:
        for block in encoded(islice(examples, journal.report.total, None), encoder, processes):
            journal.extend(block)
        return journal.finish()


class RowJournal(Generic[ReportType]):
    """The unfinished stores of a folder. Use `open`."""

    def __init__(self, work: Path, folder: Path, encoder: Encoder[ReportType], key: str) -> None:
        self.folder, self.encoder, self._work, self._key = folder, encoder, work, key
        head = encoder.head
        state = _read(work / _JOURNAL, key)
        if state is None:
            for path in work.iterdir():
                remove(path)
        self.report: ReportType = build(type(head.report), state.report) if state else head.report
        """The report on the examples that need not be read again."""
        self._next = self.report.total + INTERVAL
        self._writers: dict[str, TokenWriter] = {}
        for name, (_, vocab_size) in encoder.stores.items():
            (work / name).mkdir(parents=True, exist_ok=True)
            self._writers[name] = TokenWriter(
                work / name, token_type(vocab_size), state.stores[name] if state else None
            )
        if state is None:
            self._write(head)

    @classmethod
    @contextlib.contextmanager
    def open(cls, folder: Path, encoder: Encoder[ReportType], origin: str) -> Iterator["RowJournal[ReportType]"]:
        """The stores of a preparation that was interrupted, or new ones; without an origin they are always new, and
        do not stay if there is an error. Raises as `write_rows` does.
        """
        identity = [__version__, origin, encoder.identity, encoder.stores]
        key = hashlib.sha256(json.dumps(identity).encode()).hexdigest() if origin else ""
        work = folder.with_name(f".rows-of-{folder.name}" if origin else f"{TEMPORARY}{folder.name}-{os.getpid()}")
        with disk_errors(folder), locked(work) as free:
            if not free:
                raise UsageError(
                    f"Another process is preparing the data of {folder}. Wait for it or stop it, or name another "
                    "folder."
                )
            journal = cls(work, folder, encoder, key)
            if journal.report.total:
                say(f"{journal.report.total:,} {encoder.what} are prepared already.")
            try:
                yield journal
            except BaseException:  # including Ctrl-C
                if not origin:
                    shutil.rmtree(work, ignore_errors=True)
                raise
            finally:
                for writer in journal._writers.values():
                    writer.close()

    def extend(self, block: EncodedBlock[ReportType]) -> None:
        """Write the rows of a block, which follows those before it."""
        self._write(block)
        self.report += block.report
        if self._key and self.report.total >= self._next:
            self._next = self.report.total + INTERVAL
            stores = {name: writer.keep() for name, writer in self._writers.items()}
            state = _State(key=self._key, report=asdict(cast(Any, self.report)), stores=stores)
            write_json(self._work / _JOURNAL, asdict(state))

    def finish(self) -> ReportType:
        """Complete the stores and give the folder its name."""
        for name, (digest, _) in self.encoder.stores.items():
            writer = self._writers[name]
            writer.keep()
            write_index(self._work / name, {**writer.finish(), "tokeniser": digest})
            flush(self._work / name)
        (self._work / _JOURNAL).unlink(missing_ok=True)
        flush(self._work)
        publish(self._work, self.folder)
        return self.report

    def _write(self, block: EncodedBlock[ReportType]) -> None:
        for name, rows in block.rows.items():
            self._writers[name].extend(*rows)


def _read(path: Path, key: str) -> _State | None:
    """The state of an interrupted preparation; None if there is none, or it is damaged or of other data."""
    if not key or not path.exists():
        return None
    try:
        state = build(_State, read_json(path))
    except (DataError, UsageError):
        return None
    return state if state.key == key else None
