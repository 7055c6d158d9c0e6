"""Model processes as the front sees them: drops, losses, reloads, and the end. The processes are threads here, which
speak over the same connections, and wait where a test says so.
"""

import asyncio
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pytest
from starlette.requests import Request

from foveate.errors import DataError, FoveateError, SetupError
from foveate.interruption import ask
from foveate.serve.service import desk as desks
from foveate.serve.service import model_pool, model_process
from foveate.serve.service.admission import Limits
from foveate.serve.service.desk import Desk
from foveate.serve.service.message import Card, Part, Ready, Reply
from foveate.serve.service.model_pool import ModelPool
from foveate.serve.service.model_process import ModelProcess
from foveate.serve.service.model_setup import Setup
from foveate.serve.service.nursery import Nursery
from foveate.serve.service.refused import RefusedError
from foveate.tasks.served import Answered, Served, Tell

CARD = Card("loud", "generate", "", "", 0, None, 0, (), 1000.0)


class Loud(Served):
    """Answers in capitals, as soon as it may."""

    verb = "generate"

    def __init__(self) -> None:
        super().__init__(None)
        self.may = threading.Event()
        self.may.set()
        self.read: list[str] = []
        self.stopped = threading.Event()

    def answer(self, texts: Sequence[str], settings: Mapping[str, Any]) -> list[Answered]:
        self.read += texts
        while not self.may.wait(0.01):
            ask()  # as every step of decoding does
        return [Answered(text.upper()) for text in texts]

    def stream(self, text: str, settings: Mapping[str, Any], tell: Tell) -> Answered:
        """Letter by letter, as often as the setting says."""
        try:
            for _ in range(settings.get("times", 1)):
                tell(text)
                self.stopped.wait(0.01)
        except Exception:
            self.stopped.set()
            raise
        return Answered(text)

    def flight(self) -> "LoudFlight":
        return LoudFlight(self)

    def strange(self, text: str, settings: Mapping[str, Any]) -> list[str]:
        """It knows letters, digits and spaces."""
        if "\0" in text:
            raise ValueError
        return [sign for sign in text if not (sign.isalnum() or sign == " ")]


class LoudFlight:
    """Answers all questions together, the last first, as soon as the model may."""

    def __init__(self, model: Loud) -> None:
        self.model = model
        self.questions: dict[int, list[str]] = {}
        self.dropped: list[str] = []
        self.fails = False

    @property
    def busy(self) -> bool:
        return bool(self.questions)

    def serves(self, kind: str, settings: Mapping[str, Any]) -> bool:
        return kind == "answer"

    def admit(
        self, number: int, texts: Sequence[str], settings: Mapping[str, Any] | None = None, tell: Tell | None = None
    ) -> None:
        self.questions[number] = list(texts)

    def drop(self, number: int) -> None:
        self.dropped += self.questions.pop(number)

    def tick(self) -> list[tuple[int, list[Answered]]]:
        if not self.model.may.wait(0.01):
            return []
        if self.fails:
            raise ValueError
        complete = [(number, self.model.answer(texts, {})) for number, texts in reversed(self.questions.items())]
        self.questions.clear()
        return complete


class LetterFlight(LoudFlight):
    """Tells streams letter by letter, as often as their setting says, one letter of each in a tick."""

    def __init__(self, model: Loud) -> None:
        super().__init__(model)
        self.letters: dict[int, tuple[str, int, Tell | None]] = {}

    @property
    def busy(self) -> bool:
        return bool(self.letters)

    def serves(self, kind: str, settings: Mapping[str, Any]) -> bool:
        return True

    def admit(
        self, number: int, texts: Sequence[str], settings: Mapping[str, Any] | None = None, tell: Tell | None = None
    ) -> None:
        self.letters[number] = texts[0], (settings or {}).get("times", 1), tell

    def drop(self, number: int) -> None:
        self.dropped.append(self.letters.pop(number)[0])

    def tick(self) -> list[tuple[int, list[Answered] | FoveateError]]:
        time.sleep(0.01)
        complete = list[tuple[int, list[Answered] | FoveateError]]()
        for number, (text, times, tell) in list(self.letters.items()):
            if self.fails and times < 5:
                raise ValueError
            if text == "damaged" and times < 5:
                complete.append((number, DataError("This text fails.")))
                del self.letters[number]
                continue
            if tell is not None:
                tell(text)
            self.letters[number] = text, times - 1, tell
            if times == 1:
                complete.append((number, [Answered(text)]))
                del self.letters[number]
        return complete


