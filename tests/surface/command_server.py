"""Runs `foveate` for a shell in copies of one process that has imported torch, which takes longer than most commands.

`python -S command_server.py serve DESCRIPTOR` answers `python -S command_server.py ask SOCKET ARGUMENT …` at a socket
that listens, until it is killed. A copy has the folder, the variables, the packages, the input and the outputs of the
process that asks, and imports foveate itself.
"""

import json
import os
import socket
import sys


def serve(descriptor: int) -> None:
    """Run one command after another. Returns only in the copies, when their command is done."""
    # The copies have both. An optimiser of torch imports the second one with its first step.
    import torch
    import torch._dynamo  # noqa: F401

    listening = socket.socket(fileno=descriptor)
    while True:
        client, _ = listening.accept()
        copy = os.fork()
        if copy == 0:
            listening.close()
            return run(client)
        status = os.waitpid(copy, 0)[1]
        client.sendall(str(os.waitstatus_to_exitcode(status)).encode())
        client.close()


def run(client: socket.socket) -> None:
    """Be the process that the client asks for."""
    request, descriptors, _, _ = socket.recv_fds(client, 1 << 20, 3)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    # The streams of the server may have found another kind of file there.
    sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace")  # noqa: SIM115
    wanted = json.loads(request)
    os.chdir(wanted["folder"])
    sys.path[sys.path.index(os.environ["PYTHONPATH"])] = wanted["variables"]["PYTHONPATH"]
    os.environ.clear()
    os.environ.update(wanted["variables"])
    sys.argv = ["foveate", *wanted["arguments"]]
    from foveate.cli import main

    sys.exit(main())


def ask(path: str, arguments: list[str]) -> int:
    """The exit status of `foveate` with these arguments."""
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)
    wanted = {"arguments": arguments, "folder": os.getcwd(), "variables": dict(os.environ)}
    socket.send_fds(client, [json.dumps(wanted).encode()], [0, 1, 2])
    return int(client.recv(16))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        sys.exit(ask(sys.argv[2], sys.argv[3:]))
