"""Start and end of a service."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import uvicorn

from foveate.errors import FoveateError, SetupError
from foveate.serve.service.admission import Limits
from foveate.serve.service.desk import Desk
from foveate.serve.service.front import Door, application
from foveate.serve.service.http_connection import http_connection
from foveate.serve.service.keyring import Keyring
from foveate.serve.service.model_pool import ModelPool
from foveate.serve.service.model_setup import Setup

LOCAL = frozenset({"127.0.0.1", "localhost", "[::1]"})
BACKLOG = 2048


@dataclass(frozen=True)
class Service:
    """The runs to serve, and the address."""

    setup: Setup
    address: str = "127.0.0.1"
    port: int = 8080
    processes: int = 1
    spare: bool = False
    """Whether one more process has the runs, and takes the place of one that ends."""
    keys: Keyring = field(default_factory=Keyring)
    origins: tuple[str, ...] = ()
    limits: Limits = Limits()

    @property
    def is_local(self) -> bool:
        return self.address in ("127.0.0.1", "localhost", "::1")


def run(service: Service, *, note: Callable[[str], None], log: Callable[[str], None] | None) -> None:
    """Serve until SIGTERM or Ctrl-C; then no request is admitted, and those that were are answered.

    Raises SetupError where the address is in use or a run cannot be loaded.
    """
    with contextlib.suppress(ImportError):
        import uvloop

        uvloop.install()
    _allow_connections()
    asyncio.run(_run(service, note, log))


async def _run(service: Service, note: Callable[[str], None], log: Callable[[str], None] | None) -> None:
    listener = _bound(service.address, service.port)
    loop, early = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, early.set)  # it would end the service while the runs are being loaded
    pool = ModelPool(service.setup, service.processes, note, spare=service.spare)
    try:
        await pool.begin()
        desk = Desk(pool, service.limits)
        # A service of files alone counts milliseconds of work.
        rate = min((card.speed for card in pool.cards if card.speed), default=1000.0)
        desk.admission.begin(rate, flights=any(card.flies is not None for card in pool.cards))
        hosts = LOCAL if service.is_local else None
        app = application(desk, service.keys, Door(hosts, frozenset(service.origins)), log)
        config = uvicorn.Config(
            app,
            http=http_connection(service.limits),
            ws="none",
            access_log=False,
            log_level="error",
            server_header=False,
            lifespan="off",
            backlog=BACKLOG,
            timeout_graceful_shutdown=5,
        )
        server = _Server(config)
        name = f"[{service.address}]" if ":" in service.address else service.address
        address = f"http://{name}:{listener.getsockname()[1]}"
        names = ", ".join(f"{card.name} ({card.verb})" for card in pool.cards)
        closing = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, closing.set)
        loop.add_signal_handler(signal.SIGHUP, lambda: pool.watch(_reload(pool, note)))
        _listen(listener, service.address)
        note(f"{address} serves {names}. Ctrl-C ends it.")
        if early.is_set():
            pool.watch(_reload(pool, note))
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        await asyncio.wait({serving, asyncio.ensure_future(closing.wait())}, return_when=asyncio.FIRST_COMPLETED)
        desk.draining = True
        if desk.in_flight:
            note(f"The service is closing: {desk.in_flight} requests are answered first.")
        await _drained(desk, service.limits.drain)
        await pool.close()  # whoever has no answer until now is told so
        server.should_exit = True
        await serving
    finally:
        await pool.close()
        listener.close()


async def _drained(desk: Desk, most: float) -> None:
    """Wait until all admitted requests are answered, at most some seconds. Others are told meanwhile that the service
    is closing.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + most
    while desk.in_flight and loop.time() < until:
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.1)  # the last answers are written


async def _reload(pool: ModelPool, note: Callable[[str], None]) -> None:
    try:
        await pool.reload()
        note("The runs were loaded anew.")
    except FoveateError as error:
        note(f"The runs were not loaded anew, and the old ones go on: {error}")


class _Server(uvicorn.Server):
    """Leaves the signals to us: uvicorn would close the door before the admitted requests are answered."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _allow_connections() -> None:
    """Allow as many open connections as the system does: many systems begin with 1,024."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _bound(address: str, port: int) -> socket.socket:
    """A socket at an address, which does not listen yet. Raises SetupError if the address cannot be used."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
    except OSError as error:
        listener.close()
        raise _unusable(address, port, error) from error
    return listener


def _listen(listener: socket.socket, address: str) -> None:
    """Let clients connect. Raises SetupError where another program began to listen since the socket was bound."""
    try:
        listener.listen(BACKLOG)
    except OSError as error:
        raise _unusable(address, listener.getsockname()[1], error) from error


def _unusable(address: str, port: int, error: OSError) -> SetupError:
    return SetupError(f"{address}:{port} cannot be used: {error.strerror}. Choose another --port; 0 takes a free one.")
