"""A watch over the processes of a run, which names the one that the others wait for.

Each process states once a second where it is, from a thread of its own: a number that grows, its present work, and
whether that work is limited in time (an update is, a validation is not). One whose number has stopped growing is
stopped, or its machine is gone; one that stays in the same limited work hangs. The others then name it and end with the
code of PeerError, by which the program that started them begins again from the last checkpoint.

torch's own time limit names no rank, and counts a long validation as a failure.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType

from torch.distributed import Store

from foveate.errors import PeerError

APPEARANCE = 300.0
"""Seconds until a process that was started must have imported torch."""


SILENT = "has not answered for {:g} seconds: it is stopped, or its machine is gone"
ENDED = "has ended, or its machine is gone"


@dataclass
class Sight:
    """The last statement of a rank, and when its number and its place were last new, in seconds."""

    beat: str = ""
    place: str = ""
    work: str = ""
    limited: bool = False
    beaten: float = field(default_factory=time.monotonic)
    moved: float = field(default_factory=time.monotonic)


class Pulse:
    """The thread; `limit` is the number of seconds after which a rank counts as stalled."""

    def __init__(self, store: Store, rank: int, size: int, limit: float = 60.0) -> None:
        self.limit = limit
        self._store = store.clone()  # type: ignore[attr-defined]  # which the stubs lack
        self._rank, self._size = rank, size
        self._beat, self._place, self._work, self._limited = 0, 0, "its beginning", False
        self._ended = threading.Event()
        self._sights = {other: Sight() for other in range(size) if other != rank}
        self._heard = time.monotonic()
        self._is_left = False
        """Whether the connection to the first rank has broken."""
        self._threads = [
            threading.Thread(target=work, name="pulse", daemon=True) for work in (self._exchange, self._watch)
        ]

    def computes(self, work: str, *, limited: bool) -> None:
        """This rank begins some work."""
        self._place, self._work, self._limited = self._place + 1, work, limited

    def waits(self) -> None:
        """This rank has done its part and waits for the others."""
        self._place, self._work, self._limited = self._place + 1, "waiting", False

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Within this context this rank waits for the others; then it goes on with its work."""
        work, limited = self._work, self._limited
        self.waits()
        yield
        self.computes(work, limited=limited)

    def __enter__(self) -> "Pulse":
        self._state()  # here, so that a process that stops at once has appeared
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(timeout=5)

    def _exchange(self) -> None:
        """Writes and reads statements. The store is in the first rank; while that is stopped, this does not return."""
        while not self._ended.wait(min(1.0, self.limit / 8)):
            try:
                self._state()
                for other, sight in self._sights.items():
                    if self._store.check([f"pulse/{other}"]):
                        self._see(sight, self._store.get(f"pulse/{other}").decode())
            except RuntimeError:  # the main thread notices this as well, unless it computes or waits for another rank
                self._is_left = True
                return
            self._heard = time.monotonic()

    def _watch(self) -> None:
        last = time.monotonic()
        while not self._ended.wait(min(1.0, self.limit / 8)):
            now = time.monotonic()
            if now - last > self.limit / 2:
                self._begin(now)  # this process was stopped itself, perhaps with the others
            self._judge()
            last = now

    def _begin(self, now: float) -> None:
        """Forgets for how long the others have been silent."""
        self._heard = now
        for sight in self._sights.values():
            sight.beaten = sight.moved = now

    def _state(self) -> None:
        self._beat += 1
        limited = "limited" if self._limited else ""
        self._store.set(f"pulse/{self._rank}", f"{self._beat}|{self._place}|{self._work}|{limited}")

    def _see(self, sight: Sight, statement: str) -> None:
        beat, place, work, limited = statement.split("|")
        now = time.monotonic()
        if beat != sight.beat:
            sight.beaten = now
        if place != sight.place:
            sight.moved = now
        sight.beat, sight.place, sight.work, sight.limited = beat, place, work, bool(limited)

    def _judge(self) -> None:
        now, reasons = time.monotonic(), {}
        patience = 0.75 * self.limit  # the rest is for the second between two statements
        if now - self._heard > patience:
            self._accuse({0: ENDED if self._is_left else SILENT.format(self.limit)})
        for other, sight in self._sights.items():
            if not sight.beat:
                if now - sight.beaten > max(patience, APPEARANCE):
                    reasons[other] = "has not appeared"
            elif now - sight.beaten > patience:
                reasons[other] = SILENT.format(self.limit)
            elif sight.limited and now - sight.moved > patience:
                reasons[other] = (
                    f"has been at {sight.work} for {self.limit:g} seconds while the others wait; "
                    "if updates take that long, raise train.stall_seconds"
                )
        if reasons:
            self._accuse(reasons)

    def _accuse(self, reasons: Mapping[int, str]) -> None:
        """Ends this process; the first of those that are not late says why."""
        if self._rank == min(rank for rank in range(self._size) if rank not in reasons):
            for other, reason in reasons.items():
                print(f"Rank {other} of {self._size} {reason}.", file=sys.stderr)
            with contextlib.suppress(OSError):
                sys.stderr.flush()
        os._exit(PeerError.exit_code)
