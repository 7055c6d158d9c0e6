"""Batches in flight: sentences join a batch that is being decoded, and leave it when they are complete.

A batch that is decoded to its end makes short sentences wait for long ones, and new sentences for all of them. Here
every tick decodes one token of all sentences in the batch, whatever their ages. A sentence gets the tokens that it gets
alone, in any order of arrival and at any capacity.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate import machine
from foveate.decode.beam import Beams, advance
from foveate.decode.greedy import greedy_walk
from foveate.decode.request import BEGIN, END, Request, require_limits
from foveate.decode.sample import sampling
from foveate.decode.search import MULTIPLY_ADDS
from foveate.decode.seat import Seats
from foveate.decode.stepper import Joiner, State, Stepper, reordered
from foveate.decode.walk import COMPACT_SHARE, Rows, Walk
from foveate.errors import UsageError
from foveate.search import (
    BeamConfig,
    DecodeConfig,
    GreedyConfig,
    Hypothesis,
    LengthPenalty,
    SampleConfig,
    beam_size,
)

DELAY = 4
"""The ticks that a sentence waits for others for each token that it is expected to have."""
Source = TypeVar("Source")
Running = Beams | Rows


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Settings of one sentence's own; other settings need a flight of their own."""

    max_length: int | None = None
    """The maximum number of tokens, within that of the configuration."""
    length_penalty: LengthPenalty | None = None
    """The penalty by which beam search compares its hypotheses, if not that of the configuration."""
    begin: int | None = None
    """The token that the model reads first: the last one of a language model's prompt."""
    seed: int | None = None
    """The seed of its sample, if not that of the configuration."""
    size: int = 0
    """The number of tokens that are expected of it. Of those that wait, short sentences come before long ones."""
    example: int = 0
    """Its number for the noise of sampling: sentences with one seed differ by their numbers."""


@dataclass(frozen=True)
class Arrival:
    """A sentence that is complete."""

    name: Hashable
    hypotheses: list[Hypothesis]
    """As from `decode`, best first."""


@dataclass(frozen=True)
class _Waiting(Generic[Source]):
    name: Hashable
    source: Source
    limits: Limits
    allowed: int
    """The most tokens that it may have."""
    rank: int
    """The smallest one comes first: the tick of its coming, and some more for each token expected."""


