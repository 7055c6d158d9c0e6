"""Beam search and greedy decoding by one kernel a token, for sentences that come and go.

Each sentence has a seat, with its hypotheses and those that are complete. `seat.cpp` extends the sentences in all seats
at once, in place; the results are those of `advance` in `beam.py` and of a greedy `Walk`, to the bit. For models whose
step is a C function it computes that, too.
"""

import ctypes
import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate import native
from foveate.decode.candidate import BLOCK
from foveate.decode.constraint import hidden_alone
from foveate.decode.stepper import require_rows
from foveate.search import BeamConfig, Constraints, GreedyConfig, Hypothesis, LengthPenalty, require_number

NONE = -torch.inf

ROOM = 64
"""The tokens for which seats have room at first."""
WIDEST = 64
"""The largest beam: the kernel puts all extensions of a sentence in order."""
INTERRUPTED, OUTSIDE = -2, -1
_Interrupted = ctypes.CFUNCTYPE(ctypes.c_int64)


class _Seats(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("beam", "room", "vocab", "end", "shortest", "greedy")),
        ("hidden", ctypes.c_void_p),
        ("num_hidden", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("age", "limit", "divisors", "total", "history")),
        *((name, ctypes.c_void_p) for name in ("score", "complete_total", "length", "finished", "complete")),
        *((name, ctypes.c_void_p) for name in ("seats", "token", "parent", "done", "maxima", "values", "tokens")),
    ]


class _Model(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("run", "step", "select")]


@runtime_checkable
class Run(Protocol):
    """The steps of a model as C functions: see `Model` in `seat.cpp`."""

    vocab: int
    address: int
    step: int
    select: int


@functools.cache
def kernels() -> ctypes.CDLL | None:
    """The compiled kernel, or None without a compiler."""
    library = native.load("foveate.decode", "seat.cpp").library
    if library is not None:
        library.fly.restype = library.advance_seats.restype = ctypes.c_int64
    return library


