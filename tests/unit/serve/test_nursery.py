"""The process from which model processes are forked."""

import socket
import subprocess
import sys

from foveate.serve.service.nursery import BEGIN, LONGEST


def test_a_model_process_that_fails_says_where_and_does_not_quote_anything() -> None:
    own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    code = BEGIN.format(path=sys.path, descriptor=other.fileno(), longest=LONGEST)
    command = [sys.executable, "-S", "-P", "-c", code]
    with own, subprocess.Popen(command, pass_fds=[other.fileno()], stderr=subprocess.PIPE, text=True) as nursery:
        other.close()
        children = []
        for _ in range(2):  # the nursery outlives a model process
            connection, front = socket.socketpair()
            with connection, front:
                socket.send_fds(own, [b'{"runs": [], "modules": [], "a secret": 1}'], [connection.fileno()])
                children.append(int(own.recv(LONGEST)))
                connection.close()
                assert front.recv(1) == b""  # the front learns that the process has ended
        own.close()
        assert nursery.stderr is not None
        lines = nursery.stderr.read().splitlines()
    assert len(set(children)) == 2
    assert len(lines) == 2
    for line in lines:
        assert line.startswith("A model process ends: TypeError (nursery_process.py:")
        assert "secret" not in line
