"""The program of the nursery's process: it imports everything, loads nothing, and forks a model process for each
order.
"""

import importlib
import json
import os
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

from foveate.serve.service.failure import described
from foveate.serve.service.model_process import main
from foveate.serve.service.model_setup import Setup

PRELOADED = (
    "torch",
    "foveate.machine",
    "foveate.tasks.translate.side",
    "foveate.tasks.tag.side",
    "foveate.tasks.classify.side",
    "foveate.tasks.language_model.side",
    "foveate.tasks.masked_language_model.side",
)


def serve(descriptor: int, longest: int) -> None:
    """Fork a model process for each order, of at most so many bytes, until the front ends."""
    orders = socket.socket(fileno=descriptor)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children, so that they do not stay as zombies
    for module in PRELOADED:
        importlib.import_module(module)
    while True:
        with suppress(ConnectionError):
            order, connections, _, _ = socket.recv_fds(orders, longest, 1)
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
    except BaseException as error:
        print(f"A model process ends: {described(error)}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)