class Seats:
    """The hypotheses of the sentences in `places` seats."""

    def __init__(self, config: BeamConfig | GreedyConfig, end: int, places: int, room: int = ROOM) -> None:
        """There is room for hypotheses of `room` tokens at first."""
        self.config, self.end = config, end
        self.beam = config.beam if isinstance(config, BeamConfig) else 1
        self.sentences: list[int] = []
        """The sentences in the order of their rows."""
        self.longest = 0
        """The number of tokens of the longest hypotheses."""
        self._of: list[int] = []
        self._free = list(range(places))[::-1]
        self._room, self._vocab = room, 0
        shape = (places, self.beam)
        self._age, self._limit, self._divisors, self._seats, self._done = np.zeros((5, places), np.int64)
        self._total, self._score, self._complete_total = np.full((3, *shape), NONE, np.float32)
        self._length, self._finished, self._next, self._parent = np.zeros((4, *shape), np.int64)
        self._history, self._complete = np.zeros((2, *shape, room), np.int32)
        self._hidden = np.array([*config.forbid, end], np.int64)
        self._penalty: list[LengthPenalty | None] = [None] * places
        self._tables: dict[int, tuple[LengthPenalty | None, np.ndarray, int]] = {}
        self._logits = np.empty(0, np.float32)
        self._point()

    @property
    def token(self) -> Int[Tensor, " rows"]:
        """The newest tokens, which the model reads next."""
        return torch.from_numpy(self._next[: len(self._of)].flatten())

    @property
    def limit(self) -> int:
        """The most tokens that a sentence may have; 0 without one."""
        return int(self._limit[self._of].max(initial=0))

    @staticmethod
    def serve(config: Constraints, device: torch.device | str | None) -> bool:
        """Whether the kernel supports this search."""
        usual = isinstance(config, GreedyConfig) or (isinstance(config, BeamConfig) and config.beam <= WIDEST)
        on_cpu = device is None or torch.device(device).type == "cpu"
        return usual and on_cpu and config.no_repeat_ngram == 0 and kernels() is not None

    def free(self, count: int) -> list[int]:
        """The seats that the next sentences take."""
        return self._free[: -count - 1 : -1]

    def take(
        self,
        sentences: Sequence[int],
        limits: Sequence[int],
        tokens: Sequence[int],
        penalties: Sequence[LengthPenalty | None],
    ) -> None:
        """Seat sentences, which have at most `limits` tokens and begin after `tokens`."""
        if len(self._tables) > len(self._penalty):  # some are of penalties that no seat has any more
            own = set(map(id, self._penalty))
            self._tables = {penalty: table for penalty, table in self._tables.items() if penalty in own}
        before, new = len(self._of), self.free(len(sentences))
        self._of += new
        del self._free[len(self._free) - len(new) :]
        self.sentences += sentences
        for seat, penalty in zip(new, penalties, strict=True):
            self._penalty[seat] = penalty
        divisors = [self._table(penalty) for penalty in penalties]
        library, numbers = kernels(), ctypes.c_int64 * len(new)
        assert library is not None
        library.take_seats(
            ctypes.byref(self._structure),
            ctypes.c_int64(before),
            *(numbers(*part) for part in (new, limits, tokens, divisors)),
            ctypes.c_int64(len(new)),
        )

    def drop(self, sentences: Collection[int]) -> Int[Tensor, " rows"]:
        """Free the seats of sentences. Returns the rows of the others."""
        going = [place for place, sentence in enumerate(self.sentences) if sentence not in sentences]
        self._free += [self._of[place] for place, sentence in enumerate(self.sentences) if sentence in sentences]
        self._of, self.sentences = [self._of[place] for place in going], [self.sentences[place] for place in going]
        self._seats[: len(going)] = self._of
        self._next[: len(going)] = self._next[going]
        self._measure()
        return (torch.tensor(going, dtype=torch.int64)[:, None] * self.beam + torch.arange(self.beam)).flatten()

    def advance(
        self, logits: Float[Tensor, "rows vocab"]
    ) -> tuple[dict[int, list[Hypothesis]], Int[Tensor, " new_rows"]]:
        """The hypotheses of sentences that are complete after one more token of all, and the row that each row of the
        others continues.
        """
        require_rows(len(logits), len(self._of) * self.beam)
        self._ready(logits.shape[1])
        library, count, logits = kernels(), len(self._of), logits.float().contiguous()
        assert library is not None
        going = library.advance_seats(
            ctypes.byref(self._structure), native.address(logits), ctypes.c_int64(count), native.threads()
        )
        return self._after(going, 1), torch.from_numpy(self._parent[:going].flatten())

    def tick(self, run: Run, steps: int) -> dict[int, list[Hypothesis]]:
        """The hypotheses of sentences that are complete after up to so many steps of a model, which selects its own
        rows.
        """
        steps = max(1, min(steps, self._room - self.longest))
        return self._after(*self._fly(run, steps))

    def land(self, run: Run, ask: Callable[[], None] | None) -> dict[int, list[Hypothesis]]:
        """The hypotheses of all sentences, for which there must be room. `ask`, which may raise, is called before every
        step.
        """
        problems: list[BaseException] = []

        def interrupted() -> int:
            try:
                ask()  # type: ignore[misc]
            except BaseException as problem:  # it must not pass through C
                problems.append(problem)
            return len(problems)

        going, _ = self._fly(run, -1, None if ask is None else _Interrupted(interrupted))
        if going == INTERRUPTED:
            raise problems[0]
        return self._hypotheses(dict(zip(self._of, self.sentences, strict=True)), self._of)

    def _fly(self, run: Run, most: int, interrupted: Any = None) -> tuple[int, int]:
        """Make up to `most` steps, or −1 for all. Returns the number of sentences that go on, and of the steps."""
        self._ready(run.vocab)
        library, count, steps = kernels(), len(self._of), ctypes.c_int64()
        assert library is not None
        if len(self._logits) < count * self.beam * run.vocab:
            self._logits = np.empty(self._next.size * run.vocab, np.float32)
        going = library.fly(
            ctypes.byref(self._structure),
            ctypes.byref(_Model(run.address, run.step, run.select)),
            ctypes.c_void_p(self._logits.ctypes.data),
            *map(ctypes.c_int64, (count, most)),
            interrupted,
            native.threads(),
            ctypes.byref(steps),
        )
        if going == OUTSIDE:
            raise IndexError(f"A token is not in the vocabulary of {run.vocab}.")
        return int(going), steps.value

    def _after(self, going: int, steps: int) -> dict[int, list[Hypothesis]]:
        """The hypotheses of those that are complete after some steps, which give their seats up."""
        self.longest += steps
        ended = len(self._of) - going
        if not ended:
            return {}
        of = dict(zip(self._of, self.sentences, strict=True))
        done = self._done[:ended].tolist()
        complete = self._hypotheses(of, done)
        self._of = self._seats[:going].tolist()
        self.sentences = [of[seat] for seat in self._of]
        self._free += done
        self._measure()
        return complete

    def _measure(self) -> None:
        """Find the longest hypotheses again after sentences have left."""
        self.longest = int(self._age[self._of].max()) if self._of else 0

    def _hypotheses(self, of: dict[int, int], seats: Sequence[int]) -> dict[int, list[Hypothesis]]:
        """The complete hypotheses of the sentences in some seats."""
        greedy = isinstance(self.config, GreedyConfig)
        most = self.config.num_best if isinstance(self.config, BeamConfig) else 1
        running = self._total[seats, 0].tolist()
        lengths = self._length[seats, :most]
        longest = int(lengths.max(initial=0))
        columns = (self._score, self._complete_total, self._finished)
        parts = (column[seats, :most].tolist() for column in columns)
        tokens = self._complete[seats, :most, :longest].tolist()
        hypotheses: dict[int, list[Hypothesis]] = {}
        for seat, last, *row in zip(seats, running, tokens, lengths.tolist(), *parts, strict=True):
            hypotheses[of[seat]] = results = [
                Hypothesis(tuple(ids[:length]), score, total, bool(finished))
                for ids, length, score, total, finished in zip(*row, strict=True)
                if greedy or total > NONE
            ]
            if greedy:
                require_number(results[0].log_probability, of[seat])
            elif not results or last != last:
                require_number(last, of[seat])
        return hypotheses

    def _table(self, penalty: LengthPenalty | None) -> int:
        """The address of the divisors of hypotheses with 0, 1, … tokens, as far as there is room."""
        if id(penalty) not in self._tables:
            lengths = range(1, self._room + 1)
            numbers = [1.0, *(1.0 if penalty is None else penalty.divisor(length) for length in lengths)]
            table = np.array(numbers, np.float32)
            self._tables[id(penalty)] = penalty, table, table.ctypes.data
        return self._tables[id(penalty)][2]

    def _ready(self, vocab: int) -> None:
        """Make room for one more token, and tell the kernel where everything stands."""
        grows = self.longest >= self._room
        if grows:
            more = max(self._room, self.longest + 1 - self._room)
            self._history, self._complete = (
                np.pad(part, ((0, 0), (0, 0), (0, more))) for part in (self._history, self._complete)
            )
            self._room += more
            self._tables = {}
            for seat in self._of:
                self._divisors[seat] = self._table(self._penalty[seat])
        if grows or vocab != self._vocab:
            hidden_alone(self.config, 0, prefix=None, end=self.end, vocab=vocab)  # refuses tokens that do not exist
            self._vocab = vocab
            self._point()

    def _point(self) -> None:
        """Tell the kernel where everything stands."""
        vocab, greedy, rows = self._vocab, isinstance(self.config, GreedyConfig), self._next.size
        most = rows * (1 if greedy else 2 * self.beam)
        blocks = rows * -(-vocab // BLOCK)
        self._scratch = np.empty(blocks, np.float32), np.empty(most, np.float32), np.empty(most, np.int64)
        own = (self._age, self._limit, self._divisors, self._total, self._history, self._score, self._complete_total)
        later = (self._length, self._finished, self._complete, self._seats, self._next, self._parent, self._done)
        self._structure = _Seats(
            *(self.beam, self._room, vocab, self.end, self.config.min_length, greedy),
            self._hidden.ctypes.data,
            len(self._hidden) - 1,
            *(part.ctypes.data for part in (*own, *later, *self._scratch)),
        )
