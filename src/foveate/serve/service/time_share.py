"""Divides the time of a process between a long answer and what is answered in its pauses: each gets half."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class TimeShare:
    """Counts the seconds of both. A pause earns as much credit as the long answer has worked since the last one."""

    def __init__(self) -> None:
        self.pausing = False
        """Whether the long answer is in a pause now."""
        self.seconds_in_pauses = 0.0
        self._credit = 0.0
        self._working_since = 0.0

    @property
    def has_credit(self) -> bool:
        """Whether there is time left in this pause."""
        return self._credit > 0

    def begin(self) -> None:
        """A long answer begins."""
        self._working_since = time.perf_counter()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """The long answer pauses within the context."""
        began = time.perf_counter()
        self.pausing = True
        self._credit += began - self._working_since
        try:
            yield
        finally:
            self.pausing, self._working_since = False, time.perf_counter()
            self.seconds_in_pauses += self._working_since - began

    @contextmanager
    def spend(self) -> Iterator[None]:
        """The time within the context is paid for with credit."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._credit -= time.perf_counter() - began

    def forfeit(self) -> None:
        """Nothing is to be done in this pause: credit does not accumulate for later."""
        self._credit = 0.0
