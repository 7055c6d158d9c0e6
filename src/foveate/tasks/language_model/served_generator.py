"""A language model behind an address."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from foveate.decode import DecodeConfig, GreedyConfig, SampleConfig
from foveate.errors import UsageError
from foveate.tasks.language_model.use import Generator
from foveate.tasks.served import Answered, Served, Tell, numbered, real, require_settings, whole

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
        return numbered(texts, lambda text: self.stream(text, settings, lambda part: None))

    def stream(self, text: str, settings: Mapping[str, Any], tell: Tell) -> Answered:
        require_settings(settings, self.settings)
        config, ends = _sampling(settings), _ends(settings)
        length = whole(settings, "max_tokens", self.usual_length, self.most_length)
        if self.reader.model.max_length is not None:
            length = max(min(length, self.reader.model.max_length - len(self.reader.ids(text)) + 1), 1)
        writing = _Writing(self.reader, text, ends, tell)
        try:
            (done,) = writing.generator.generate(text, config=config, length=length)
        except _EndError:
            return Answered({"text": writing.text, "finished": True}, self.tokens(text), len(writing.tokens))
        whole_text, ended = _cut(done.text, ends)
        writing.finish(whole_text)
        finished = ended or done.hypothesis.finished
        return Answered({"text": whole_text, "finished": finished}, self.tokens(text), len(done.hypothesis.tokens))

    def summary(self, text: str) -> dict[str, Any]:
        """An explanation is of the text itself, which nothing is added to."""
        return {"text": text}


class _EndError(Exception):
    """A text that ends the continuation was written."""


class _Writing:
    """Follows the tokens that a model reads while it decodes one continuation, and tells their text."""

    def __init__(self, generator: Generator, prompt: str, ends: Sequence[str], tell: Tell) -> None:
        self.generator = copy(generator)
        self.generator.model = _Overheard(generator.model, self._next)
        self.read, self.ends, self.tell = generator.ids(prompt), ends, tell
        self.tokens: list[int] = []
        self.text = ""
        self._begun = False

    def finish(self, text: str) -> None:
        """Tell the rest of the text."""
        if len(text) > len(self.text):
            self.tell(text[len(self.text) :])
        self.text = text

    def _next(self, token: int) -> None:
        if not self._begun:  # the last token of the prompt
            self._begun = True
            return
        self.tokens.append(token)
        text, ended = _cut(self.generator.text_after(self.read, self.tokens), self.ends)
        if ended:
            self.finish(text)
            raise _EndError
        # A text may begin with a part of a letter, or with a part of an end.
        overlap = max((_overlap(text, end) for end in self.ends), default=0)
        text = text[: len(text) - overlap].rstrip("\ufffd")
        if text.startswith(self.text):
            self.finish(text)


class _Overheard:
    """A language model whose tokens of one row are told before each step."""

    def __init__(self, model: Any, tell: Any) -> None:
        self._model, self._tell = model, tell

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def step(self, state: Any, token: Any) -> Any:
        self._tell(int(token[0]))
        return self._model.step(state, token)


def _sampling(settings: Mapping[str, Any]) -> DecodeConfig:
    """Temperature 0 is greedy decoding."""
    temperature = real(settings, "temperature", 1.0, 0.0, 2.0)
    if not temperature:
        return GreedyConfig()
    top_k = settings.get("top_k")
    seed = settings.get("seed") or 0
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


def _cut(text: str, ends: Sequence[str]) -> tuple[str, bool]:
    """A text up to the first of the ends in it, and whether there is one.

    >>> _cut("one. two.", (".", "!"))
    ('one', True)
    """
    places = [place for place in (text.find(end) for end in ends) if place >= 0]
    return (text[: min(places)], True) if places else (text, False)


def _overlap(text: str, end: str) -> int:
    """The number of letters at the text's end that begin `end`.

    >>> _overlap("so --", "---")
    2
    """
    return next((size for size in range(min(len(end) - 1, len(text)), 0, -1) if text.endswith(end[:size])), 0)
