"""Model processes, as the front sees them: they are started, asked, replaced when they die, and exchanged."""

import asyncio
import math
import os
import signal
import socket
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from foveate.errors import FoveateError, SetupError
from foveate.serve.service.message import (
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
from foveate.serve.service.model_setup import Setup
from foveate.serve.service.nursery import Nursery
from foveate.serve.service.refused import RefusedError, invalid, unavailable

PAUSES = (0.0, 0.2, 1.0, 3.0)
"""Seconds before a process that died is started again: the first time, the second …; the last for all others."""
SOUND = 30.0
"""Seconds after which a process that died counts as the first again."""
HUNG = 30.0
"""Seconds after the deadline of a question at which a process that has been silent since the question is ended."""
CLOSING = "The service is closing."
LOST = "The model process was lost while it answered, and is being started again. Send the request again."
CODES = {422: "invalid_request", 503: "unavailable", 504: "timeout"}


@dataclass(frozen=True)
class Left:
    """The client of a question has left."""


Said = Part | Reply | Refusal | Left


@dataclass(frozen=True, eq=False)
class Inquiry:
    """A question to a process, and what is said about it."""

    number: int
    said: asyncio.Queue[Said] = field(default_factory=asyncio.Queue)


class ModelHost:
    """One model process: its connection, and the questions that it has not answered."""

    def __init__(self, connection: socket.socket, number: int) -> None:
        self.cards: list[Card] = []
        self.pending: dict[int, Inquiry] = {}
        self.alive = True
        self._patience = 0.0
        self._overdue = math.inf
        self._reader = asyncio.StreamReader()
        self._writer: asyncio.StreamWriter | None = None
        self._listening: asyncio.Task[None] | None = None
        self._socket, self.number = connection, number

    @classmethod
    async def begun(cls, nursery: Nursery, setup: Setup) -> "ModelHost":
        """A process that has loaded its runs; meanwhile the loop turns. Raises SetupError if they cannot be loaded."""
        starting = asyncio.ensure_future(asyncio.to_thread(nursery.start, setup))
        try:
            host = cls(*await asyncio.shield(starting))
        except asyncio.CancelledError:
            starting.add_done_callback(_unwanted)
            raise
        await host.begin()
        return host

    async def begin(self) -> None:
        """Wait until the runs are loaded. Raises SetupError if they cannot be."""
        self._reader, self._writer = await asyncio.open_connection(sock=self._socket)
        try:
            message = await self._receive()
            while isinstance(message, Beat):
                message = await self._receive()
        except asyncio.CancelledError:
            self.end()
            raise
        if isinstance(message, Ready):
            self.cards = message.cards
            return
        self.alive = False  # it ends by itself
        self.end()
        if isinstance(message, Failed):
            error = SetupError(message.reason)
            error.exit_code = message.exit_code  # type: ignore[misc]
            raise error
        raise SetupError("The model process ended while it loaded its runs. Is there enough memory?")

    def listening(self) -> "asyncio.Task[None]":
        """A task that passes on what the process says until it ends."""
        if self._listening is None:
            self._listening = asyncio.ensure_future(self._listen())
        return self._listening

    async def _listen(self) -> None:
        while (message := await self._receive()) is not None:
            if isinstance(message, Part | Reply | Refusal) and message.number in self.pending:
                self.pending[message.number].said.put_nowait(message)
                if not isinstance(message, Part):
                    del self.pending[message.number]
            self._overdue = time.monotonic() + self._patience if self.pending else math.inf
        self.alive = False
        self._lose(LOST)

    def ask(self, question: Question) -> Inquiry:
        """Send a question. Raises RefusedError for settings that no message can have."""
        try:
            message = packed(question)
        except (OverflowError, RecursionError) as error:
            raise invalid(f"The settings cannot be read: {error}.") from None
        inquiry = self.pending[question.number] = Inquiry(question.number)
        self._patience = question.left + HUNG
        self._overdue = min(self._overdue, time.monotonic() + self._patience)
        self._send(message)
        return inquiry

    def forget(self, inquiry: Inquiry) -> None:
        """Nobody waits for the rest of an answer; a process that works on it is told so."""
        if self.pending.pop(inquiry.number, None) and self.alive:
            self._send(packed(Drop(inquiry.number)))

    def is_hung(self) -> bool:
        """Whether the process has not said anything for too long after a question: an idle one says that it is."""
        return time.monotonic() > self._overdue

    def end(self, reason: str = LOST) -> None:
        """End the process at once, and refuse what it has not answered. One that has closed its connection ends by
        itself.
        """
        if self.alive:
            with suppress(ProcessLookupError):
                os.kill(self.number, signal.SIGKILL)
        self.alive = False
        self._lose(reason)
        if self._writer is not None:
            self._writer.close()

    def _lose(self, reason: str) -> None:
        for inquiry in self.pending.values():
            inquiry.said.put_nowait(Refusal(inquiry.number, 503, reason))
        self.pending.clear()

    def _send(self, message: bytes) -> None:
        assert self._writer is not None
        self._writer.write(message)

    async def _receive(self) -> Any:
        try:
            return from_model(await self._reader.readexactly(size_of(await self._reader.readexactly(4))))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None


class ModelPool:
    """All model processes of a service. Each has all runs; a question goes to the one with the fewest. A spare process
    has its runs too, and takes the place of the first one that ends.
    """

    def __init__(self, setup: Setup, processes: int, note: Callable[[str], None], *, spare: bool = False) -> None:
        self.setup, self.note, self.has_spare = setup, note, spare
        self.nursery = Nursery()
        self.hosts: list[ModelHost | None] = [None] * processes
        self.spare: ModelHost | None = None
        """The process that waits to take a place; None while it is started."""
        self.restarts = 0
        self._number = 0
        self._reloading = asyncio.Lock()
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
        beginning = [asyncio.ensure_future(ModelHost.begun(self.nursery, self.setup)) for _ in self.hosts]
        results = await asyncio.gather(*beginning, return_exceptions=True)
        hosts = [host for host in results if isinstance(host, ModelHost)]
        for error in results:
            if isinstance(error, BaseException):
                for host in hosts:
                    host.end()
                raise error
        for place, host in enumerate(hosts):
            self._exchange(place, host)
        self.watch(self._end_hung())
        if self.has_spare:
            self.watch(self._keep_spare())

    async def ask(
        self,
        run: str,
        kind: Kind,
        texts: list[str],
        settings: dict[str, Any],
        left: float,
        cost: int,
        leaving: "asyncio.Future[None]",
        files: list[bytes] | None = None,
    ) -> AsyncGenerator[Part | Reply]:
        """The parts of an answer, and the answer. Raises RefusedError where there is none, also when the client leaves
        (`leaving` is done); who leaves the loop drops the question.
        """
        alive = [host for host in self.hosts if host and host.alive]
        if not alive:
            raise unavailable("The models are being loaded.")
        host = min(alive, key=lambda each: len(each.pending))
        self._number += 1
        inquiry = host.ask(Question(self._number, run, kind, texts, settings, left, cost, files or []))

        def leave(client: "asyncio.Future[None]") -> None:
            inquiry.said.put_nowait(Left())

        leaving.add_done_callback(leave)
        clock = asyncio.get_running_loop().time
        until = clock() + left
        try:
            while True:
                try:
                    async with asyncio.timeout_at(until):
                        message = await inquiry.said.get()
                except TimeoutError:
                    raise RefusedError(504, "The deadline has passed.", "timeout") from None
                if isinstance(message, Left):
                    raise RefusedError(499, "The client has left.", "client_left")
                if isinstance(message, Refusal):
                    headers = {"retry-after": "1"} if message.status == 503 else {}
                    raise RefusedError(message.status, message.reason, CODES.get(message.status, "failed"), headers)
                yield message
                if isinstance(message, Reply):
                    return
                until = clock() + left  # a stream may take longer, as long as it goes on
        finally:
            leaving.remove_done_callback(leave)
            host.forget(inquiry)

    async def reload(self) -> None:
        """Load the runs anew beside those that answer, and then exchange them; old processes finish what they have.

        All new processes are there before the first old one is exchanged. Raises SetupError if a run cannot be loaded,
        or if its files change meanwhile: then the old processes go on.
        """
        async with self._reloading:
            fresh: list[ModelHost] = []
            try:
                for _ in self.hosts:
                    fresh.append(await ModelHost.begun(self.nursery, self.setup))
                    if _digests(fresh[-1]) != _digests(fresh[0]):
                        raise SetupError("A run was written while it was loaded. Load the runs again.")
            except BaseException:
                for host in fresh:
                    host.end()
                    host.listening()  # until its connection is closed
                raise
            for place, host in enumerate(fresh):
                self._exchange(place, host)
            if self.spare is not None:
                self.spare.end()  # another one is started, with the runs as they are now

    async def close(self) -> None:
        """End all processes; requests without an answer are refused."""
        self._closing = True
        for host in self.hosts:
            if host is not None:
                host.end(CLOSING)
        if self.spare is not None:
            self.spare.end(CLOSING)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.nursery.close()

    def watch(self, work: Coroutine[Any, Any, None]) -> None:
        """Let some work go on until the pool is closed."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _exchange(self, place: int, new: ModelHost) -> None:
        """Let a process that has begun take a place; the one that has it finishes what it has."""
        if self._closing:
            new.end()
            return
        old, self.hosts[place] = self.hosts[place], new
        self.watch(self._guard(place, new))
        if old is not None:
            self.watch(self._retire(old))

    async def _guard(self, place: int, host: ModelHost) -> None:
        """Start a process again whenever it ends, until it is exchanged."""
        failures, started = 0, time.monotonic()
        while True:
            await host.listening()
            if self._closing or self.hosts[place] is not host:
                return
            self.restarts += 1
            host.end()
            fresh = self._spare_for(host)
            if fresh is not None:
                self.note(f"Model process {host.number} ended, and the spare one takes its place.")
            else:
                self.note(f"Model process {host.number} ended and is started again.")
                failures = 1 if time.monotonic() - started > SOUND else failures + 1
                await asyncio.sleep(PAUSES[min(failures - 1, len(PAUSES) - 1)])
                fresh = await self._begun(place, host)
            if fresh is None:
                return
            if changed := [name for name, digest in _digests(fresh) if (name, digest) not in _digests(host)]:
                self.note(f"Other weights than before answer now, because files have changed: {', '.join(changed)}.")
            started = time.monotonic()
            self.hosts[place] = host = fresh

    def _spare_for(self, lost: ModelHost) -> ModelHost | None:
        """The spare process, if it is alive and has the runs of one that ended; one with other weights is replaced."""
        spare = self.spare
        if spare is not None and _digests(spare) != _digests(lost):
            spare.end()
        if spare is None or not spare.alive:
            return None
        self.spare = None
        return spare

    async def _keep_spare(self) -> None:
        """Start a spare process whenever there is none: after a pause, because others have more to do."""
        while True:
            try:
                spare = self.spare = await ModelHost.begun(self.nursery, self.setup)
            except FoveateError as error:
                self.note(f"The runs cannot be loaded: {error}")
            else:
                while self.spare is spare and spare.alive:
                    await asyncio.wait({spare.listening()}, timeout=PAUSES[1])
                if self.spare is spare:
                    self.spare = None
                    spare.end()
            await asyncio.sleep(PAUSES[2])

    async def _begun(self, place: int, lost: ModelHost) -> ModelHost | None:
        """A process in the place of one that ended, however often it has to be started; None if the place was taken
        meanwhile.
        """
        while self.hosts[place] is lost:
            try:
                fresh = await ModelHost.begun(self.nursery, self.setup)
            except FoveateError as error:
                self.note(f"The runs cannot be loaded: {error}")
                await asyncio.sleep(PAUSES[-1])
                continue
            if self.hosts[place] is lost:
                return fresh
            fresh.end()
        return None

    async def _retire(self, host: ModelHost) -> None:
        try:
            while host.pending and host.alive:
                await asyncio.sleep(0.05)
        finally:
            host.end(CLOSING)

    async def _end_hung(self) -> None:
        while True:
            await asyncio.sleep(1)
            for host in self.hosts:
                if host is not None and host.alive and host.is_hung():
                    self.note("A model process does not answer and is ended.")
                    host.end()


def _digests(host: ModelHost) -> list[tuple[str, str]]:
    return [(card.name, card.digest) for card in host.cards]


def _unwanted(starting: "asyncio.Future[tuple[socket.socket, int]]") -> None:
    """A process was started that nobody waits for any more: it ends with its connection."""
    if not starting.cancelled() and starting.exception() is None:
        starting.result()[0].close()
