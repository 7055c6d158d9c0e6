"""Language models in flight: prompts join the texts that are being continued, and leave when they are complete.

Every tick reads some tokens of prompts that wait, and writes one token of every continuation in flight. Each has its
own search, noise, length and end, and gets the tokens that it gets alone, in any order of arrival and at any capacity.
"""

import math
from collections import deque
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from foveate import machine
from foveate.data.batch import Batch
from foveate.decode.choice import Choices
from foveate.decode.request import END, Request
from foveate.decode.search import MULTIPLY_ADDS
from foveate.decode.stepper import Joiner, State, reordered, require_rows
from foveate.errors import FoveateError, UsageError
from foveate.search import GreedyConfig, Hypothesis, SampleConfig, require_number

MEMORY = 2**30
"""Bytes for the keys and values of all texts in flight; room for those that come takes about as much again."""


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A text to be continued, in tokens."""

    tokens: Sequence[int]
    """At least one: the last one is what the model reads first when it writes."""
    config: GreedyConfig | SampleConfig
    """The search that continues it, with the most tokens."""
    end: int = END
    """The token that ends the continuation."""
    example: int = 0
    """Its number for the noise of sampling: texts with one seed differ by their numbers."""


@dataclass(frozen=True)
class Written:
    """The token that a tick has added to a text; None if the text has ended with it."""

    name: Hashable
    token: int | None
    complete: Hypothesis | None = None
    """The whole continuation, if there is no more."""
    problem: FoveateError | None = None
    """Why there is none, and no token: what `decode` raises for this text alone."""


@dataclass(eq=False)
class _Row:
    """A text in flight, or one that waits."""

    name: Hashable
    prompt: Prompt
    allowed: int
    """The most tokens that it may have."""
    next: int
    """The token that the model reads next."""
    tokens: list[int] = field(default_factory=list)
    log_probability: float = 0.0

    @property
    def read(self) -> int:
        """The number of tokens that are read before the first step."""
        return len(self.prompt.tokens) - 1

    @property
    def longest(self) -> int:
        """The positions for which there has to be memory."""
        return self.read + self.allowed

    def hypothesis(self, *, finished: bool) -> Hypothesis:
        return Hypothesis(tuple(self.tokens), self.log_probability, self.log_probability, finished)


class PromptFlight:
    """Continues prompts that arrive at any time.

    `admit` puts prompts into the queue, `tick` writes one token of all texts in flight, `drop` forgets texts. Up to
    `capacity` texts are in flight, and no more than have room in `memory` bytes at their full length. In one tick, up
    to `chunk` tokens of prompts that wait are read in one call, and as many of one prompt that is longer: it is read
    part by part, so that it does not hold up the others.

    Raises UsageError for a model whose states cannot be joined, unless the capacity is 1.
    """

    def __init__(
        self,
        model: Any,
        *,
        capacity: int = 32,
        chunk: int = 128,
        memory: int = MEMORY,
        device: torch.device | str | None = None,
    ) -> None:
        for name, number in (("capacity", capacity), ("chunk", chunk), ("memory", memory)):
            if number < 1:
                raise UsageError(f"decode: {name} is at least 1, got {number}.")
        if capacity > 1 and not isinstance(model, Joiner):
            raise UsageError(
                f"decode: {type(model).__name__} cannot continue several texts in flight, because it has no `join` for "
                "its states. Set the capacity to 1."
            )
        self.model, self.capacity, self.chunk = model, capacity, chunk
        self._positions = memory // max(getattr(model, "position_bytes", 0), 1)
        self._device = device
        self._queue: deque[_Row] = deque()
        self._rows: list[_Row] = []
        """In the order of the rows of the state."""
        self._state: State = None
        self._choices = Choices(device)
        self._long: _Row | None = None
        """A text whose prompt is read part by part, with what was read of it."""
        self._long_state: State = None
        self._long_read = 0

    @property
    def waiting(self) -> int:
        """The number of texts whose prompts were not read."""
        return len(self._queue)

    @property
    def flying(self) -> int:
        """The number of texts in flight."""
        return len(self._rows) + (self._long is not None)

    def admit(self, names: Sequence[Hashable], prompts: Sequence[Prompt]) -> None:
        """Queue prompts under names of the caller's.

        Raises UsageError for a name that is taken, for a prompt without a token, and for a length that the model does
        not have or the search excludes; then no prompt is admitted.
        """
        names = list(names)
        taken = {row.name for row in self._all()}.intersection(names)
        if taken or len(set(names)) < len(names) or len(names) != len(prompts):
            raise UsageError(
                f"decode: each of {len(prompts)} prompts needs a name of its own; got {names}"
                + (f", and {sorted(taken, key=str)} already stand for others." if taken else ".")
            )
        rows = []
        for name, prompt in zip(names, prompts, strict=True):
            if not prompt.tokens:
                raise UsageError(f"decode: the prompt {name!r} has no token. Begin it with the token of a beginning.")
            [allowed] = Request(sentences=1).limits(prompt.config, self.model).tolist()
            most = getattr(self.model, "max_length", None)
            if most is not None and len(prompt.tokens) - 1 + allowed > most:
                raise UsageError(
                    f"decode: the prompt {name!r} has {len(prompt.tokens)} tokens and may get {allowed} more, but the "
                    f"model represents {most} positions. Shorten it, or set a smaller max_length."
                )
            rows.append(_Row(name, prompt, allowed, prompt.tokens[-1]))
        self._queue += rows

    @torch.inference_mode()
    def drop(self, names: Collection[Hashable]) -> None:
        """Forget texts, wherever they are. Names that are unknown, such as those of complete ones, are ignored."""
        unwanted = set(names)
        self._queue = deque(row for row in self._queue if row.name not in unwanted)
        if self._long is not None and self._long.name in unwanted:
            self._long = self._long_state = None
        self._leave({place for place, row in enumerate(self._rows) if row.name in unwanted})

    @torch.inference_mode()
    def end(self, name: Hashable) -> Hypothesis:
        """Take a text that is being written as complete, and return it. Raises UsageError for a name that is not."""
        for place, row in enumerate(self._rows):
            if row.name == name:
                self._leave({place})
                return row.hypothesis(finished=True)
        raise UsageError(f"decode: no text in flight has the name {name!r}.")

    @torch.inference_mode()
    def tick(self) -> list[Written]:
        """Read prompts that wait, then write one token of every text in flight. A text whose logits are not numbers, or
        whose search excludes every token, ends with a problem.
        """
        with machine.small_products(self.capacity * MULTIPLY_ADDS):
            self._read_on()
            self._board()
            if not self._rows:
                return []
            tokens = torch.tensor([row.next for row in self._rows], device=self._device)
            self._state, logits = self.model.step(self._state, tokens)
            require_rows(len(logits), len(self._rows))
            chosen = self._choices.next(logits, [row.tokens for row in self._rows])
        written, complete = list[Written](), set[int]()
        for place, (row, token, gain) in enumerate(zip(self._rows, *chosen, strict=True)):
            row.next, finished = token, token == row.prompt.end
            row.log_probability += gain
            if not math.isfinite(gain):  # the others go on
                written.append(Written(row.name, None, problem=_problem(row.log_probability)))
                complete.add(place)
                continue
            if not finished:
                row.tokens.append(token)
            whole = None
            if finished or len(row.tokens) == row.allowed:
                whole = row.hypothesis(finished=finished)
                complete.add(place)
            written.append(Written(row.name, None if finished else token, whole))
        self._leave(complete)
        return written

    def _all(self) -> list[_Row]:
        return [*self._queue, *self._rows, *([] if self._long is None else [self._long])]

    def _read_on(self) -> None:
        """Read a part of a long prompt. After the last one, its text is in flight."""
        if self._long is None:
            return
        tokens = self._long.prompt.tokens[self._long_read : min(self._long_read + self.chunk, self._long.read)]
        ids = torch.tensor([tokens], device=self._device)
        self._long_state = self.model.extend(self._long_state, ids)
        self._long_read += len(tokens)
        if self._long_read == self._long.read:
            row, state = self._long, self._long_state
            self._long = self._long_state = None
            self._join([row], state)

    def _board(self) -> None:
        """Read prompts that wait, in their order, as far as there are places and memory for them, and begin with one
        that is long.
        """
        together, longest = list[_Row](), 0
        for row in list(self._queue):
            if not self._fits([*together, row]):
                break
            if row.read > self.chunk and hasattr(self.model, "extend"):
                if self._long is not None:  # a shorter one may come first
                    continue
                self._queue.remove(row)
                self._long, self._long_read = row, self.chunk
                self._long_state = self._start([row.prompt.tokens[: self.chunk]])
                continue
            longest = max(longest, row.read)
            if together and longest * (len(together) + 1) > self.chunk:
                break
            self._queue.remove(row)
            together.append(row)
        if together:
            self._join(together, self._start([row.prompt.tokens[: row.read] for row in together]))

    def _start(self, prompts: Sequence[Sequence[int]]) -> State:
        batch = Batch.of(prompts)
        return self.model.start(batch if self._device is None else batch.to(self._device))

    def _fits(self, more: Sequence[_Row]) -> bool:
        """Whether there are places and memory for further texts; there always is for one."""
        rows = [*self._rows, *([] if self._long is None else [self._long]), *more]
        within = len(rows) * max(row.longest for row in rows) <= self._positions
        return len(rows) == 1 or (len(rows) <= self.capacity and within)

    def _join(self, rows: list[_Row], state: State) -> None:
        self._state = self.model.join(self._state, state) if self._rows else state
        self._rows += rows
        self._set_choices()

    def _leave(self, places: set[int]) -> None:
        """Forget the texts in some rows. The last rows take their places, so that no other row moves."""
        if not places:
            return
        count = len(self._rows) - len(places)
        last = [place for place in range(count, len(self._rows)) if place not in places]
        order = [last.pop() if place in places else place for place in range(count)]
        self._rows = [self._rows[place] for place in order]
        rows = torch.tensor(order, dtype=torch.int64, device=self._device)
        self._state = reordered(self.model, self._state, rows) if order else None
        self._set_choices()

    def _set_choices(self) -> None:
        prompts = [row.prompt for row in self._rows]
        self._choices.set(*([getattr(each, name) for each in prompts] for name in ("config", "end", "example")))


def _problem(log_probability: float) -> FoveateError | None:
    try:
        require_number(log_probability, 0)
    except FoveateError as problem:
        return problem
    return None
