"""The process that holds the models. Questions to a model that answers in flight join those that are being answered;
those to other models are answered in the order of their coming, several at once. Each of the two gets half of the time.
"""

import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any, cast

from foveate.config import permit
from foveate.errors import FoveateError
from foveate.interruption import ask, interruptible
from foveate.serve.service.admission import COMPANY, cost
from foveate.serve.service.failure import described
from foveate.serve.service.language import pair_of
from foveate.serve.service.message import (
    Beat,
    Card,
    Drop,
    Failed,
    FromModel,
    Part,
    Question,
    Ready,
    Refusal,
    Reply,
    encodable,
    packed,
    receive,
)
from foveate.serve.service.model_setup import Setup
from foveate.serve.service.time_share import TimeShare
from foveate.tasks.served import Answered, InFlight, Served, StoppedError
from foveate.voice import tell

MOST_TEXTS = 64
"""Texts that are answered together."""
TRIES = 3
"""The continuations that show how fast one is, so that one slow moment does not decide."""
BEAT = 1.0
"""Seconds between two signs of life while nothing is to be done."""


def main(connection: socket.socket, setup: Setup) -> None:
    """Load the runs, say so, and answer until the front ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the front ends this one
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    process = ModelProcess(connection)
    try:
        with permit(*setup.modules):
            process.load(setup)
    except FoveateError as error:
        process.send(Failed(encodable(str(error)), error.exit_code))
        return
    except Exception as error:
        process.send(Failed(encodable(f"The runs could not be loaded: {error} ({described(error)})."), 1))
        return
    process.work()


class ModelProcess:
    """Reads questions in one thread and answers them in another, which alone calls the models."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.models: dict[str, Served] = {}
        self.digests: dict[str, str] = {}
        self.flights: dict[str, InFlight] = {}
        self._beaten = time.monotonic()
        self.flying: dict[int, tuple[Question, float]] = {}
        """The questions in flight, with their deadlines."""
        self.streams: set[int] = set()
        """The questions in flight whose answers have begun to stream."""
        self.waiting: deque[tuple[Question, float]] = deque()
        self.dropped: set[int] = set()
        self.seconds = 0.0
        """Work in flight since the last answer."""
        self.answering: frozenset[int] = frozenset()
        """The questions that are being answered, except those in flight."""
        self.share = TimeShare()
        self._context = copy_context()  # without a recording, or whatever an answer sets
        self.changed = threading.Condition()
        self.ended = False
        self._sending = threading.Lock()

    def load(self, setup: Setup) -> None:
        """Load the runs and let each answer once. Raises FoveateError for a run that cannot be served."""
        import torch

        from foveate import machine

        if setup.threads:
            torch.set_num_threads(setup.threads)
        if setup.tune:
            machine.tune()
        cards = [self._loaded(name, run, setup.precision) for name, run in setup.runs]
        self.send(Ready(cards))

    def work(self) -> None:
        """Answer until the front ends."""
        from foveate.machine import Reserve

        threading.Thread(target=self._read, daemon=True).start()
        reserve = Reserve()
        while True:
            with self.changed:
                while not self.waiting and not self.flying and not self.ended:
                    if not self.changed.wait(BEAT):
                        self.send(Beat())
                        reserve.release(idle=True)
                if self.ended:
                    return
                questions = self._next()
            self._beat()
            if questions and self._flies(questions[0][0]):
                for question, until in questions:
                    self._board(question, until)
            else:
                self._answer([question for question, _ in questions])
            self._tick_all()
            reserve.release(idle=False)

    def _pause(self, questions: Sequence[Question]) -> None:
        """Let what flies go on for as long as these questions have been worked on since the last pause, so that a long
        recording does not hold up short texts. Raises StoppedError if nobody waits for an answer to these.
        """
        self._beat()
        self._require_waiting(questions)
        if not self.flights or self.share.pausing:
            return
        # An explanation watches the modules of its model, which nothing else may use meanwhile.
        resting = questions[0].run if questions[0].kind == "explain" else None
        with self.share.pause():
            self._context.run(self._spend, resting)

    def _spend(self, resting: str | None = None) -> None:
        """Board what flies and answer it, until the time of this pause is over; a `resting` run has to wait."""
        while self.waiting or self.flying:
            with self.share.spend():
                with self.changed:
                    self._discard()
                    joining = self._joining(resting)
                for question, until in joining:
                    self._board(question, until)
                if not any(flight.busy for name, flight in self.flights.items() if name != resting):
                    break
                if self.share.has_credit:
                    self._tick_all(resting)
            if not self.share.has_credit:
                return
        self.share.forfeit()

    def _beat(self) -> None:
        """Say about every second that the process works, also where nobody waits for an answer any more."""
        if time.monotonic() > self._beaten + BEAT:
            self._beaten = time.monotonic()
            self.send(Beat())

    def send(self, message: FromModel) -> None:
        """Send a message; nothing is sent to a front that has ended."""
        try:
            with self._sending:
                self.connection.sendall(packed(message))
        except OSError:
            self.ended = True

    def _loaded(self, name: str, run: str, precision: str) -> Card:
        from foveate.storage.manifest import files_digest
        from foveate.storage.run import read_run
        from foveate.storage.shipped import run_folder
        from foveate.tasks import task_of
        from foveate.tasks.served_file import ServedFiles

        folder = run_folder(run)
        weights = _weight_files(folder)
        while True:
            model = task_of(read_run(folder)).side.served(run, precision=precision, note=tell)
            before, weights = weights, _weight_files(folder)
            if weights == before:
                break  # otherwise the run, which is being trained, has another best checkpoint by now
        lengths = (model.usual_length, model.most_length)
        speed, pace, price = 0.0, 0.0, (0.0, 0.0)
        if isinstance(model, ServedFiles):
            price = model.price()
        else:
            text, settings = model.sample
            model.answer([text], settings)  # the first one prepares kernels
            texts = [text] * COMPANY
            started = time.perf_counter()
            model.answer(texts, settings)
            speed = cost("answer", texts, settings, lengths) / (time.perf_counter() - started)
            pace = max(_pace(model, text, settings) for _ in range(TRIES)) if model.usual_length else 0.0
        self.models[name], self.digests[name] = model, files_digest(weights)
        flight = model.flight()
        if flight is not None:
            self.flights[name] = flight
        several = getattr(model, "directions", ())
        flies = None
        if flight is not None:
            flies = tuple(setting for setting in model.settings if flight.serves("answer", {setting: None}))
        return Card(
            name=name,
            verb=model.verb,
            folder=encodable(folder.name),
            digest=self.digests[name],
            parameters=sum(weight.numel() for weight in model.reader.model.parameters()),
            languages=None if several or model.verb != "translate" else pair_of(name),
            created=int(weights[0].stat().st_mtime),
            settings=model.settings,
            speed=speed,
            lengths=lengths,
            pace=pace,
            directions=tuple((source, target) for source, _, target in (each.partition("-") for each in several)),
            reads=model.reads,
            price=price,
            flies=flies,
        )

    def _read(self) -> None:
        while True:
            message = receive(self.connection)
            with self.changed:
                if message is None:
                    self.ended = True
                elif isinstance(message, Drop):
                    self.dropped.add(message.number)
                else:
                    self.waiting.append((message, time.monotonic() + message.left))
                self.changed.notify()
                if message is None:
                    return

    def _next(self) -> list[tuple[Question, float]]:
        """The oldest question, and all others that can be answered together with it, with their deadlines. Those that
        are answered in flight join it together.
        """
        self._discard()
        if not self.waiting:
            return []
        first, _ = self.waiting[0]
        if self._flies(first):
            return self._joining()
        together, others, texts = [], deque[tuple[Question, float]](), 0
        for question, until in self.waiting:
            alike = question.kind == first.kind == "answer" and question.run == first.run
            alike = alike and question.settings == first.settings and texts + len(question.things) <= MOST_TEXTS
            if question is first or alike:
                together.append((question, until))
                texts += len(question.things)
            else:
                others.append((question, until))
        self.waiting = others
        return together

    def _joining(self, resting: str | None = None) -> list[tuple[Question, float]]:
        """All questions that wait and are answered in flight, with their deadlines; none to a `resting` run."""
        joining = [each for each in self.waiting if each[0].run != resting and self._flies(each[0])]
        self.waiting = deque(each for each in self.waiting if each[0].run == resting or not self._flies(each[0]))
        return joining

    def _flies(self, question: Question) -> bool:
        """Whether a question is answered in flight."""
        flight = self.flights.get(question.run)
        return flight is not None and flight.serves(question.kind, question.settings)

    def _board(self, question: Question, until: float) -> None:
        """Let a question join those in flight."""
        tell = partial(self._tell, question.number) if question.kind == "stream" else None
        try:
            self.flights[question.run].admit(question.number, question.texts, question.settings, tell)
            self.flying[question.number] = question, until
            if tell is not None:
                self._say_unknown(question)
        except Exception as error:
            self.send(Refusal(question.number, *_reason(error)))

    def _tick_all(self, resting: str | None = None) -> None:
        for name, flight in self.flights.items():
            if name != resting and flight.busy:
                self._tick(name, flight)

    def _tick(self, name: str, flight: InFlight) -> None:
        """Go one token further with all questions to a run. If that fails, each is answered by itself."""
        started = time.perf_counter()
        try:
            complete = [(each, answers, self._not_said(self.flying[each][0])) for each, answers in flight.tick()]
        except Exception as error:
            if not isinstance(error, FoveateError):  # alone, each question may succeed: the log keeps the reason
                print(described(error), file=sys.stderr, flush=True)
            self.flights[name] = cast(InFlight, self.models[name].flight())
            questions = [question for question, _ in self.flying.values() if question.run == name]
            for question in questions:
                del self.flying[question.number]
            for question in questions:
                if question.number in self.streams:
                    self.streams.discard(question.number)
                    self.send(Refusal(question.number, *_reason(error)))
                else:
                    self._answer([question])
            return
        self.seconds += time.perf_counter() - started
        for number, answers, unknown in complete:
            question, _ = self.flying.pop(number)
            self.streams.discard(number)
            if isinstance(answers, FoveateError):
                self.send(Refusal(number, *_reason(answers)))
                continue
            self._reply(question, answers, question.cost, self.seconds, unknown)
            self.seconds = 0.0

    def _discard(self) -> None:
        """Forget the questions whose answer nobody waits for."""
        now, others = time.monotonic(), deque[tuple[Question, float]]()
        for question, until in list(self.flying.values()):
            late = until <= now and question.number not in self.streams  # a stream may take longer than the deadline
            if question.number in self.dropped or late:
                del self.flying[question.number]
                self.streams.discard(question.number)
                self.flights[question.run].drop(question.number)
                if question.number not in self.dropped:
                    self.send(Refusal(question.number, 504, "The deadline has passed."))
                self.dropped.discard(question.number)
        for question, until in self.waiting:
            if question.number in self.dropped:
                self.dropped.discard(question.number)
            elif until <= now:
                self.send(Refusal(question.number, 504, "The deadline has passed."))
            else:
                others.append((question, until))
        self.waiting = others
        if not others:
            self.dropped &= self.answering

    def _answer(self, questions: Sequence[Question]) -> None:
        """Answer together; one question that cannot be answered does not harm the others."""
        started, paused, before = time.perf_counter(), self.share.seconds_in_pauses, self.answering
        self.share.begin()
        self.answering = before | {question.number for question in questions}
        try:
            with interruptible(lambda: self._pause(questions)):
                answers = self._answers(questions)
            unknown = [self._not_said(question) for question in questions]
        except StoppedError:
            self.dropped.difference_update(question.number for question in questions)
            return
        except Exception as error:
            if len(questions) > 1:
                for question in questions:
                    self._answer([question])
            else:
                self.send(Refusal(questions[0].number, *_reason(error)))
            return
        finally:
            self.answering = before
        seconds = time.perf_counter() - started - (self.share.seconds_in_pauses - paused)
        total = sum(question.cost for question in questions)
        for question, words in zip(questions, unknown, strict=True):
            own, answers = answers[: len(question.things)], answers[len(question.things) :]
            self._reply(question, own, total, seconds, words)

    def _reply(
        self, question: Question, answers: Sequence[Answered], cost: int, seconds: float, unknown: tuple[str, ...]
    ) -> None:
        read, written = sum(answer.read for answer in answers), sum(answer.written for answer in answers)
        values = [answer.value for answer in answers]
        self.send(Reply(question.number, values, read, written, cost, seconds, unknown))

    def _unknown(self, question: Question) -> tuple[str, ...]:
        """Words or characters that the model does not know: it answers as if they were something else, or nothing."""
        model = self.models[question.run]
        words = (word for text in question.texts for word in model.strange(text, question.settings))
        return tuple(dict.fromkeys(words))

    def _not_said(self, question: Question) -> tuple[str, ...]:
        """`_unknown`, unless a stream has said it in its first part."""
        return () if question.kind == "stream" else self._unknown(question)

    def _say_unknown(self, question: Question) -> None:
        """Begin a stream with the words or characters that the model does not know."""
        if unknown := self._unknown(question):
            self.send(Part(question.number, "", unknown))

    def _answers(self, questions: Sequence[Question]) -> list[Answered]:
        if not questions:
            return []
        first = questions[0]
        model = self.models[first.run]
        if first.kind == "explain":
            digest = {"digest": self.digests[first.run]}
            explained = []
            for text in first.texts:
                ask()
                explained.append(Answered(digest | model.explain(text, first.settings)))
            return explained
        if first.kind == "stream":
            self._say_unknown(first)
            return [model.stream(first.texts[0], first.settings, lambda part: self._tell(first.number, part))]
        things = [thing for question in questions for thing in question.things]
        return model.answer(things, first.settings)

    def _require_waiting(self, questions: Sequence[Question]) -> None:
        """Raise StoppedError if nobody waits for an answer to any of these questions."""
        if self.ended or all(question.number in self.dropped for question in questions):
            raise StoppedError

    def _tell(self, number: int, part: str) -> None:
        """Send a part of a stream. Raises StoppedError where nobody waits for more; what is in flight is dropped before
        the next tick instead.
        """
        if number in self.flying:
            self.streams.add(number)
        elif number in self.dropped or self.ended:
            raise StoppedError
        if part:
            self.send(Part(number, part))


def _weight_files(folder: Path) -> list[Path]:
    """The files with the weights of a run, or of a folder of Hugging Face."""
    from foveate.models.hugging_face_folder import folder_files
    from foveate.storage.checkpoint import weight_files
    from foveate.storage.run import model_type_of

    return weight_files(folder) if model_type_of(folder) is None else folder_files(folder)


def _pace(model: Served, text: str, settings: Mapping[str, Any]) -> float:
    """The tokens of one continuation in a second."""
    started = time.perf_counter()
    (alone,) = model.answer([text], settings)
    return alone.written / (time.perf_counter() - started)


def _reason(error: Exception) -> tuple[int, str]:
    """The status and the words for an error: users can mend those of ours."""
    if isinstance(error, FoveateError):
        return 422, str(error)
    print(described(error), file=sys.stderr, flush=True)
    if isinstance(error, MemoryError) or "allocate memory" in str(error):
        return (
            503,
            "There is not enough memory for this request. Send shorter texts or smaller files, or fewer at once.",
        )
    return 500, "The model failed. The reason is in the service's log."
