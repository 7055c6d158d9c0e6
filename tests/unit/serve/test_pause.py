"""What a model process answers while it works on a long question."""

import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

import pytest

from foveate.errors import DataError
from foveate.interruption import ask
from foveate.serve.service.message import Drop, Question, Refusal, Reply
from foveate.serve.service.model_process import ModelProcess
from foveate.tasks.served import Answered, Served

SET: ContextVar[str] = ContextVar("set", default="")
STEP, TICK = 4.0, 2.0
"""Seconds of a step of a long answer, and of a tick of those in flight, on a clock that only they move."""


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CLOCK, "now", 0.0)
    monkeypatch.setattr(time, "perf_counter", lambda: CLOCK.now)


class Clock:
    now = 0.0

    def pass_by(self, seconds: float) -> None:
        self.now += seconds


CLOCK = Clock()


class Long:
    """Answers in steps. Before each it asks whether anybody waits."""

    def __init__(self, steps: int, before_step: Callable[[int], None] = lambda step: None) -> None:
        self.steps, self.before_step = steps, before_step

    def answer(self, texts: Sequence[str], settings: Mapping[str, Any]) -> list[Answered]:
        token = SET.set("by the long answer")
        try:
            for step in range(self.steps):
                self.before_step(step)
                ask()
                CLOCK.pass_by(STEP)
        finally:
            SET.reset(token)
        return [Answered(text, 1, 1) for text in texts]

    def strange(self, text: str, settings: Mapping[str, Any]) -> list[str]:
        return []


class Ticking:
    """Answers after some ticks."""

    def __init__(self, ticks: int = 3) -> None:
        self.ticks, self.left, self.contexts = ticks, dict[int, int](), list[str]()

    @property
    def busy(self) -> bool:
        return bool(self.left)

    def serves(self, kind: str, settings: Mapping[str, Any]) -> bool:
        return kind == "answer" and not settings

    def admit(self, number: int, texts: Sequence[str], settings: Any = None, tell: Any = None) -> None:
        self.left[number] = self.ticks

    def drop(self, number: int) -> None:
        self.left.pop(number, None)

    def tick(self) -> list[tuple[int, list[Answered]]]:
        CLOCK.pass_by(TICK)
        self.contexts.append(SET.get())
        self.left = {number: left - 1 for number, left in self.left.items()}
        complete = [number for number, left in self.left.items() if not left]
        self.left = {number: left for number, left in self.left.items() if left}
        return [(number, [Answered("soon", 1, 1)]) for number in complete]


@contextmanager
def process_of(long: Long, flight: Ticking) -> Iterator[tuple[ModelProcess, list[Any]]]:
    """A process with a model that answers alone and one that answers in flight, and what it says."""
    own, other = socket.socketpair()
    with own, other:
        process, messages = ModelProcess(own), list[Any]()
        process.models = {"long": cast(Served, long), "short": cast(Served, Long(1))}
        process.flights = {"short": cast(Any, flight)}
        process.send = messages.append  # type: ignore[method-assign]
        yield process, messages


def question(number: int, run: str, left: float = 30.0) -> Question:
    return Question(number, run, "answer", ["text"], {}, left, 1, [])


def arrives(process: ModelProcess, message: Question | Drop) -> None:
    """What the reading thread does with a message."""
    with process.changed:
        if isinstance(message, Drop):
            process.dropped.add(message.number)
        else:
            process.waiting.append((message, time.monotonic() + message.left))


def test_short_texts_are_answered_while_a_long_question_is() -> None:
    """Half of the time is theirs: they are complete after about as many seconds as they take."""

    def before_step(step: int) -> None:
        if step in (2, 3):
            arrives(process, question(step, "short"))

    flight = Ticking()
    with process_of(Long(20, before_step), flight) as (process, messages):
        process._answer([question(1, "long")])
    assert [reply.number for reply in messages] == [2, 3, 1]
    assert not any(isinstance(reply, Refusal) for reply in messages)
    assert set(flight.contexts) == {""}  # what the long answer has set is not theirs


