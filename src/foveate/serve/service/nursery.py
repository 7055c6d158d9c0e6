"""Starts model processes, as the front sees it. They are forked from a process that has imported everything and loaded
nothing (`nursery_process.py`), so that a model process that died is back as soon as its runs are loaded.

`multiprocessing` would import the main program of the front again; this does not.
"""

import json
import os
import socket
import subprocess
import sys
import threading
from dataclasses import asdict

from foveate.errors import SetupError
from foveate.serve.service.model_setup import Setup

LONGEST = 1 << 16
"""Bytes of an order, which names runs."""
BEGIN = (
    "import sys; sys.path[:] = {path!r}; "
    "from foveate.serve.service.nursery_process import serve; serve({descriptor}, {longest})"
)


class Nursery:
    """Starts model processes, in any thread. The process of the nursery is started with the first, and again when it
    has died.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._orders: socket.socket | None = None
        self._ordering = threading.Lock()
        self._closed = False

    def start(self, setup: Setup) -> tuple[socket.socket, int]:
        """A new model process: the connection to it, and its number. Waits until the nursery has imported everything,
        which takes seconds. Raises SetupError if the process cannot be started.
        """
        with self._ordering:
            for attempt in range(2):
                own, other = socket.socketpair()
                with other:
                    try:
                        return own, self._ordered(other, json.dumps(asdict(setup)).encode())
                    except OSError as error:
                        own.close()
                        self._end()
                        if attempt or self._closed:
                            raise SetupError(f"A model process cannot be started: {error}. Is there memory?") from error
        raise AssertionError

    def close(self) -> None:
        """End the nursery; model processes end with their connections. A start that waits for it fails."""
        self._closed = True
        if self._process is not None:
            self._process.kill()
        with self._ordering:
            self._end()

    def _end(self) -> None:
        if self._orders is not None:
            self._orders.close()
            self._orders = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _ordered(self, connection: socket.socket, order: bytes) -> int:
        if self._closed:
            raise OSError("the service is closing")
        if self._orders is None:
            self._begin()
        assert self._orders is not None
        socket.send_fds(self._orders, [order], [connection.fileno()])
        answer = self._orders.recv(LONGEST)
        if not answer:
            raise OSError("the process from which it is forked has ended")
        return int(answer)

    def _begin(self) -> None:
        own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            path = [each or os.getcwd() for each in sys.path]
            code = BEGIN.format(path=path, descriptor=other.fileno(), longest=LONGEST)
            command = [sys.executable, "-S", "-P", "-c", code]
            self._process = subprocess.Popen(
                command, pass_fds=[other.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
            )
        self._orders = own
        if self._closed:  # `close` may have looked before there was a process to end
            raise OSError("the service is closing")
