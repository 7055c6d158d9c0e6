"""A trained model behind an address: what `foveate serve` asks of a task."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol, TypeVar, runtime_checkable

from foveate.errors import DataError, FoveateError, UsageError
from foveate.inspect import Trace
from foveate.inspect.trace.html import standalone
from foveate.inspect.view import alignment
from foveate.interruption import ask
from foveate.suggestion import did_you_mean

Result = TypeVar("Result")
Verb = Literal["translate", "generate", "fill", "tag", "classify", "transcribe", "caption", "speak", "predict"]
Reads = Literal["texts", "recordings", "pictures", "vectors"]
"""The things that a model answers; recordings, pictures and vectors are the contents of files."""
MOST_CELLS = 65_536
"""The largest map of weights in an answer."""
LOOK = ("target", "site", "head", "words", "top", "page")
"""The settings of an explanation."""
Tell = Callable[[str], None]
"""Receives text as it is written. It may raise `StoppedError`."""


class StoppedError(Exception):
    """Nobody waits for the rest of an answer."""


@dataclass(frozen=True)
class Answered:
    """An answer to one text: `value` as JSON has it, and how many tokens were read and written."""

    value: Any
    read: int = 0
    written: int = 0


@runtime_checkable
class InFlight(Protocol):
    """Texts that are answered side by side, whatever their time of arrival: see `foveate.decode.flight`."""

    @property
    def busy(self) -> bool:
        """Whether texts wait or are in flight."""
        ...

    def serves(self, kind: str, settings: Mapping[str, Any]) -> bool:
        """Whether a question of this kind ("answer", "stream", "explain") is answered in flight with these settings."""
        ...

    def admit(
        self, number: int, texts: Sequence[str], settings: Mapping[str, Any] | None = None, tell: Tell | None = None
    ) -> None:
        """Queue the texts of a question. `tell` receives the answer to a single text part by part.

        Raises as `Served.answer` does; then none of the texts is queued.
        """
        ...

    def drop(self, number: int) -> None:
        """Forget the texts of a question, wherever they are. Unknown numbers are ignored."""
        ...

    def tick(self) -> Sequence[tuple[int, list[Answered] | FoveateError]]:
        """Go one token further. Returns the questions whose texts are complete, with their answers, and those that have
        failed, with the reason.
        """
        ...


class Served(ABC):
    """A model that answers texts, or the contents of files (`ServedFiles`). One thread calls it."""

    verb: ClassVar[Verb]
    reads: Reads = "texts"
    settings: tuple[str, ...] = ()
    """The names of the settings that a request may have."""
    usual_length: ClassVar[int] = 0
    """Tokens that are written unless a request's `max_tokens` says how many; 0 where a text says how long its answer
    is.
    """
    most_length: ClassVar[int] = 0
    """The most tokens that a request may ask for."""
    sample: tuple[str, Mapping[str, Any]] = ("This sentence is read when the service starts.", {})
    """A text and settings by which a model shows that it answers, and how fast."""
    look: ClassVar[tuple[str, ...]] = LOOK
    """The names of the settings that an explanation may have."""
    smaller: ClassVar[str] = "Send a shorter text"
    """The remedy for a map with too many weights."""

    def __init__(self, reader: Any) -> None:
        self.reader = reader

    @abstractmethod
    def answer(self, texts: Sequence[Any], settings: Mapping[str, Any]) -> list[Answered]:
        """The answers to several texts, in order. Raises DataError for a text that is too long, with the numbers, and
        UsageError for impossible settings.
        """

    def flight(self) -> InFlight | None:
        """Answers in flight; None for a model that answers in batches."""
        return None

    def stream(self, text: str, settings: Mapping[str, Any], tell: Tell) -> Answered:
        """The answer to one text, which is also told part by part. Without steps of its own a model tells it whole."""
        (answer,) = self.answer([text], settings)
        if isinstance(answer.value, dict) and isinstance(answer.value.get("text"), str):
            tell(answer.value["text"])
        return answer

    def explain(self, text: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a text with the weights of one attention, as `foveate look` draws it: rows look at columns.

        `site` and `head` choose another one, `words` merges pieces, `top` gives the largest weights of each row in
        place of all, `page` adds the viewer's page. Raises UsageError for a map of more than 65,536 weights and for an
        attention that does not exist.
        """
        require_settings(settings, self.look)
        trace, summary = self.traced(text, settings)
        number = trace.opening[0] if settings.get("site") is None else trace.index(settings["site"])
        site = trace.sites[number]
        self._require_cells(site.queries, site.keys)
        drawn = alignment(trace, site=settings.get("site"), head=settings.get("head"))
        drawn = drawn.words() if settings.get("words", True) else drawn.readable()
        head = trace.opening[1] if settings.get("site") is None else None
        answer = {
            **summary,
            "site": site.name,
            "head": head if settings.get("head") is None else settings["head"],
            "rows": list(drawn.target),
            "columns": list(drawn.source),
            **_weights(drawn.weights.tolist(), settings.get("top")),
            "links": drawn.pharaoh(),
        }
        if settings.get("page"):
            ask()
            answer["page"] = standalone(trace)
        return answer

    def traced(self, text: str, settings: Mapping[str, Any]) -> tuple[Trace, dict[str, Any]]:
        """The trace of a text, and the answer to it in short."""
        self.require_no_target(settings)
        self.require_small(settings, dict.fromkeys(self.pattern.tracks, self.tokens(text)))
        return self.reader.trace(text), self.summary(text)

    @cached_property
    def pattern(self) -> Trace:
        """The trace of the sample: every text has its sites."""
        trace: Trace = self.reader.trace(self.sample[0])
        return trace

    def require_no_target(self, settings: Mapping[str, Any]) -> None:
        """Raises UsageError for a target where nothing is translated."""
        if settings.get("target") is not None:
            raise UsageError(f"A target is for models that translate, and this one can {self.verb}. Leave it out.")

    def require_small(self, settings: Mapping[str, Any], lengths: Mapping[str, int]) -> None:
        """Raises UsageError for a map that would have too many weights, before they are computed. `lengths` are the
        known tokens of each track.
        """
        place = self.pattern.opening[0] if settings.get("site") is None else self.pattern.index(settings["site"])
        site = self.pattern.sites[place]
        self._require_cells(lengths.get(site.query, 1), lengths.get(site.key, 1))

    def _require_cells(self, queries: int, keys: int) -> None:
        if queries * keys > MOST_CELLS:
            raise UsageError(
                f"The map has {queries} × {keys} weights, and an answer has at most {MOST_CELLS:,}. {self.smaller}, or "
                "draw it by `foveate look`."
            )

    def summary(self, text: str) -> dict[str, Any]:
        """The answer to a text, as an explanation has it."""
        (answer,) = self.answer([text], {})
        return dict(answer.value)

    def strange(self, text: str, settings: Mapping[str, Any]) -> list[str]:
        """Words or characters of a text that the model does not know, line by line."""
        return [word for line in text.split("\n") for word in self.vocabulary.strange(line)]

    @property
    def vocabulary(self) -> Any:
        """The part of the model whose `strange(text)` names what it does not know."""
        return self.reader.tokeniser

    def tokens(self, text: str) -> int:
        """The number of a text's tokens."""
        return len(self.reader.tokeniser.encode(text))


