"""A language model behind an address."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from foveate.decode import GreedyConfig, SampleConfig
from foveate.errors import FoveateError, UsageError
from foveate.interruption import ask
from foveate.tasks.language_model.continuation_flight import Addition, ContinuationFlight
from foveate.tasks.language_model.use import Generator
from foveate.tasks.served import Answered, Served, Tell, real, require_settings, whole

MOST_STOPS = 16


class ServedGenerator(Served):
    """Continues prompts, and tells the text while it is written."""

    verb = "generate"
    settings = ("max_tokens", "temperature", "top_p", "top_k", "seed", "stop")
    usual_length = 128
    most_length = 4096
    sample = ("A", {"max_tokens": 16})
    reader: Generator

    def answer(self, texts: Sequence[str], settings: Mapping[str, Any]) -> list[Answered]:
        """`{"text": …, "finished": …}`, without the prompt; `finished` is false at the limit of tokens."""
        return self._answered(texts, settings, None)

    def stream(self, text: str, settings: Mapping[str, Any], tell: Tell) -> Answered:
        (answer,) = self._answered([text], settings, tell)
        return answer

    def flight(self) -> "GenerationFlight":
        return GenerationFlight(self)

    def summary(self, text: str) -> dict[str, Any]:
        """An explanation is of the text itself, which nothing is added to."""
        return {"text": text}

    def _answered(self, texts: Sequence[str], settings: Mapping[str, Any], tell: Tell | None) -> list[Answered]:
        """The answers of a flight of its own."""
        flight = self.flight()
        flight.admit(0, texts, settings, tell)
        while True:
            ask()
            for _, answers in flight.tick():
                if isinstance(answers, FoveateError):
                    raise answers
                return answers


class GenerationFlight:
    """Continuations in flight, each with settings of its own."""

    def __init__(self, served: ServedGenerator) -> None:
        self.served = served
        self._flight = ContinuationFlight(served.reader)
        self._questions: dict[int, _Question] = {}

    @property
    def busy(self) -> bool:
        return bool(self._questions)

    def serves(self, kind: str, settings: Mapping[str, Any]) -> bool:
        return kind in ("answer", "stream")

    def admit(
        self, number: int, texts: Sequence[str], settings: Mapping[str, Any] | None = None, tell: Tell | None = None
    ) -> None:
        settings = {} if settings is None else settings
        require_settings(settings, self.served.settings)
        config, ends = _search(settings), _ends(settings)
        length = whole(settings, "max_tokens", self.served.usual_length, self.served.most_length)
        names = [(number, place) for place in range(len(texts))]
        # A seed makes the sample of a text the same in every request; without one, equal texts have different samples.
        examples = range(len(texts)) if settings.get("seed") is None else None
        read = self._flight.admit(names, texts, config=config, length=length, ends=ends, examples=examples)
        self._questions[number] = _Question(read, tell)

    def drop(self, number: int) -> None:
        question = self._questions.pop(number, None)
        if question is not None:
            self._flight.drop([(number, place) for place in range(len(question.read))])

    def tick(self) -> list[tuple[int, list[Answered] | FoveateError]]:
        failed = list[tuple[int, list[Answered] | FoveateError]]()
        for addition in self._flight.tick():
            number, place = cast(tuple[int, int], addition.name)
            if number not in self._questions:  # another text of it has failed in this tick
                continue
            if addition.problem is not None:
                self.drop(number)
                failed.append((number, addition.problem))
                continue
            question = self._questions[number]
            if question.tell is not None and addition.text:
                question.tell(addition.text)
            if addition.complete is not None:
                question.answers[place] = _answer(addition, question.read[place])
        complete = [number for number, question in self._questions.items() if question.is_complete]
        return failed + [(number, self._questions.pop(number).in_order()) for number in complete]


@dataclass
class _Question:
    read: list[int]
    """The tokens of each prompt."""
    tell: Tell | None
    answers: dict[int, Answered] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        return len(self.answers) == len(self.read)

    def in_order(self) -> list[Answered]:
        return [self.answers[place] for place in range(len(self.read))]


def _answer(addition: Addition, read: int) -> Answered:
    assert addition.complete is not None
    finished = addition.ended or addition.complete.hypothesis.finished
    value = {"text": addition.complete.text, "finished": finished}
    return Answered(value, read, len(addition.complete.hypothesis.tokens))


def _search(settings: Mapping[str, Any]) -> GreedyConfig | SampleConfig:
    """Temperature 0 is greedy decoding. Without a seed, every sample has another one."""
    temperature = real(settings, "temperature", 1.0, 0.0, 2.0)
    if not temperature:
        return GreedyConfig()
    top_k = settings.get("top_k")
    seed = secrets.randbits(63) if settings.get("seed") is None else settings["seed"]
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise UsageError(f"seed is a whole number, got {seed!r}.")
    return SampleConfig(
        temperature=temperature,
        top_k=None if top_k is None else whole(settings, "top_k", 1, 1_000_000),
        top_p=real(settings, "top_p", None, 1e-6, 1.0),
        seed=seed % 2**63,
    )


def _ends(settings: Mapping[str, Any]) -> tuple[str, ...]:
    stop = settings.get("stop")
    ends = [stop] if isinstance(stop, str) else stop or []
    if not isinstance(ends, list) or not all(isinstance(end, str) and end for end in ends) or len(ends) > MOST_STOPS:
        raise UsageError(f"stop is a text, or up to {MOST_STOPS} of them, which end the continuation; got {stop!r}.")
    return tuple(ends)
