"""Encodes examples in blocks, by one process or several: the rows are the same, and in the same order."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import wait
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np

from foveate.errors import SetupError

BLOCK = 2048
"""Examples that a process encodes at a time."""
AHEAD = 3
"""Blocks that each process may be ahead of the writer, which bounds the memory."""
Rows = tuple[np.ndarray, np.ndarray]
"""The values of rows that stand one after the other, and the length of each."""


@runtime_checkable
class Counts(Protocol):
    """A report on examples: a frozen dataclass. The sum of two is the report on the examples of both."""

    @property
    def total(self) -> int:
        """The number of examples, with those that are left out."""

    def __add__(self, other: Any) -> Any: ...


ReportType = TypeVar("ReportType", bound=Counts)


@dataclass(frozen=True)
class EncodedBlock(Generic[ReportType]):
    """The rows of some examples, by store, and a report on them."""

    rows: Mapping[str, Rows]
    report: ReportType

    @classmethod
    def of(cls, rows: Mapping[str, Sequence[Sequence[int]]], report: ReportType) -> "EncodedBlock[ReportType]":
        """A block of rows that are lists."""
        return cls({name: _joined(each) for name, each in rows.items()}, report)

    def arrays(self, name: str) -> list[np.ndarray]:
        """The rows of a store, one by one."""
        values, lengths = self.rows[name]
        return np.split(values, np.cumsum(lengths))[:-1]


@runtime_checkable
class Encoder(Protocol[ReportType]):
    """Makes the rows of examples. Other processes receive a copy, so that it can be pickled."""

    @property
    def what(self) -> str:
        """The plural noun for the examples."""

    @property
    def identity(self) -> Any:
        """Plain data: encoders with the same identity, and the same `stores`, make the same rows."""

    @property
    def stores(self) -> dict[str, tuple[str, int | None]]:
        """The folders of the rows, each with the digest of its tokeniser and the size of its vocabulary. The name ""
        stands for the folder of all.
        """

    @property
    def head(self) -> EncodedBlock[ReportType]:
        """The rows before those of the first example, and a report on none."""

    def __call__(self, examples: Sequence[Any], /) -> EncodedBlock[ReportType]: ...


def encoded(
    examples: Iterable[Any], encoder: Encoder[ReportType], processes: int
) -> Iterator[EncodedBlock[ReportType]]:
    """The blocks of examples, encoded, in their order. Raises SetupError if a process dies."""
    stream = iter(examples)
    blocks = iter(lambda: list(islice(stream, BLOCK)), [])
    if processes == 1:
        yield from map(encoder, blocks)
        return
    # Not by fork: threads of this process may hold locks, which a copy would wait for.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, initializer=_begin, initargs=(encoder,))
    try:
        waiting: deque[Future[Any]] = deque()
        for block in blocks:
            waiting.append(pool.submit(_encode, block))
            if len(waiting) > AHEAD * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise SetupError(
            f"One of {processes} processes that prepare the data has ended, perhaps for lack of memory. The same "
            "command goes on; give it fewer with --set data.processes=N."
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


_encoder: Encoder[Any]
"""That of this process, if it works for another one."""


def _begin(encoder: Encoder[Any]) -> None:
    """Prepare a process for `_encode`. Ctrl-C is for its parent, and it does not outlive a parent that is killed."""
    global _encoder
    _encoder = encoder
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None
    sentinel = parent.sentinel
    threading.Thread(target=lambda: wait([sentinel]) and os._exit(1), daemon=True).start()


def _encode(examples: list[Any]) -> EncodedBlock[Any]:
    return _encoder(examples)


def _joined(rows: Sequence[Sequence[int]]) -> Rows:
    lengths = np.array([len(row) for row in rows], np.int64)
    return np.array([token for row in rows for token in row], np.int64), lengths
