"""The process from which model processes are forked: it has imported everything and loaded nothing, so that a model
process that died is back as soon as its runs are loaded.

`multiprocessing` would import the main program of the front again; this does not.
"""

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from foveate.errors import SetupError
from foveate.serve.service.model_process import Setup, main

PRELOADED = (
    "torch",
    "foveate.machine",
    "foveate.tasks.translate.side",
    "foveate.tasks.tag.side",
    "foveate.tasks.classify.side",
    "foveate.tasks.language_model.side",
    "foveate.tasks.masked_language_model.side",
)
LONGEST = 1 << 16
"""Bytes of an order, which names runs."""
BEGIN = "import sys; sys.path[:] = {path!r}; from foveate.serve.service.nursery import serve; serve({descriptor})"


class Nursery:
    """Starts model processes. The process of the nursery is started with the first, and again when it has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._orders: socket.socket | None = None

    def start(self, setup: Setup) -> tuple[socket.socket, int]:
        """A new model process: the connection to it, and its number. Raises SetupError if it cannot be started."""
        for attempt in range(2):
            own, other = socket.socketpair()
            with other:
                try:
                    return own, self._ordered(other, json.dumps(asdict(setup)).encode())
                except OSError as error:
                    own.close()
                    self.close()
                    if attempt:
                        raise SetupError(f"A model process cannot be started: {error}. Is there memory?") from error
        raise AssertionError

    def close(self) -> None:
        """End the nursery; model processes end with their connections."""
        if self._orders is not None:
            self._orders.close()
            self._orders = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _ordered(self, connection: socket.socket, order: bytes) -> int:
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
            code = BEGIN.format(path=[each or os.getcwd() for each in sys.path], descriptor=other.fileno())
            command = [sys.executable, "-S", "-P", "-c", code]
            self._process = subprocess.Popen(
                command, pass_fds=[other.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
            )
        self._orders = own


def serve(descriptor: int) -> None:
    """Fork a model process for each order until the front ends. This is the program of the nursery's process."""
    orders = socket.socket(fileno=descriptor)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children, so that they do not stay as zombies
    for module in PRELOADED:
        importlib.import_module(module)
    while True:
        with suppress(ConnectionError):
            order, connections, _, _ = socket.recv_fds(orders, LONGEST, 1)
            if not order:
                return
            child = os.fork()
            if child:
                os.close(connections[0])
                orders.send(str(child).encode())
                continue
            orders.close()
            _work(socket.socket(fileno=connections[0]), json.loads(order))


def _work(connection: socket.socket, order: dict[str, Any]) -> None:
    """The whole life of a model process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a compiler's end is waited for
    code = 1
    try:
        runs = tuple((name, run) for name, run in order.pop("runs"))
        main(connection, Setup(runs=runs, **{**order, "modules": tuple(order["modules"])}))
        code = 0
    finally:
        os._exit(code)
