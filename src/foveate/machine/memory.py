"""Free memory that the allocator keeps, and gives back to the system where it is much."""

import ctypes
import functools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from foveate.machine.switch import has_glibc

MUCH, LITTLE = 64 * 2**20, 4 * 2**20
"""Bytes that a process may keep for its next computation, while it works and while it rests."""
SELDOM = 60.0
"""Seconds between two releases of a process that is never idle: giving back and taking again costs about as long as a
short computation.
"""
STATUS = Path("/proc/self/statm")


class Reserve:
    """The memory of one process that works, rests and works again.

    `keep_pages` makes computations faster because the allocator keeps what was freed, so that a process has the memory
    of its largest computation for ever, and more where small blocks stand in between. `release` gives back what grew
    since the last time.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._least = self._trimmed()
        self._at = clock()

    def release(self, *, idle: bool) -> bool:
        """Give memory back if it grew; a process that works does so seldom, and for much. Returns whether it did."""
        if not idle and self._clock() - self._at < SELDOM:
            return False
        if resident() - self._least <= (LITTLE if idle else MUCH):
            return False
        self._least, self._at = self._trimmed(), self._clock()
        return True

    def _trimmed(self) -> int:
        trim = _trim()
        if trim is not None:
            trim(0)
        return resident()


def resident() -> int:
    """Bytes of this process in memory; 0 where the system does not say so as Linux does."""
    try:
        return int(STATUS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


@functools.cache
def _trim() -> Callable[[int], int] | None:
    """malloc_trim(3), which releases all free pages of all heaps; None in other C libraries than glibc."""
    return ctypes.CDLL(None).malloc_trim if sys.platform == "linux" and has_glibc() else None
