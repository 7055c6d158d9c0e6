"""Gives requests precedence over computations in advance."""

from threading import Event, Lock

from foveate.inspect.tile.provider import Cancelled

PATIENCE = 1.0
"""The maximum number of seconds for which a step of a pyramid waits for requests."""


class Turn:
    """Computations in advance wait at each step while requests are answered."""

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
        """Wait while requests are answered; return whether to stop. A long pass calls this at each step."""

        def stop() -> bool:
            self._free.wait(PATIENCE)
            return cancelled is not None and cancelled()

        return stop
