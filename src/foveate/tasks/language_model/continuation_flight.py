"""Continuations in flight: prompts join the texts that a language model continues, and leave when they are complete."""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from foveate.data.text import require_texts
from foveate.data.tokeniser.running_text import RunningText
from foveate.decode import DecodeConfig, PromptFlight
from foveate.decode.stepper import Joiner
from foveate.errors import FoveateError
from foveate.tasks.language_model.ending import Endings
from foveate.tasks.language_model.use import Continuation, Generator
from foveate.tasks.served import numbered


@dataclass(frozen=True)
class Addition:
    """The news of a continuation after a tick."""

    name: Hashable
    text: str
    """All these texts together are the continuation. A character is told whole; part of an end is left out."""
    complete: Continuation | None = None
    problem: FoveateError | None = None
    """Why the continuation ends here and is not complete: what `generate` raises for its prompt."""
    ended: bool = False
    """Whether one of the request's ends has come, which the continuation does not contain."""


@dataclass
class _Writing:
    prompt: str
    endings: Endings
    running: RunningText
    text: str = ""


class ContinuationFlight:
    """`Generator.generate` for prompts that arrive at any time, with the same tokens for each, told while they come.

    `admit` puts prompts under names of the caller's into the queue, `tick` writes one token of all texts in flight,
    `drop` forgets texts. The model must not change while texts are in flight.

    >>> from foveate.data.tokeniser import ByteTokeniser
    >>> from foveate.decode import GreedyConfig
    >>> from foveate.models import GPTConfig
    >>> flight = ContinuationFlight(Generator(GPTConfig.tiny().build(259), ByteTokeniser()))
    >>> flight.admit(["mine", "yours"], ["ROMEO:", "It is"], length=3)
    [6, 5]
    >>> flight.admit(["other"], ["O"], config=GreedyConfig(), length=2, ends=["."])
    [1]
    >>> complete = []
    >>> while flight.busy:
    ...     complete += [addition.name for addition in flight.tick() if addition.complete]
    >>> sorted(complete)
    ['mine', 'other', 'yours']
    """

    def __init__(self, generator: Generator, **places: Any) -> None:
        """`places` are `capacity`, `chunk` and `memory` of a `PromptFlight`. The states of some models cannot be
        joined: their texts are continued one after another.
        """
        self.generator = generator
        if not isinstance(generator.model, Joiner):
            places["capacity"] = 1
        self.flight = PromptFlight(generator.model, **places)
        self._writing: dict[Hashable, _Writing] = {}

    @property
    def busy(self) -> bool:
        """Whether texts wait or are in flight."""
        return bool(self._writing)

    def admit(
        self,
        names: Sequence[Hashable],
        prompts: Sequence[str],
        *,
        config: DecodeConfig | None = None,
        length: int | None = None,
        ends: Sequence[str] = (),
        examples: Sequence[int] | None = None,
    ) -> list[int]:
        """Queue prompts. Returns the number of tokens of each.

        `length` is the most tokens of a continuation, `ends` are texts that end it, and `examples` are the prompts'
        numbers for the noise of sampling (`first` of `generate`), 0 for all if there are none. Raises UsageError for a
        name that is taken and for beam search, DataError for a prompt that leaves no position free; then no prompt is
        admitted.
        """
        require_texts(prompts)
        generator = self.generator
        number = iter(examples if examples is not None else [0] * len(prompts))
        own = numbered(prompts, lambda text: generator.prompt(text, config, length=length, example=next(number)))
        self.flight.admit(names, own)
        for name, text, prompt in zip(names, prompts, own, strict=True):
            self._writing[name] = _Writing(text, Endings(ends), generator.running(prompt.tokens))
        return [len(prompt.tokens) - generator.unwritten for prompt in own]

    def drop(self, names: Collection[Hashable]) -> None:
        """Forget texts, wherever they are; unknown names are ignored."""
        self.flight.drop(names)
        for name in names:
            self._writing.pop(name, None)

    def tick(self) -> list[Addition]:
        """Write one token of every text in flight. Texts with news are returned, and those that are complete or have
        failed.
        """
        news = []
        for written in self.flight.tick():
            if written.problem is not None:
                del self._writing[written.name]
                news.append(Addition(written.name, "", problem=written.problem))
                continue
            writing = self._writing[written.name]
            sure = "" if written.token is None else writing.running.add(written.token)
            text, ended = writing.endings.add(sure)
            if written.complete is not None and not ended:
                rest, ended = writing.endings.add(writing.running.end())
                text += rest if ended else rest + writing.endings.rest()
            writing.text += text
            whole = written.complete
            if ended and whole is None:
                whole = self.flight.end(written.name)
            if whole is not None:
                del self._writing[written.name]
                news.append(
                    Addition(written.name, text, Continuation(writing.prompt, writing.text, whole), ended=ended)
                )
            elif text:
                news.append(Addition(written.name, text))
        return news