def test_the_time_of_others_is_not_counted_as_that_of_the_long_answer() -> None:
    flight = Ticking(ticks=20)
    with process_of(Long(30), flight) as (process, messages):
        arrives(process, question(2, "short"))
        process._answer([question(1, "long")])
    assert {reply.number: reply.seconds for reply in messages} == {2: 20 * TICK, 1: 30 * STEP}
    assert CLOCK.now == 20 * TICK + 30 * STEP


def test_the_long_answer_keeps_half_of_the_time() -> None:
    """However much there is in flight."""
    flight = Ticking(ticks=1_000_000)
    with process_of(Long(50), flight) as (process, messages):
        arrives(process, question(2, "short"))
        process._answer([question(1, "long")])
    assert [reply.number for reply in messages] == [1]
    assert len(flight.contexts) * TICK == 49 * STEP  # nothing before the first step


def test_a_long_answer_that_nobody_waits_for_ends_although_texts_fly() -> None:
    steps = []

    def before_step(step: int) -> None:
        steps.append(step)
        if step == 2:
            arrives(process, question(2, "short"))
            arrives(process, Drop(2))
            arrives(process, Drop(1))

    with process_of(Long(1000, before_step), Ticking()) as (process, messages):
        process._answer([question(1, "long")])
    assert (messages, steps[-1]) == ([], 2)
    assert 1 not in process.dropped
    assert not process.answering


def test_a_drop_of_the_long_answer_is_not_forgotten_with_those_of_others() -> None:
    """While the queue is empty, numbers of dropped questions are forgotten, but for those that are being answered."""
    steps = []

    def before_step(step: int) -> None:
        steps.append(step)
        if step == 3:  # in a pause, after this one has asked
            arrives(process, question(2, "short"))

    class Dropping(Ticking):
        def tick(self) -> list[tuple[int, list[Answered]]]:
            if not self.contexts:
                arrives(process, Drop(1))
            return super().tick()

    with process_of(Long(1000, before_step), Dropping(ticks=5)) as (process, messages):
        process._answer([question(1, "long")])
    assert steps[-1] < 20
    assert [reply.number for reply in messages if reply.number == 1] == []


def test_a_text_in_flight_that_fails_is_answered_alone_and_the_long_one_goes_on() -> None:
    class Failing(Ticking):
        def tick(self) -> list[tuple[int, list[Answered]]]:
            raise DataError("this text cannot be answered with others")

    with process_of(Long(5), Failing()) as (process, messages):
        process.models["short"].flight = Ticking  # type: ignore[attr-defined]
        arrives(process, question(2, "short"))
        process._answer([question(1, "long")])
    assert [reply.number for reply in messages] == [2, 1]
    assert all(isinstance(reply, Reply) for reply in messages)


def test_a_run_rests_while_one_of_its_answers_is_explained() -> None:
    """An explanation watches the modules of the model; other runs go on."""
    flight, other = Ticking(), Ticking()

    def before_step(step: int) -> None:
        if step == 1:
            arrives(process, question(2, "long"))
            arrives(process, question(3, "short"))

    long = Long(20, before_step)
    with process_of(long, other) as (process, messages):
        process.flights["long"], process.digests = cast(Any, flight), {"long": ""}
        long.explain = lambda text, settings: {"of": long.answer([text], settings)[0].value}  # type: ignore[attr-defined]
        process._answer([Question(1, "long", "explain", ["text"], {}, 30.0, 1, [])])
        assert [reply.number for reply in messages] == [3, 1]
        assert [waiting.number for waiting, _ in process.waiting] == [2]
        assert (flight.contexts, len(other.contexts)) == ([], 3)


def test_questions_of_a_failed_batch_that_are_dropped_meanwhile_are_not_answered() -> None:
    """Each is then answered alone; one is dropped while the one before it is answered, and something flies."""
    answered = []

    class Failing(Long):
        def answer(self, texts: Sequence[str], settings: Mapping[str, Any]) -> list[Answered]:
            if len(texts) > 1:
                raise DataError("one of them cannot be answered")
            answered.append(texts)
            return super().answer(texts, settings)

    def before_step(step: int) -> None:
        if len(answered) == 1 and step == 1:
            arrives(process, Drop(2))
            arrives(process, question(3, "short"))

    with process_of(Failing(20, before_step), Ticking()) as (process, messages):
        process._answer([question(1, "long"), question(2, "long")])
    assert [reply.number for reply in messages] == [3, 1]
