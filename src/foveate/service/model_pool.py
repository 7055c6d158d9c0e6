"""Model processes, as the front sees them: they are started, asked, replaced when they die, and exchanged."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any

from foveate.errors import FoveateError, SetupError
from foveate.service.message import (
    Beat,
    Card,
    Drop,
    Failed,
    Kind,
    Part,
    Question,
    Ready,
    Refusal,
    Reply,
    from_model,
    packed,
    size_of,
)
from foveate.service.model_process import Setup
from foveate.service.nursery import Nursery
from foveate.service.refused import RefusedError, unavailable

PAUSES = (0.0, 0.2, 1.0, 3.0)
"""Seconds before a process that died is started again: the first time, the second …; the last for all others."""
SOUND = 30.0
"""Seconds after which a process that died counts as the first again."""
HUNG = 30.0
"""Seconds after the deadline of an unanswered question at which its process is ended."""
LOST = "The model process was lost while it answered, and is being started again. Send the request again."


class ModelHost:
    """One model process: its connection, and the questions that it has not answered."""

    def __init__(self, nursery: Nursery, setup: Setup) -> None:
        self.cards: list[Card] = []
        self.pending: dict[int, asyncio.Queue[Part | Reply | Refusal]] = {}
        self.deadlines: dict[int, float] = {}
        self.alive = True
        self._reader = asyncio.StreamReader()
        self._writer: asyncio.StreamWriter | None = None
        self._socket, self.number = nursery.start(setup)

    async def begin(self) -> None:
        """Wait until the runs are loaded. Raises SetupError if they cannot be."""
        self._reader, self._writer = await asyncio.open_connection(sock=self._socket)
        message = await self._receive()
        while isinstance(message, Beat):
            message = await self._receive()
        if isinstance(message, Ready):
            self.cards = message.cards
            return
        self.end()
        if isinstance(message, Failed):
            error = SetupError(message.reason)
            error.exit_code = message.exit_code  # type: ignore[misc]
            raise error
        raise SetupError("The model process ended while it loaded its runs. Is there enough memory?")

    async def listen(self) -> None:
        """Pass on what the process says until it ends."""
        while (message := await self._receive()) is not None:
            if isinstance(message, Part | Reply | Refusal) and message.number in self.pending:
                self.pending[message.number].put_nowait(message)
        self.alive = False
        for number, queue in self.pending.items():
            queue.put_nowait(Refusal(number, 503, LOST))

    def ask(self, question: Question) -> "asyncio.Queue[Part | Reply | Refusal]":
        """Send a question; its parts and its answer come through the queue."""
        queue: asyncio.Queue[Part | Reply | Refusal] = asyncio.Queue()
        self.pending[question.number] = queue
        self.deadlines[question.number] = time.monotonic() + question.left
        self._send(question)
        return queue

    def forget(self, number: int, *, answered: bool) -> None:
        """Nothing more is expected about a question; a process that works on it is told so."""
        self.pending.pop(number, None)
        self.deadlines.pop(number, None)
        if not answered and self.alive:
            self._send(Drop(number))

    def is_hung(self) -> bool:
        return any(time.monotonic() > deadline + HUNG for deadline in self.deadlines.values())

    def end(self) -> None:
        """End the process at once. One that has closed its connection ends by itself."""
        if self.alive:
            with suppress(ProcessLookupError):
                os.kill(self.number, signal.SIGKILL)
        self.alive = False
        if self._writer is not None:
            self._writer.close()

    def _send(self, message: Question | Drop) -> None:
        assert self._writer is not None
        self._writer.write(packed(message))

    async def _receive(self) -> Any:
        try:
            return from_model(await self._reader.readexactly(size_of(await self._reader.readexactly(4))))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None


class ModelPool:
    """All model processes of a service. Each has all runs; a question goes to the one with the fewest."""

    def __init__(self, setup: Setup, processes: int, note: Callable[[str], None]) -> None:
        self.setup, self.note = setup, note
        self.nursery = Nursery()
        self.hosts: list[ModelHost | None] = [None] * processes
        self.restarts = 0
        self._number = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    @property
    def cards(self) -> list[Card]:
        """The runs that answer now; none where all processes are starting."""
        return next((host.cards for host in self.hosts if host and host.alive), [])

    @property
    def is_ready(self) -> bool:
        return bool(self.cards)

    async def begin(self) -> None:
        """Start all processes. Raises SetupError if the runs cannot be loaded."""
        hosts = [ModelHost(self.nursery, self.setup) for _ in self.hosts]
        try:
            await asyncio.gather(*(host.begin() for host in hosts))
        except FoveateError:
            for host in hosts:
                host.end()
            raise
        for place, host in enumerate(hosts):
            self.hosts[place] = host
            self._watch(self._guard(place, host))
        self._watch(self._end_hung())

    async def ask(
        self, run: str, kind: Kind, texts: list[str], settings: dict[str, Any], left: float, cost: int
    ) -> AsyncGenerator[Part | Reply]:
        """The parts of an answer, and the answer. Raises RefusedError where there is none; who leaves the loop drops
        the question.
        """
        alive = [host for host in self.hosts if host and host.alive]
        if not alive:
            raise unavailable("The models are being loaded.")
        host = min(alive, key=lambda each: len(each.pending))
        self._number += 1
        number, answered, until = self._number, False, time.monotonic() + left
        queue = host.ask(Question(number, run, kind, texts, settings, left, cost))
        try:
            while not answered:
                try:
                    # A stream may take longer, as long as it goes on.
                    message = await asyncio.wait_for(queue.get(), until - time.monotonic())
                except TimeoutError:
                    raise RefusedError(504, "The deadline has passed.", "timeout") from None
                answered = not isinstance(message, Part)
                if isinstance(message, Refusal):
                    headers = {"retry-after": "1"} if message.status == 503 else {}
                    code = {422: "invalid_request", 503: "unavailable", 504: "timeout"}.get(message.status, "failed")
                    raise RefusedError(message.status, message.reason, code, headers)
                until = max(until, time.monotonic() + left) if isinstance(message, Part) else until
                yield message
        finally:
            host.forget(number, answered=answered)

    async def reload(self) -> None:
        """Load the runs anew beside those that answer, and then exchange them; old processes finish what they have.

        Raises SetupError if a run cannot be loaded: then the old ones go on.
        """
        for place, old in enumerate(self.hosts):
            new = ModelHost(self.nursery, self.setup)
            await new.begin()
            self.hosts[place] = new
            self._watch(self._guard(place, new))
            if old is not None:
                self._watch(self._retire(old))

    async def close(self) -> None:
        """End all processes."""
        self._closing = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for host in self.hosts:
            if host is not None:
                host.end()
        self.nursery.close()

    async def _guard(self, place: int, host: ModelHost) -> None:
        """Start a process again whenever it ends, until it is exchanged."""
        failures, started = 0, time.monotonic()
        while True:
            await host.listen()
            if self._closing or self.hosts[place] is not host:
                return
            self.restarts += 1
            self.note(f"Model process {host.number} ended and is started again.")
            host.end()
            failures = 1 if time.monotonic() - started > SOUND else failures + 1
            await asyncio.sleep(PAUSES[min(failures - 1, len(PAUSES) - 1)])
            while True:
                started = time.monotonic()
                fresh = ModelHost(self.nursery, self.setup)
                try:
                    await fresh.begin()
                    break
                except FoveateError as error:
                    self.note(f"The runs cannot be loaded: {error}")
                    await asyncio.sleep(PAUSES[-1])
            self.hosts[place] = host = fresh

    async def _retire(self, host: ModelHost) -> None:
        while host.pending and host.alive:
            await asyncio.sleep(0.05)
        host.end()

    async def _end_hung(self) -> None:
        while True:
            await asyncio.sleep(1)
            for host in self.hosts:
                if host is not None and host.alive and host.is_hung():
                    self.note("A model process does not answer and is ended.")
                    host.end()

    def _watch(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