def require_settings(settings: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raises UsageError for a setting that does not exist."""
    names = tuple(known)
    for name in settings:
        if name not in names:
            known = f"Known: {', '.join(names)}." if names else "This run has no settings."
            raise UsageError(f"There is no setting {name!r}.{did_you_mean(name, names)} {known}")


def whole(settings: Mapping[str, Any], name: str, usual: int, most: int) -> int:
    """A whole number from 1 to `most`. Raises UsageError for another value."""
    value = settings.get(name)
    if value is None:
        return usual
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise UsageError(f"{name} is a whole number from 1 to {most}, got {value!r}.")
    return value


def real(settings: Mapping[str, Any], name: str, usual: float | None, least: float, most: float) -> float | None:
    """A number between two bounds. Raises UsageError for another value."""
    value = settings.get(name)
    if value is None:
        return usual
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise UsageError(f"{name} is a number from {least:g} to {most:g}, got {value!r}.")
    return float(value)


def numbered(texts: Sequence[str], answer: Callable[[str], Result]) -> list[Result]:
    """The answer to each text; an error names the text's number where there are several."""
    results = []
    for number, text in enumerate(texts, start=1):
        ask()
        try:
            results.append(answer(text))
        except (DataError, UsageError) as error:
            raise type(error)(f"Text {number}: {error}" if len(texts) > 1 else str(error)) from error
    return results


def _weights(weights: list[list[float]], top: int | None) -> dict[str, Any]:
    if top is None:
        return {"weights": [[_rounded(weight) for weight in row] for row in weights]}
    best = [sorted(enumerate(row), key=lambda cell: (-_ranked(cell[1]), cell[0]))[:top] for row in weights]
    return {"largest": [[[column, _rounded(weight)] for column, weight in row] for row in best]}


def _rounded(weight: float) -> float | None:
    return round(weight, 6) if math.isfinite(weight) else None


def _ranked(weight: float) -> float:
    return -math.inf if math.isnan(weight) else weight