class Flight(Generic[Source]):
    """Decodes sentences that arrive at any time.

    `admit` puts sentences into the queue, `tick` decodes one token of all sentences in flight and returns those that
    are complete, `drop` forgets sentences. Up to `capacity` sentences are in flight. Because encoding many sources at
    once costs less than one after another, those that wait are started together: when there are places for `gather` of
    them, when some could have been started for `patience` ticks, or when nothing is in flight. A sentence comes before
    those that came earlier if it is shorter by a token for every `DELAY` ticks; so none waits for ever.

    Raises UsageError for a model whose states cannot be joined.
    """

    def __init__(
        self,
        stepper: Stepper,
        start: Callable[[Sequence[Source], int], State],
        config: DecodeConfig,
        *,
        capacity: int = 32,
        gather: int = 8,
        patience: int = 8,
        begin: int = BEGIN,
        end: int = END,
        device: torch.device | str | None = None,
        native: Callable[[int, int, Any], Any] | None = None,
    ) -> None:
        """`start(sources, beam)` returns the state of some sources, with `beam` rows for each.

        `native(capacity, beam, earlier)` returns steps in C, which read sources by themselves, or None where only the
        stepper knows them (`Transformer.begin_flight`). It is asked whenever nothing is in flight.
        """
        if not isinstance(stepper, Joiner):
            raise UsageError(
                f"decode: {type(stepper).__name__} cannot decode batches in flight, because it has no `join` for its "
                "states. Decode the batches one after another."
            )
        for name, number in (("capacity", capacity), ("gather", gather), ("patience", patience)):
            if number < 1:
                raise UsageError(f"decode: {name} is at least 1, got {number}.")
        self.config, self.capacity = config, capacity
        self.gather, self.patience = min(gather, capacity), patience
        self._stepper, self._start, self._begin, self._end, self._device = stepper, start, begin, end, device
        self._beam = beam_size(config)
        self._walk = None if isinstance(config, BeamConfig) else _walk_of(config, end)
        self._queue: list[_Waiting[Source]] = []
        self._numbers: dict[int, Hashable] = {}
        self._names: set[Hashable] = set()
        self._state: State = None
        self._running: Running | None = None
        self._seats = Seats(config, end, capacity) if Seats.serve(config, device) else None  # type: ignore[arg-type]
        self._native, self._run = native, None
        self._next, self._delayed, self._ticks = itertools.count(), 0, 0

    @property
    def waiting(self) -> int:
        """The number of sentences that have not been started."""
        return len(self._queue)

    @property
    def flying(self) -> int:
        """The number of sentences in flight."""
        return len(self._numbers)

    @torch.inference_mode()
    def has_steps_in_c(self) -> bool:
        """Whether sentences that came now would be decoded without Python between two steps."""
        if self._run is not None:
            return True
        native = None if self._seats is None else self._native
        return native is not None and native(self.capacity, self._beam, None) is not None

    def admit(
        self, names: Sequence[Hashable], sources: Sequence[Source], limits: Sequence[Limits] | None = None
    ) -> None:
        """Queue sentences under names of the caller's.

        Raises UsageError for a name that is taken, and for limits that the model or the configuration excludes; then
        none of the sentences is admitted.
        """
        limits = [Limits()] * len(names) if limits is None else limits
        require_names(names, sources, limits, taken=self._names)
        allowed = self._allowed(limits)
        self._names.update(names)
        ranks = [self._ticks + DELAY * each.size for each in limits]
        self._queue += [_Waiting(*each) for each in zip(names, sources, limits, allowed, ranks, strict=True)]
        self._queue.sort(key=lambda each: each.rank)

    @torch.inference_mode()
    def drop(self, names: Sequence[Hashable]) -> None:
        """Forget sentences, wherever they are. Names that are unknown, such as those of complete ones, are ignored."""
        unwanted = self._names.intersection(names)
        self._names -= unwanted
        self._queue = [each for each in self._queue if each.name not in unwanted]
        numbers = {number for number, name in self._numbers.items() if name in unwanted}
        if not numbers:
            return None
        self._numbers = {number: name for number, name in self._numbers.items() if number not in numbers}
        if self._seats is not None:
            rows = self._seats.drop(numbers)
            if self._run is None:
                return self._go_on(rows)
            self._run.keep(rows)
            return self._rest()
        assert self._running is not None
        places = [place for place, number in enumerate(self._running.sentence.tolist()) if number in self._numbers]
        self._keep(torch.tensor(places, dtype=torch.int64, device=self._running.sentence.device))
        return None

    @torch.inference_mode()
    def tick(self, steps: int = 1) -> list[Arrival]:
        """Decode one token of every sentence in flight, after some that wait were started. Returns complete ones.

        Steps in C go on for up to `steps` tokens, until a sentence is complete. Raises what `decode` raises if one of
        the sentences has no hypothesis. The flight cannot go on then: decode its sentences alone, or in a new flight.
        """
        self._ticks += 1
        with machine.small_products(self.capacity * self._beam * MULTIPLY_ADDS):
            if self._boards():
                self._board()
            if not self._numbers:
                return []
            complete = self._advance(steps)
        arrivals = []
        for number, hypotheses in complete.items():
            name = self._numbers.pop(number, None)
            if name is not None:
                self._names.discard(name)
                arrivals.append(Arrival(name, hypotheses))
        self._rest()
        return arrivals

    def _rest(self) -> None:
        """Release what steps in C have grown by when nothing is in flight any more."""
        if not self._numbers and self._run is not None and self._run.has_grown:
            self._run = None

    def _boards(self) -> bool:
        """Whether sentences that wait are started now."""
        boarding = min(self.capacity - self.flying, len(self._queue))
        self._delayed = self._delayed + 1 if boarding else 0
        if not boarding or (boarding < self.gather and self._numbers and self._delayed <= self.patience):
            return False
        self._delayed = 0
        return True

    def _board(self) -> None:
        """Start sentences that wait, in their order, in free places."""
        if not self._numbers and self._seats is not None and self._native is not None:
            self._run = self._native(self.capacity, self._beam, self._run)
        started = self._next_ones()
        sources = [each.source for each in started]
        if self._run is not None and self._seats is not None:
            started = started[: self._run.board(sources, self._seats.free(len(sources)))]
        else:
            state, joiner = self._start(sources, self._beam), cast(Any, self._stepper)
            self._state = joiner.join(self._state, state) if self._numbers else state
        del self._queue[: len(started)]
        limits = [each.limits for each in started]
        numbers = [next(self._next) for _ in started]
        self._numbers.update(zip(numbers, (each.name for each in started), strict=True))
        if self._seats is not None:
            allowed = [each.allowed for each in started]
            return self._seats.take(numbers, allowed, self._first(limits), self._penalties(limits))
        running = self._started(self._request(limits), limits)
        running = replace(running, sentence=torch.tensor(numbers, device=running.sentence.device))
        self._running = running if self._running is None else _joined(self._running, running)
        return None

    def _next_ones(self) -> list[_Waiting[Source]]:
        """The first of those that wait, as many as have places and memory for all their tokens."""
        started: list[_Waiting[Source]] = []
        longest = 0 if self._seats is None else self._seats.limit
        for each in self._queue[: self.capacity - self.flying]:
            longest = max(longest, each.allowed)
            if self._run is not None and self.flying + len(started) >= self._run.most(longest):
                break
            started.append(each)
        return started

    def _advance(self, steps: int) -> dict[int, list[Hypothesis]]:
        """Go one token further, or several ones in C, and remove what is complete."""
        if self._seats is None:
            assert self._running is not None
            self._state, logits = self._stepper.step(self._state, self._running.token)
            return self._search(self._running, logits)
        if self._run is not None:
            self._run.require_room(self._seats.longest + 1)
            return self._seats.tick(self._run, min(steps, self._run.room - self._seats.longest))
        self._state, logits = self._stepper.step(self._state, self._seats.token)
        complete, rows = self._seats.advance(logits)
        if complete or self._beam > 1:
            self._go_on(rows)
        return complete

    def _search(self, running: Running, logits: Float[Tensor, "rows vocab"]) -> dict[int, list[Hypothesis]]:
        """`_advance` without the kernel."""
        if isinstance(running, Beams):
            assert isinstance(self.config, BeamConfig)
            running, parent = advance(running, logits, self.config, self._end)
            done = running.done()
            complete = running.select(done.nonzero()[:, 0]).hypotheses(self.config.num_best)
            going = (~done).nonzero()[:, 0]
            self._running = running.select(going) if len(going) else None
            self._go_on(parent[going].flatten())
            return complete
        assert self._walk is not None
        before, rows = running.done, self._walk.advance(running, logits)
        ended = (rows.done & ~before).nonzero()[:, 0]
        complete = {number: [best] for number, best in rows.select(ended).hypotheses().items()}
        self._running = rows
        # A model may have no position for a sentence beyond its limit, which others that began later do not have yet.
        beyond = bool((rows.done & (rows.limit <= rows.history.shape[1])).any())
        if beyond or int(rows.done.sum()) >= COMPACT_SHARE * len(rows.done):
            self._keep((~rows.done).nonzero()[:, 0])
        return complete

    def _keep(self, sentences: Int[Tensor, " sentences"]) -> None:
        """Keep only these sentences in flight."""
        assert self._running is not None
        rows = (sentences[:, None] * self._beam + torch.arange(self._beam, device=sentences.device)).flatten()
        self._running = self._running.select(sentences) if len(sentences) else None
        self._go_on(rows)

    def _go_on(self, rows: Int[Tensor, " rows"]) -> None:
        """Go on with these rows of the state. Without any, its memory is released."""
        self._state = reordered(self._stepper, self._state, rows) if len(rows) else None

    def _allowed(self, limits: Sequence[Limits]) -> list[int]:
        """The most tokens of each sentence. Raises UsageError for limits that this flight cannot keep."""
        for each in limits:
            if each.length_penalty is not None and not isinstance(self.config, BeamConfig):
                raise UsageError(
                    "decode: only beam search has a length penalty. Start another flight with a BeamConfig."
                )
            if each.seed is not None and not isinstance(self.config, SampleConfig):
                raise UsageError("decode: only sampling has a seed. Start another flight with a SampleConfig.")
        most = self.config.max_length
        allowed = [most if each.max_length is None else min(most, each.max_length) for each in limits]
        if allowed:
            require_limits(max(allowed), min(allowed), self.config, self._stepper)
        return allowed

    def _request(self, limits: Sequence[Limits]) -> Request:
        most = self.config.max_length
        seed = self.config.seed if isinstance(self.config, SampleConfig) else 0
        return Request(
            sentences=len(limits),
            max_length=torch.tensor(
                [most if each.max_length is None else each.max_length for each in limits], dtype=torch.int64
            ),
            examples=[each.example for each in limits],
            seeds=[seed if each.seed is None else each.seed for each in limits],
            begin=self._begin,
            end=self._end,
            device=self._device,
        )

    def _started(self, request: Request, limits: Sequence[Limits]) -> Running:
        """The search for some sentences before their first token."""
        allowed = request.limits(self.config, self._stepper)
        token = torch.tensor(self._first(limits), device=self._device).repeat_interleave(self._beam)
        if not isinstance(self.config, BeamConfig):
            return replace(Rows.start(request, allowed), token=token)
        beams = Beams.start(request, allowed, self.config)
        return replace(beams, token=token, penalty=tuple(self._penalties(limits)))

    def _first(self, limits: Sequence[Limits]) -> list[int]:
        """The tokens that the model reads first."""
        return [self._begin if each.begin is None else each.begin for each in limits]

    def _penalties(self, limits: Sequence[Limits]) -> list[LengthPenalty | None]:
        usual = self.config.length_penalty if isinstance(self.config, BeamConfig) else None
        return [usual if each.length_penalty is None else each.length_penalty for each in limits]


def require_names(
    names: Sequence[Hashable], sources: Sequence[Any], limits: Sequence[Limits], *, taken: Collection[Hashable]
) -> None:
    """Raise UsageError for names that already stand for a sentence, or that are not as many as sources and limits."""
    if not len(names) == len(sources) == len(limits):
        raise UsageError(
            f"decode: {len(names)} names, {len(sources)} sources and {len(limits)} limits. Give one of each for every "
            "sentence."
        )
    repeated = [name for name, count in Counter(names).items() if count > 1 or name in taken]
    if repeated:
        raise UsageError(f"decode: the names {repeated} already stand for sentences in flight. Give each its own.")


def _walk_of(config: GreedyConfig | SampleConfig, end: int) -> Walk:
    return sampling(config, end) if isinstance(config, SampleConfig) else greedy_walk(config, end)


def _joined(running: Running, later: Running) -> Running:
    if isinstance(running, Beams):
        assert isinstance(later, Beams)
        return running.joined(later)
    assert isinstance(later, Rows)
    return running.joined(later)