class Threads(Nursery):
    """Starts model processes as threads. Their number is that of a process which may be killed."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.processes: list[ModelProcess] = []
        self.models: list[Loud] = []
        self.threads: list[threading.Thread] = []
        self.failing = 0
        self.last: int | None = None
        """The number of processes after which none is started."""
        self.loading: dict[int, threading.Event] = {}
        self.cards: dict[int, Card] = {}
        self.pause = 0.0

    def start(self, setup: Setup) -> tuple[socket.socket, int]:
        if self.failing or len(self.processes) == self.last:
            self.failing -= bool(self.failing)
            raise SetupError("There is no memory.")
        time.sleep(self.pause)
        own, other = socket.socketpair()
        process = ModelProcess(other)
        self.models.append(Loud())
        self.processes.append(process)
        process.models["loud"] = self.models[-1]
        self.threads.append(threading.Thread(target=self._work, args=(process,), daemon=True))
        self.threads[-1].start()
        return own, self.number

    def running(self) -> int:
        return sum(not process.ended for process in self.processes)

    def _work(self, process: ModelProcess) -> None:
        loading = self.loading.get(self.processes.index(process))
        if loading:
            loading.wait(20)
        process.send(Ready([self.cards.get(self.processes.index(process), CARD)]))
        process.work()
        process.connection.close()


@pytest.fixture
def threads() -> Iterator[Threads]:
    with subprocess.Popen(["sleep", "600"]) as sleeper:
        threads = Threads(sleeper.pid)
        yield threads
        sleeper.kill()
    for model in threads.models:
        model.may.set()
    for thread in threads.threads:
        thread.join(10)


Test = Callable[[Desk], Coroutine[Any, Any, None]]


def run(threads: Threads, test: Test, *, processes: int = 1, timeout: float = 20.0, spare: bool = False) -> None:
    """Let a test use a service with these processes."""

    async def whole() -> None:
        pool = ModelPool(Setup(()), processes, note=lambda sentence: None, spare=spare)
        pool.nursery = threads
        await pool.begin()
        desk = Desk(pool, Limits(timeout=timeout, wait=1000.0))
        try:
            await test(desk)
        finally:
            await pool.close()
        assert desk.admission.waiting == desk.in_flight == 0

    asyncio.run(whole())


class Client:
    """A client that may leave."""

    def __init__(self) -> None:
        self.left = asyncio.Event()

    def ask(self, desk: Desk, *texts: str) -> "asyncio.Task[list[str]]":
        async def answer() -> list[str]:
            return (await desk.ask(self.request(), CARD, texts, {})).values

        return asyncio.ensure_future(answer())

    def request(self) -> Request:
        async def receive() -> dict[str, str]:
            await self.left.wait()
            return {"type": "http.disconnect"}

        return Request({"type": "http"}, receive)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.005)


def test_each_question_gets_its_own_answer(threads: Threads) -> None:
    async def test(desk: Desk) -> None:
        tasks = [Client().ask(desk, *(f"text {number} {part}" for part in range(number % 4))) for number in range(40)]
        for number, answer in enumerate(await asyncio.gather(*tasks)):
            assert answer == [f"TEXT {number} {part}" for part in range(number % 4)]

    run(threads, test, processes=2)


def test_a_question_whose_client_has_left_is_not_answered(threads: Threads) -> None:
    async def test(desk: Desk) -> None:
        (model,) = threads.models
        model.may.clear()
        first = Client().ask(desk, "first")
        await until(lambda: model.read == ["first"])
        client = Client()
        second, third = client.ask(desk, "second"), Client().ask(desk, "third")
        await until(lambda: len(threads.processes[0].waiting) == 2)
        client.left.set()
        with pytest.raises(RefusedError) as refusal:
            await second
        assert refusal.value.status == 499
        await until(lambda: bool(threads.processes[0].dropped))
        model.may.set()
        assert [await first, await third] == [["FIRST"], ["THIRD"]]
        assert model.read == ["first", "third"]

    run(threads, test)


def test_a_batch_that_nobody_waits_for_is_not_answered_to_its_end(threads: Threads) -> None:
    async def test(desk: Desk) -> None:
        (model,), (process,) = threads.models, threads.processes
        model.may.clear()
        leaving, clients = Client(), [Client() for _ in range(3)]
        first = leaving.ask(desk, "first")
        await until(lambda: model.read == ["first"])
        batch = [client.ask(desk, f"text {number}") for number, client in enumerate(clients)]
        await until(lambda: len(process.waiting) == 3)
        leaving.left.set()  # the model may not answer, and yet it begins the next batch
        await until(lambda: len(model.read) == 4)
        for client in clients[:2]:
            client.left.set()
        await until(lambda: len(process.dropped) == 2)
        await asyncio.sleep(0.05)
        assert not batch[2].done(), "somebody waits for the third"
        clients[2].left.set()
        other = Client().ask(desk, "other")
        await until(lambda: model.read[4:] == ["other"])
        model.may.set()
        assert await other == ["OTHER"]
        assert {each.status for each in await asyncio.gather(first, *batch, return_exceptions=True)} == {499}  # type: ignore[union-attr]

    run(threads, test)


def test_the_loop_turns_while_a_process_is_started(threads: Threads) -> None:
    """The nursery may have to be started anew, which takes seconds."""

    async def test(desk: Desk) -> None:
        threads.pause = 0.3
        reloading, turns = asyncio.ensure_future(desk.pool.reload()), 0
        while not reloading.done():
            await asyncio.sleep(0.005)
            turns += 1
        assert turns > 10
        assert await Client().ask(desk, "a") == ["A"]

    run(threads, test)


def test_a_service_that_closes_does_not_wait_for_a_process_that_is_being_started(threads: Threads) -> None:
    async def test(desk: Desk) -> None:
        threads.pause = 0.3
        reloading = asyncio.ensure_future(desk.pool.reload())
        await asyncio.sleep(0.05)
        reloading.cancel()
        await desk.pool.close()
        await until(lambda: len(threads.processes) == 2)
        await until(lambda: not threads.running())

    run(threads, test)


def test_questions_in_flight_are_dropped_and_answered_one_by_one(threads: Threads) -> None:
    async def test(desk: Desk) -> None:
        (process,), (model,) = threads.processes, threads.models
        flight = process.flights["loud"] = LoudFlight(model)
        model.may.clear()
        client = Client()
        tasks = [Client().ask(desk, "first"), client.ask(desk, "second"), Client().ask(desk, "third")]
        await until(lambda: len(flight.questions) == 3)
        client.left.set()
        await until(lambda: flight.dropped == ["second"])
        model.may.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert [answers[0], answers[2]] == [["FIRST"], ["THIRD"]]
        assert isinstance(answers[1], RefusedError)

        flight.fails = True  # the questions are answered without it, and others in another flight
        assert await asyncio.gather(*(Client().ask(desk, text) for text in "ab")) == [["A"], ["B"]]
        assert process.flights["loud"] is not flight
        assert await Client().ask(desk, "c") == ["C"]

    run(threads, test)


def test_streams_in_flight_go_on_side_by_side_for_longer_than_the_deadline(threads: Threads) -> None:
    async def test(desk: Desk) -> None:
        (process,), (model,) = threads.processes, threads.models
        flight = process.flights["loud"] = LetterFlight(model)
        order, staying = list[str](), Client()

        async def read(client: Client, text: str, times: int) -> list[str]:
            parts = []
            async for part in desk.parts(client.request(), CARD, [text], {"times": times}, "stream"):
                if isinstance(part, Part):
                    parts.append(part.text)
                    order.append(part.text)
            return parts

        leaving = Client()
        tasks = [asyncio.ensure_future(read(*each)) for each in ((staying, "a", 60), (leaving, "b", 2000))]
        tasks.append(asyncio.ensure_future(read(staying, "c", 60)))
        await until(lambda: order.count("b") > 3)
        leaving.left.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert answers[0] == ["a"] * 60
        assert answers[2] == ["c"] * 60
        assert isinstance(answers[1], RefusedError)
        assert flight.dropped == ["b"]
        assert "c" in order[: order.index("a") + 30], "no stream waits for the end of another one"
        assert not process.streams
        assert not process.flying
        assert b'foveate_first_part_seconds_count{run="loud"} 3.0' in desk.measure()

    run(threads, test, timeout=0.3)


def test_a_stream_in_flight_that_fails_does_not_begin_again(threads: Threads) -> None:
    async def test(desk: Desk) -> None:
        (process,), (model,) = threads.processes, threads.models
        flight = process.flights["loud"] = LetterFlight(model)
        flight.fails = True
        parts = desk.parts(Client().request(), CARD, ["a"], {"times": 8}, "stream")
        assert [(await anext(parts)).text for _ in range(4)] == ["a"] * 4  # type: ignore[union-attr]
        with pytest.raises(RefusedError) as refusal:
            await anext(parts)
        assert refusal.value.status == 500
        assert process.flights["loud"] is not flight
        assert not process.streams
        assert await Client().ask(desk, "b") == ["B"]

    run(threads, test)


def test_a_stream_in_flight_that_fails_by_itself_ends_alone(threads: Threads) -> None:
    async def test(desk: Desk) -> None:
        (process,), (model,) = threads.processes, threads.models
        flight = process.flights["loud"] = LetterFlight(model)
        good = desk.parts(Client().request(), CARD, ["a"], {"times": 60}, "stream")
        assert (await anext(good)).text == "a"  # type: ignore[union-attr]
        bad = desk.parts(Client().request(), CARD, ["damaged"], {"times": 8}, "stream")
        with pytest.raises(RefusedError, match=r"This text fails\.") as refusal:
            [part async for part in bad]
        assert refusal.value.status == 422
        assert [part.text async for part in good if isinstance(part, Part)] == ["a"] * 59
        assert process.flights["loud"] is flight

    run(threads, test)


def test_a_stream_that_is_cancelled_ends_in_the_model(threads: Threads) -> None:
    async def test(desk: Desk) -> None:
        arrived: list[Any] = []

        async def read() -> None:
            async for part in desk.parts(Client().request(), CARD, ["a"], {"times": 2000}, "stream"):
                arrived.append(part)

        reading = asyncio.ensure_future(read())
        await until(lambda: len(arrived) > 2)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await until(threads.models[0].stopped.is_set)
        assert await Client().ask(desk, "b") == ["B"]

    run(threads, test)


def test_a_stream_may_take_longer_than_the_deadline_and_a_slow_client_harms_nobody(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_pool, "HUNG", 0.1)

    async def test(desk: Desk) -> None:
        parts = desk.parts(Client().request(), CARD, ["a"], {"times": 60}, "stream")
        await anext(parts)
        await asyncio.sleep(1.5)  # the model is done long ago
        assert len([part async for part in parts]) == 60
        assert desk.pool.restarts == 0

    run(threads, test, timeout=0.3)


def test_a_process_that_says_nothing_is_ended_and_started_again(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_pool, "HUNG", 0.1)

    async def test(desk: Desk) -> None:
        threads.models[0].may.clear()
        with pytest.raises(RefusedError) as refusal:
            await Client().ask(desk, "a")
        assert refusal.value.status == 504
        threads.failing = 1  # the first try fails for want of memory
        await until(lambda: len(threads.models) == 2 and desk.is_ready)
        assert await Client().ask(desk, "a") == ["A"]
        assert desk.pool.restarts == 1

    monkeypatch.setattr(model_pool, "PAUSES", (0.0,))
    run(threads, test, timeout=0.2)


@pytest.mark.parametrize("value", [2**64, -(2**70)])
def test_settings_that_no_message_can_have_are_refused(threads: Threads, value: int) -> None:
    async def test(desk: Desk) -> None:
        with pytest.raises(RefusedError) as refusal:
            await desk.ask(Client().request(), CARD, ["a"], {"seed": value})
        assert refusal.value.status == 422
        assert not desk.pool.hosts[0].pending  # type: ignore[union-attr]

    run(threads, test)


def test_reloads_leave_one_process_in_each_place(threads: Threads) -> None:
    async def test(desk: Desk) -> None:
        threads.models[0].may.clear()
        tasks = [Client().ask(desk, "a") for _ in range(4)]
        await until(lambda: bool(threads.models[0].read))
        reloads = [asyncio.ensure_future(desk.pool.reload()) for _ in range(3)]
        threads.processes[1].connection.shutdown(socket.SHUT_RDWR)  # one dies meanwhile
        await asyncio.gather(*reloads)
        threads.models[0].may.set()
        for each in await asyncio.gather(*tasks, return_exceptions=True):
            assert each == ["A"] or isinstance(each, RefusedError)
        await until(lambda: threads.running() == 2)
        await asyncio.sleep(0.1)
        assert threads.running() == 2
        assert await Client().ask(desk, "b") == ["B"]

    run(threads, test, processes=2)


def test_reloads_follow_each_other_so_that_memory_suffices(threads: Threads) -> None:
    async def test(desk: Desk) -> None:
        loading = threads.loading[1] = threading.Event()
        reloads = [asyncio.ensure_future(desk.pool.reload()) for _ in range(2)]
        await asyncio.sleep(0.05)
        assert len(threads.processes) == 2
        loading.set()
        await asyncio.gather(*reloads)
        await until(lambda: threads.running() == 1)

    run(threads, test)


def test_a_reload_that_fails_changes_nothing(threads: Threads) -> None:
    async def test(desk: Desk) -> None:
        before = list(desk.pool.hosts)
        threads.last = 3  # the second of the new processes is not started
        with pytest.raises(SetupError, match="no memory"):
            await desk.pool.reload()
        threads.last, threads.cards[4] = None, msgspec.structs.replace(CARD, digest="other")
        with pytest.raises(SetupError, match="was written while it was loaded"):
            await desk.pool.reload()
        assert desk.pool.hosts == before
        await until(lambda: threads.running() == 2)
        assert await asyncio.gather(*(Client().ask(desk, text) for text in "abcd")) == [["A"], ["B"], ["C"], ["D"]]
        await desk.pool.reload()
        assert not {*desk.pool.hosts} & {*before}
        await until(lambda: threads.running() == 2)
        await asyncio.sleep(0.1)

    run(threads, test, processes=2)


def test_a_process_whose_clients_all_leave_is_not_hung(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_pool, "HUNG", 1.0)
    monkeypatch.setattr(model_process, "BEAT", 0.05)

    async def test(desk: Desk) -> None:
        (host,), (model,) = desk.pool.hosts, threads.models
        assert host is not None
        model.may.clear()
        end = time.monotonic() + 2.5  # longer than the deadline and what a process may be silent after it
        while time.monotonic() < end:
            client, before = Client(), len(model.read)
            task = client.ask(desk, "text")
            await until(lambda before=before: len(model.read) > before)  # type: ignore[misc]
            assert not host.is_hung()
            client.left.set()
            with pytest.raises(RefusedError):
                await task
            await asyncio.sleep(0.02)
        assert desk.pool.hosts == [host]

    run(threads, test, timeout=1.0)


def test_a_question_that_is_dropped_while_another_is_answered_without_the_flight(threads: Threads) -> None:
    class Failing(LoudFlight):
        def tick(self) -> list[tuple[int, list[Answered]]]:
            if len(self.questions) < 2:
                return []
            raise ValueError

    async def test(desk: Desk) -> None:
        (process,), (model,) = threads.processes, threads.models
        process.flights["loud"] = Failing(model)
        model.may.clear()
        client = Client()
        first = Client().ask(desk, "first")
        await until(lambda: bool(process.flying))
        second = client.ask(desk, "second")
        await until(lambda: model.read == ["first"])
        client.left.set()
        with pytest.raises(RefusedError):
            await second
        await asyncio.sleep(0.1)
        model.may.set()
        assert await first == ["FIRST"]
        assert await Client().ask(desk, "third") == ["THIRD"]
        assert threads.running() == 1

    run(threads, test)


def test_a_process_that_dies_during_a_reload_does_not_take_the_place_of_the_new_one(threads: Threads) -> None:
    async def test(desk: Desk) -> None:
        pool, (old,) = desk.pool, desk.pool.hosts
        assert old is not None
        loading = threads.loading[1] = threading.Event()
        threads.processes[0].connection.shutdown(socket.SHUT_RDWR)
        await until(lambda: len(threads.processes) == 2)
        await pool.reload()
        exchanged = list(pool.hosts)
        loading.set()
        await until(lambda: threads.running() == 1)
        assert pool.hosts == exchanged != [old]
        assert await Client().ask(desk, "b") == ["B"]

    run(threads, test)


def test_who_waits_when_the_service_closes_is_told_at_once(threads: Threads) -> None:
    async def test(desk: Desk) -> None:
        threads.models[0].may.clear()
        tasks = [Client().ask(desk, "a") for _ in range(3)]
        await until(lambda: bool(threads.models[0].read))
        await desk.pool.close()
        for each in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(each, RefusedError)
            assert (each.status, each.reason) == (503, "The service is closing.")

    run(threads, test)


def test_pages_are_kept_up_to_a_number_and_a_length(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(desk: Desk) -> None:
        paths = [desk.keep("a" * 10).removeprefix("/look/") for _ in range(desks.PAGES + 1)]
        with pytest.raises(RefusedError):
            desk.page(paths[0])
        assert desk.page(paths[1])
        long = desk.keep("b" * 1000).removeprefix("/look/")
        assert desk.page(long)
        with pytest.raises(RefusedError):
            desk.page(paths[-1])

    monkeypatch.setattr(desks, "PAGE_CHARACTERS", 500)
    run(threads, test)


@pytest.mark.parametrize("kind", ["answer", "stream", "flight"])
def test_what_the_model_does_not_know_is_said_and_counted(threads: Threads, kind: str) -> None:
    async def test(desk: Desk) -> None:
        (process,), (model,) = threads.processes, threads.models
        if kind == "flight":
            process.flights["loud"] = LoudFlight(model)
        for text, unknown in (("a b", []), ("a😀b?😀", ["😀", "?"])):
            request, parts = Client().request(), []
            async for part in desk.parts(request, CARD, [text], {}, "stream" if kind == "stream" else "answer"):
                parts.append(part)
                assert list(request.scope.get("state", {}).get("unknown", {})) == unknown, "known with the first part"
            assert isinstance(parts[-1], Reply)
        with pytest.raises(RefusedError) as refusal:
            await Client().ask(desk, "\0")
        assert refusal.value.status == 500, "a failure of this harms nobody else"
        assert await Client().ask(desk, "c") == ["C"]
        assert b'foveate_unknown_total{run="loud"} 1.0' in desk.measure()

    run(threads, test)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_pool, "PAUSES", (0.0, 0.01, 0.05, 0.05))


@pytest.mark.usefixtures("quick")
def test_a_spare_process_takes_the_place_of_one_that_dies_at_once(threads: Threads) -> None:
    async def test(desk: Desk) -> None:
        pool = desk.pool
        for death in range(3):
            await until(lambda: pool.spare is not None)
            spare, before = pool.spare, len(threads.processes)
            (host,) = pool.hosts
            assert host is not None
            (serving,) = (each for each in threads.processes if not each.ended and each is not threads.processes[-1])
            serving.connection.shutdown(socket.SHUT_RDWR)
            await until(lambda old=host: pool.hosts != [old])  # type: ignore[misc]
            assert pool.hosts == [spare]
            assert len(threads.processes) == before, "it was there before"
            assert await Client().ask(desk, "a") == ["A"]
            assert pool.restarts == death + 1
        await until(lambda: pool.spare is not None and threads.running() == 2)

    run(threads, test, spare=True)


@pytest.mark.usefixtures("quick")
def test_a_spare_process_that_dies_or_has_other_weights_is_replaced(threads: Threads) -> None:
    async def test(desk: Desk) -> None:
        pool = desk.pool
        await until(lambda: pool.spare is not None)
        first = pool.spare
        threads.processes[1].connection.shutdown(socket.SHUT_RDWR)
        await until(lambda: pool.spare not in (None, first))
        assert pool.restarts == 0
        second, hosts = pool.spare, list(pool.hosts)
        await pool.reload()
        await until(lambda: pool.spare not in (None, first, second) and threads.running() == 2)
        assert pool.hosts != hosts

        assert pool.spare is not None
        pool.spare.cards = [msgspec.structs.replace(CARD, digest="other")]  # as if the files changed while it began
        stale, (host,) = pool.spare, pool.hosts
        assert host is not None
        host.cards = [msgspec.structs.replace(CARD, digest="before")]
        serving, notes = threads.processes[3], list[str]()
        pool.note = notes.append
        serving.connection.shutdown(socket.SHUT_RDWR)
        await until(lambda: pool.hosts[0] not in (None, host, stale))
        assert await Client().ask(desk, "a") == ["A"]
        assert notes[-1] == f"Other weights than before answer now, because files have changed: {CARD.name}."

    run(threads, test, spare=True)
