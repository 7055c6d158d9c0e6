"""Beam search and greedy decoding by one kernel a token, for sentences that come and go.

Each sentence has a seat, with its hypotheses and those that are complete. `candidate.cpp` extends the sentences in all
seats at once, in place; the results are those of `advance` in `beam.py` and of a greedy `Walk`, to the bit.
"""

import ctypes
import functools
from collections.abc import Collection, Sequence

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


class _Seats(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("beam", "room", "vocab", "end", "shortest", "greedy")),
        ("hidden", ctypes.c_void_p),
        ("num_hidden", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("age", "limit", "divisors", "total", "history")),
        *((name, ctypes.c_void_p) for name in ("score", "complete_total", "length", "finished", "complete")),
    ]


@functools.cache
def _kernels() -> ctypes.CDLL | None:
    return native.load("foveate.decode", "candidate.cpp").library


class Seats:
    """The hypotheses of the sentences in `places` seats."""

    def __init__(self, config: BeamConfig | GreedyConfig, end: int, places: int) -> None:
        self.config, self.end = config, end
        self.beam = config.beam if isinstance(config, BeamConfig) else 1
        self.sentences: list[int] = []
        """The sentences in the order of their rows."""
        self._of: list[int] = []
        self._free = list(range(places))[::-1]
        self._longest, self._room, self._vocab = 0, ROOM, 0
        size = places * self.beam
        self._age, self._limit, self._divisors, self._seats, self._done = torch.zeros(5, places, dtype=torch.int64)
        self._total, self._score, self._complete_total = torch.full((3, size), NONE)
        self._length, self._finished, self._next, self._parent = torch.zeros(4, size, dtype=torch.int64)
        self._history, self._complete = torch.zeros(2, size, self._room, dtype=torch.int32)
        self._hidden = torch.tensor([*config.forbid, end])
        self._penalty: list[LengthPenalty | None] = [None] * places
        self._tables: dict[int, tuple[LengthPenalty | None, Tensor]] = {}
        self._structure = _Seats()

    @property
    def token(self) -> Int[Tensor, " rows"]:
        """The newest tokens, which the model reads next."""
        return self._next[: len(self._of) * self.beam].clone()

    @staticmethod
    def serve(config: Constraints, device: torch.device | str | None) -> bool:
        """Whether the kernel supports this search."""
        usual = isinstance(config, GreedyConfig) or (isinstance(config, BeamConfig) and config.beam <= WIDEST)
        on_cpu = device is None or torch.device(device).type == "cpu"
        return usual and on_cpu and config.no_repeat_ngram == 0 and _kernels() is not None

    def take(
        self,
        sentences: Sequence[int],
        limits: Sequence[int],
        tokens: Int[Tensor, " sentences"],
        penalties: Sequence[LengthPenalty | None],
    ) -> None:
        """Seat sentences, which have at most `limits` tokens and begin after `tokens`."""
        if len(self._tables) > len(self._penalty):  # some are of penalties that no seat has any more
            own = set(map(id, self._penalty))
            self._tables = {penalty: table for penalty, table in self._tables.items() if penalty in own}
        for sentence, limit, penalty in zip(sentences, limits, penalties, strict=True):
            seat = self._free.pop()
            rows = slice(seat * self.beam, (seat + 1) * self.beam)
            self._age[seat], self._limit[seat] = 0, limit
            self._penalty[seat] = penalty
            self._divisors[seat] = self._table(penalty).data_ptr()
            self._total[rows] = self._score[rows] = self._complete_total[rows] = NONE
            self._total[rows.start] = 0.0  # all rows of a sentence are alike at first: extend only one of them
            self._of.append(seat)
            self.sentences.append(sentence)
        self._seats[: len(self._of)] = torch.tensor(self._of, dtype=torch.int64)
        last = len(self._of) * self.beam
        self._next[last - len(sentences) * self.beam : last] = tokens.repeat_interleave(self.beam)

    def drop(self, sentences: Collection[int]) -> Int[Tensor, " rows"]:
        """Free the seats of sentences. Returns the rows of the others."""
        going = [place for place, sentence in enumerate(self.sentences) if sentence not in sentences]
        self._free += [self._of[place] for place, sentence in enumerate(self.sentences) if sentence in sentences]
        self._of, self.sentences = [self._of[place] for place in going], [self.sentences[place] for place in going]
        rows = (torch.tensor(going, dtype=torch.int64)[:, None] * self.beam + torch.arange(self.beam)).flatten()
        self._seats[: len(self._of)] = torch.tensor(self._of, dtype=torch.int64)
        self._next[: len(rows)] = self._next[rows]
        return rows

    def advance(
        self, logits: Float[Tensor, "rows vocab"]
    ) -> tuple[dict[int, list[Hypothesis]], Int[Tensor, " new_rows"]]:
        """The hypotheses of sentences that are complete after one more token of all, and the row that each row of the
        others continues.
        """
        require_rows(logits, len(self._of) * self.beam)
        self._ready(logits.shape[1])
        library, count, logits = _kernels(), len(self._of), logits.float().contiguous()
        assert library is not None
        going = library.advance(
            ctypes.byref(self._structure),
            native.address(logits),
            ctypes.c_int64(count),
            *self._places,
            native.threads(),
        )
        self._longest += 1
        complete = {}
        if going < count:
            of = dict(zip(self._of, self.sentences, strict=True))
            done = self._done[: count - going].tolist()
            complete = {of[seat]: self._hypotheses(of[seat], seat) for seat in done}
            self._of = self._seats[:going].tolist()
            self.sentences = [of[seat] for seat in self._of]
            self._free += done
            self._longest = int(self._age[self._of].max()) if self._of else 0
        return complete, self._parent[: going * self.beam].clone()

    def _hypotheses(self, sentence: int, seat: int) -> list[Hypothesis]:
        rows = slice(seat * self.beam, (seat + 1) * self.beam)
        most = self.config.num_best if isinstance(self.config, BeamConfig) else 1
        running = float(self._total[rows.start])
        columns = (self._length, self._score, self._complete_total, self._finished)
        results = []
        for place, (length, score, total, finished) in enumerate(
            zip(*(column[rows].tolist() for column in columns), strict=True)
        ):
            if place < most and (total > NONE or (self.beam == 1 and isinstance(self.config, GreedyConfig))):
                tokens = self._complete[rows.start + place, :length].tolist()
                results.append(Hypothesis(tuple(tokens), score, total, bool(finished)))
        if isinstance(self.config, GreedyConfig):
            require_number(results[0].log_probability, sentence)
        elif not results or running != running:
            require_number(running, sentence)
        return results

    def _table(self, penalty: LengthPenalty | None) -> Float[Tensor, " lengths"]:
        """The divisors of hypotheses with 0, 1, … tokens, as far as there is room."""
        if id(penalty) not in self._tables:
            lengths = range(1, self._room + 1)
            numbers = [1.0, *(1.0 if penalty is None else penalty.divisor(length) for length in lengths)]
            self._tables[id(penalty)] = penalty, torch.tensor(numbers, dtype=torch.float32)
        return self._tables[id(penalty)][1]

    def _ready(self, vocab: int) -> None:
        """Make room for one more token, and tell the kernel where everything stands."""
        grows = self._longest >= self._room
        if grows:
            more = max(self._room, self._longest + 1 - self._room)
            self._history, self._complete = (
                torch.nn.functional.pad(part, (0, more)) for part in (self._history, self._complete)
            )
            self._room += more
            self._tables = {}
            for seat in self._of:
                self._divisors[seat] = self._table(self._penalty[seat]).data_ptr()
        if not grows and vocab == self._vocab:
            return
        hidden_alone(self.config, 0, prefix=None, end=self.end, vocab=vocab)  # refuses tokens that do not exist
        self._vocab, greedy, size = vocab, isinstance(self.config, GreedyConfig), len(self._next)
        most = size * (1 if greedy else 2 * self.beam)
        scratch = torch.empty(size * -(-vocab // BLOCK)), torch.empty(most), torch.empty(most, dtype=torch.int64)
        arrays = (self._seats, self._next, self._parent, self._done, *scratch)
        self._places, self._scratch = tuple(map(native.address, arrays)), scratch
        self._structure = _Seats(
            *(self.beam, self._room, vocab, self.end, self.config.min_length, greedy),
            self._hidden.data_ptr(),
            len(self._hidden) - 1,
            *(part.data_ptr() for part in (self._age, self._limit, self._divisors, self._total, self._history)),
            *(part.data_ptr() for part in (self._score, self._complete_total, self._length, self._finished)),
            self._complete.data_ptr(),
        )
