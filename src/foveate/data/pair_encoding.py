"""Encodes pairs of texts in blocks, by one process or several: the rows are the same, and in the same order."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import wait

import numpy as np

from foveate.data.pair_report import LeftOut, Report
from foveate.data.text import Pair
from foveate.data.tokeniser import BOS, EOS, UNKNOWN, Tokeniser
from foveate.errors import SetupError

Linker = Callable[[Pair, Sequence[int], Sequence[int]], Iterable[tuple[int, int]]]
"""Maps a pair and the tokens of both sides to its links, which are pairs of source and target token numbers."""
BLOCK = 2048
"""Pairs that a process encodes at a time."""
AHEAD = 3
"""Blocks that each process may be ahead of the writer, which bounds the memory."""
Rows = tuple[np.ndarray, np.ndarray]
"""The values of rows that stand one after the other, and the length of each."""


@dataclass(frozen=True)
class PairBlock:
    """The rows of some pairs, by store, and a report on them."""

    rows: dict[str, Rows]
    report: Report


class PairEncoder:
    """Encodes both sides of pairs. Pairs with an empty side or a side that is too long are left out and counted."""

    def __init__(self, source: Tokeniser, target: Tokeniser, max_length: int, links: Linker | None = None) -> None:
        self.source, self.target, self.max_length, self.links = source, target, max_length, links

    @property
    def stores(self) -> dict[str, tuple[str, int | None]]:
        """The stores of the rows, each with the digest of its tokeniser and the size of its vocabulary."""
        sides = {"source": self.source, "target": self.target}
        stores: dict[str, tuple[str, int | None]] = {
            name: (side.digest(), side.vocab_size) for name, side in sides.items()
        }
        return {**stores, "lines": ("", None), **({"links": ("", None)} if self.links else {})}

    def __call__(self, pairs: Sequence[Pair]) -> PairBlock:
        tally = _Tally(self.max_length, self.source, self.target)
        rows: dict[str, list[list[int]]] = {name: [] for name in self.stores}
        for pair in pairs:
            if sides := tally.rows(pair):
                rows["source"].append([*sides[0], EOS])
                rows["target"].append([BOS, *sides[1], EOS])
                rows["lines"].append([pair.line])
                if self.links:
                    rows["links"].append([token for link in self.links(pair, *sides) for token in link])
        return PairBlock({name: _joined(each) for name, each in rows.items()}, tally.report())


def encoded(pairs: Iterable[Pair], encoder: PairEncoder, processes: int) -> Iterator[PairBlock]:
    """The blocks of pairs, encoded, in their order. Raises SetupError if a process dies."""
    stream = iter(pairs)
    blocks = iter(lambda: list(islice(stream, BLOCK)), [])
    if processes == 1:
        yield from map(encoder, blocks)
        return
    # Not by fork: threads of this process may hold locks, which a copy would wait for.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, initializer=_begin, initargs=(encoder,))
    try:
        waiting: deque[Future[PairBlock]] = deque()
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


_encoder: PairEncoder
"""That of this process, if it works for another one."""


def _begin(encoder: PairEncoder) -> None:
    """Prepare a process for `_encode`. Ctrl-C is for its parent, and it does not outlive a parent that is killed."""
    global _encoder
    _encoder = encoder
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None
    sentinel = parent.sentinel
    threading.Thread(target=lambda: wait([sentinel]) and os._exit(1), daemon=True).start()


def _encode(pairs: list[Pair]) -> PairBlock:
    return _encoder(pairs)


def _joined(rows: list[list[int]]) -> Rows:
    lengths = np.array([len(row) for row in rows], np.int64)
    return np.array([token for row in rows for token in row], np.int64), lengths


class _Tally:
    """Encodes pairs and counts those that are left out."""

    def __init__(self, max_length: int, source: Tokeniser, target: Tokeniser) -> None:
        self.max_length, self.source, self.target = max_length, source, target
        self.total = self.longest = 0
        self.tokens, self.unknown = [0, 0], [0, 0]
        self.empty, self.too_long = LeftOut(), LeftOut()

    def rows(self, pair: Pair) -> tuple[list[int], list[int]] | None:
        """The ids of both sides; None if the pair is left out."""
        self.total += 1
        rows = self.source.encode(pair.source), self.target.encode(pair.target)
        if not (rows[0] and rows[1] and pair.source.strip() and pair.target.strip()):
            self.empty = self.empty.add(pair.line)
            return None
        longest = max(map(len, rows)) + 1
        self.longest = max(self.longest, longest)
        if longest > self.max_length:
            self.too_long = self.too_long.add(pair.line)
            return None
        for side, row in enumerate(rows):
            self.tokens[side] += len(row)
            self.unknown[side] += row.count(UNKNOWN)
        return rows

    def report(self) -> Report:
        return Report(
            total=self.total,
            max_length=self.max_length,
            empty=self.empty,
            too_long=self.too_long,
            longest=self.longest,
            source_tokens=self.tokens[0],
            target_tokens=self.tokens[1],
            source_unknown=self.unknown[0],
            target_unknown=self.unknown[1],
        )
