"""Handling of Ctrl-C and SIGTERM: the loop finishes its step, saves and returns. A second signal stops at once."""

import contextlib
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any


class Interrupt:
    """A context in which the first SIGINT or SIGTERM sets `requested`, and the second has its usual effect."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.requested = False
        self._note = note
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():  # Python allows handlers only there
            for number in (signal.SIGINT, signal.SIGTERM):
                previous = signal.getsignal(number)
                if previous not in (signal.SIG_IGN, None):  # nohup and shells' background jobs ignore on purpose
                    self._previous[number] = previous
                    signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            self._restore()
            signal.raise_signal(number)
            return
        self.requested = True
        with contextlib.suppress(RuntimeError):  # the signal came in the middle of a print
            self._note("Stopping: this step is finished and saved first. Press Ctrl-C again to stop at once.")

    def _restore(self) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous)
        self._previous.clear()
