"""Who computes first: what is looked at, before what is made in advance."""

from threading import Event, Lock

from foveate.inspect.tile.provider import Cancelled

PATIENCE = 1.0
"""Seconds for which a pyramid in the making lets others go first, at each of its steps."""


class Turn:
    """What somebody waits for goes first; what is made in advance lets it."""

    def __init__(self) -> None:
        self._lock, self._free, self._count = Lock(), Event(), 0
        self._free.set()

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1
            self._free.clear()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                self._free.set()

    def before(self, cancelled: Cancelled | None) -> Cancelled:
        """Asked at each step of a long pass: waits while others are served, and tells whether to stop."""

        def stop() -> bool:
            self._free.wait(PATIENCE)
            return cancelled is not None and cancelled()

        return stop
