"""Opens the viewer at a free port, with a random token, and prints its address."""

import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable

from foveate.errors import SetupError
from foveate.serve.session import Session

HOST = "127.0.0.1"


def open_viewer(session: Session, *, say: Callable[[str], None], browser: bool = True, port: int = 0) -> None:
    """Serve until Ctrl-C. Only this machine can connect, and only with the printed address.

    Raises SetupError if the port is in use.
    """
    import uvicorn

    from foveate.serve.app import application

    token = secrets.token_urlsafe(24)
    listener = listening(port)
    address = f"http://{HOST}:{listener.getsockname()[1]}/t/{token}/"
    app = application(session, token=token, port=listener.getsockname()[1])
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, lifespan="off")
    say(f"{address}\nOpen it in a browser. Only this machine can; Ctrl-C ends it.")
    if browser:
        # Some browsers return only when they are closed.
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    with listener:
        uvicorn.Server(config).run(sockets=[listener])


def listening(port: int) -> socket.socket:
    """A local socket that listens at a port, or at a free one for 0. Raises SetupError if the port is in use."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if sys.platform != "win32":  # on Windows it would share a port in use; elsewhere it reuses a released one
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise SetupError(f"Port {port} cannot be used: {error.strerror}. Leave --port out for a free one.") from error
    return listener
