"""Beam search extends the few best beginnings of every sentence side by side."""

from dataclasses import dataclass, fields, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from foveate.decode.candidate import joined, leaders, top
from foveate.decode.constraint import cohorts, constrained, hidden_alone
from foveate.decode.request import Request
from foveate.decode.seat import Seats
from foveate.decode.stepper import State, Stepper, reordered, require_rows
from foveate.decode.whole_loop import beam_loop
from foveate.interruption import ask
from foveate.search import BeamConfig, Hypothesis, LengthPenalty, divisor_of, require_number

NONE = -torch.inf


@torch.no_grad()
def beam_search(stepper: Stepper, state: State, request: Request, config: BeamConfig) -> list[list[Hypothesis]]:
    """The `num_best` hypotheses of each sentence, fewer where fewer exist.

    Each step takes the 2·beam best extensions of a sentence. Those among the first `beam` that end go to the
    sentence's pool of the `beam` best scores; the first `beam` that do not end continue. At the length limit the first
    `beam` go to the pool with `finished` false. A sentence is done when its pool is full and its best running
    hypothesis, scored at its present length, would not enter. This is the heuristic of Hugging Face's
    `generate(early_stopping=False)`, and the results are the same.

    Sentences that are done leave the batch at once, because the state is reordered at every step anyway. Equal scores
    are ordered by place in the beam, then by token, independently of the batch.
    """
    hypotheses = beam_loop(stepper, state, request, config)
    if hypotheses is not None:
        return hypotheses
    if request.sentences and request.prefix is None and Seats.serve(config, request.device):
        return _search_in_seats(stepper, state, request, config)
    complete: dict[int, list[Hypothesis]] = {}
    beams = Beams.start(request, request.limits(config, stepper), config)
    while len(complete) < request.sentences:
        ask()
        state, logits = stepper.step(state, beams.token)
        beams, parent = advance(beams, logits, config, request.end)
        done = beams.done()
        if bool(done.any()):
            complete |= beams.select(done.nonzero()[:, 0]).hypotheses(config.num_best)
            going = (~done).nonzero()[:, 0]
            beams, parent = beams.select(going), parent[going]
        if len(complete) < request.sentences:
            state = reordered(stepper, state, parent.flatten())
    return [complete[sentence] for sentence in range(request.sentences)]


def _search_in_seats(stepper: Stepper, state: State, request: Request, config: BeamConfig) -> list[list[Hypothesis]]:
    """`beam_search` by the kernel."""
    complete: dict[int, list[Hypothesis]] = {}
    seats = Seats(config, request.end, request.sentences)
    begin = [request.begin] * request.sentences
    penalties = [config.length_penalty] * request.sentences
    seats.take(range(request.sentences), request.limits(config, stepper).tolist(), begin, penalties)
    while len(complete) < request.sentences:
        ask()
        state, logits = stepper.step(state, seats.token)
        done, rows = seats.advance(logits)
        complete |= done
        if len(complete) < request.sentences:
            state = reordered(stepper, state, rows)
    return [complete[sentence] for sentence in range(request.sentences)]


@dataclass(frozen=True)
class _Pool:
    """The best complete hypotheses of each sentence, best first; −∞ in free places."""

    score: Float[Tensor, "sentences beam"]
    log_probability: Float[Tensor, "sentences beam"]
    finished: Bool[Tensor, "sentences beam"]
    end: Int[Tensor, "sentences beam"]
    """The column after the last token, the end token left out."""
    tokens: Int[Tensor, "sentences beam position"]
    """In the columns of the running hypotheses."""

    @classmethod
    def empty(cls, sentences: int, beam: int, device: torch.device | str | None) -> "_Pool":
        shape = (sentences, beam)
        return cls(
            score=torch.full(shape, NONE, device=device),
            log_probability=torch.full(shape, NONE, device=device),
            finished=torch.zeros(shape, dtype=torch.bool, device=device),
            end=torch.zeros(shape, dtype=torch.int64, device=device),
            tokens=torch.zeros((*shape, 0), dtype=torch.int64, device=device),
        )

    def merged(self, other: "_Pool") -> "_Pool":
        """The best of both pools. Equal scores keep this pool's hypotheses first, because they are older."""
        width = other.tokens.shape[2] - self.tokens.shape[2]
        mine = replace(self, tokens=pad(self.tokens, (0, width)))
        both = {
            field.name: torch.cat([getattr(mine, field.name), getattr(other, field.name)], dim=1)
            for field in fields(self)
        }
        order = both["score"].argsort(dim=1, descending=True, stable=True)[:, : self.score.shape[1]]
        return _Pool(**{name: _gathered(value, order) for name, value in both.items()})

    def select(self, sentences: Int[Tensor, " new_sentences"]) -> "_Pool":
        return _Pool(**{field.name: getattr(self, field.name)[sentences] for field in fields(self)})

    def shifted(self, columns: int) -> "_Pool":
        """The same hypotheses with this many more columns in front, or fewer."""
        return replace(self, end=self.end + columns, tokens=pad(self.tokens, (max(columns, -self.tokens.shape[2]), 0)))

    def joined(self, later: "_Pool") -> "_Pool":
        """The pools of both batches' sentences."""
        width = max(self.tokens.shape[2], later.tokens.shape[2])
        wide = [replace(each, tokens=pad(each.tokens, (0, width - each.tokens.shape[2]))) for each in (self, later)]
        return _Pool(**{field.name: torch.cat([getattr(each, field.name) for each in wide]) for field in fields(self)})


@dataclass(frozen=True)
class Beams:
    """The running hypotheses of each sentence in the batch. `total` is the sum of log-probabilities, best first.

    The newest tokens stand in the last column of `history`, so that sentences may have begun at different times.
    """

    sentence: Int[Tensor, " sentences"]
    first: tuple[int, ...]
    """The column of each sentence's first token."""
    penalty: tuple[LengthPenalty | None, ...]
    limit: Int[Tensor, " sentences"]
    """The column after the last token that a sentence may have."""
    token: Int[Tensor, " rows"]
    """The newest tokens, which the model reads next."""
    prefix: Int[Tensor, "sentences prefix_length"] | None
    history: Int[Tensor, "sentences beam position"]
    total: Float[Tensor, "sentences beam"]
    pool: _Pool

    @classmethod
    def start(cls, request: Request, limit: Int[Tensor, " sentences"], config: BeamConfig) -> "Beams":
        sentences, device, beam = request.sentences, request.device, config.beam
        total = torch.full((sentences, beam), NONE, device=device)
        total[:, 0] = 0.0  # all rows of a sentence are alike at first: extend only one of them
        return cls(
            sentence=torch.arange(sentences, device=device),
            first=(0,) * sentences,
            penalty=(config.length_penalty,) * sentences,
            limit=limit,
            token=torch.full((sentences * beam,), request.begin, device=device),
            prefix=None if request.prefix is None else request.prefix.to(device),
            history=torch.zeros((sentences, beam, 0), dtype=torch.int64, device=device),
            total=total,
            pool=_Pool.empty(sentences, beam, device),
        )

    @property
    def ages(self) -> list[int]:
        """The number of tokens of each sentence's hypotheses."""
        return [self.history.shape[2] - first for first in self.first]

    def divisor(self, more: int) -> float | Float[Tensor, " sentences"]:
        """The divisor for hypotheses with `more` tokens; one number if it is the same for all sentences."""
        kinds = set(zip(self.ages, map(id, self.penalty), strict=True))
        if len(kinds) == 1:
            return divisor_of(self.penalty[0], self.ages[0] + more)
        divisors = [divisor_of(penalty, age + more) for penalty, age in zip(self.penalty, self.ages, strict=True)]
        return torch.tensor(divisors, device=self.total.device)

    def done(self) -> Bool[Tensor, " sentences"]:
        """Whether a sentence has reached its limit or no running hypothesis, at its present length, would enter the
        pool.
        """
        # An unfilled pool ends with −∞. Every running hypothesis exceeds it; without one, −∞ does not exceed −∞.
        hopeful = self.total[:, 0] / self.divisor(0) > self.pool.score[:, -1]
        return (self.limit <= self.history.shape[2]) | ~hopeful

    def select(self, sentences: Int[Tensor, " new_sentences"]) -> "Beams":
        numbers = sentences.tolist()
        return Beams(
            sentence=self.sentence[sentences],
            first=tuple(self.first[number] for number in numbers),
            penalty=tuple(self.penalty[number] for number in numbers),
            limit=self.limit[sentences],
            token=self.token.view(self.total.shape)[sentences].flatten(),
            prefix=None if self.prefix is None else self.prefix[sentences],
            history=self.history[sentences],
            total=self.total[sentences],
            pool=self.pool.select(sentences),
        )

    def joined(self, later: "Beams") -> "Beams":
        """The sentences of both, which have no prefixes."""
        if not self.first:
            return later
        older = self.shifted(-min(self.first))
        younger = later.shifted(older.history.shape[2] - later.history.shape[2])
        parts = {
            name: torch.cat([value, getattr(younger, name)])
            for name, value in vars(older).items()
            if isinstance(value, Tensor)
        }
        first, penalty, pool = (
            older.first + younger.first,
            older.penalty + younger.penalty,
            older.pool.joined(younger.pool),
        )
        return replace(older, first=first, penalty=penalty, pool=pool, **parts)

    def shifted(self, columns: int) -> "Beams":
        """The same sentences with this many more columns in front, or fewer."""
        return replace(
            self,
            first=tuple(first + columns for first in self.first),
            limit=self.limit + columns,
            history=pad(self.history, (columns, 0)),
            pool=self.pool.shifted(columns),
        )

    def hypotheses(self, num_best: int) -> dict[int, list[Hypothesis]]:
        pool = self.pool
        columns = (pool.tokens, pool.end, pool.score, pool.log_probability, pool.finished)
        rows = zip(*(column[:, :num_best].tolist() for column in columns), strict=True)
        running = self.total[:, 0].tolist()
        results = {}
        for sentence, first, best_running, row in zip(self.sentence.tolist(), self.first, running, rows, strict=True):
            complete = [
                Hypothesis(tuple(tokens[first:end]), score, total, finished)
                for tokens, end, score, total, finished in zip(*row, strict=True)
                if total > NONE
            ]
            if not complete or best_running != best_running:
                require_number(best_running, sentence)
            results[sentence] = complete
        return results


def _extensions(
    beams: Beams, logits: Float[Tensor, "rows vocab"], config: BeamConfig, end: int
) -> tuple[Float[Tensor, "sentences best"], Int[Tensor, "sentences best"], Int[Tensor, "sentences best"]]:
    """The 2·beam best extensions of each sentence: their log-probabilities, places in the beam and tokens."""
    groups = cohorts(config, beams.ages, prefix=beams.prefix, end=end, vocab=logits.shape[1])
    if groups[0][1] is None:
        return _extensions_at(groups[0][0], beams, logits, config, end)
    order = torch.tensor([sentence for _, members in groups for sentence in members or ()], device=logits.device)
    sizes, grouped = [len(members or ()) for _, members in groups], logits.unflatten(0, (-1, config.beam))
    parts = [
        _extensions_at(age, beams.select(members), grouped[members].flatten(0, 1), config, end)
        for (age, _), members in zip(groups, order.split(sizes), strict=True)
    ]
    total, place, token = (torch.cat(columns)[order.argsort()] for columns in zip(*parts, strict=True))
    return total, place, token


def _extensions_at(
    age: int, beams: Beams, logits: Float[Tensor, "rows vocab"], config: BeamConfig, end: int
) -> tuple[Float[Tensor, "sentences best"], Int[Tensor, "sentences best"], Int[Tensor, "sentences best"]]:
    """`_extensions` of sentences that are constrained as at this age."""
    count, vocab = 2 * config.beam, logits.shape[1]
    hidden = hidden_alone(config, age, prefix=beams.prefix, end=end, vocab=vocab)
    best = None if hidden is None else leaders(logits, hidden, count)
    if best is not None:
        return joined(*best, beams.total, vocab)
    prefix = None if beams.prefix is None else beams.prefix.repeat_interleave(config.beam, dim=0)
    history = beams.history[:, :, beams.history.shape[2] - age :].flatten(0, 1)
    scores = constrained(logits, history, constraints=config, prefix=prefix, end=end)
    return top(scores.view(-1, config.beam, vocab), beams.total, count)


def advance(
    beams: Beams, logits: Float[Tensor, "rows vocab"], config: BeamConfig, end: int
) -> tuple[Beams, Int[Tensor, "sentences beam"]]:
    """The beams after one step, and the row that each continues, as an index into the whole batch."""
    require_rows(len(logits), len(beams.token))
    beam, (total, place, token) = config.beam, _extensions(beams, logits, config, end)
    ended = token == end
    complete = (ended | (beams.limit <= beams.history.shape[2] + 1)[:, None])[:, :beam] & (total[:, :beam] > NONE)
    if bool(complete.any()):
        beams = replace(beams, pool=beams.pool.merged(_completed(beams, complete, total, place, token, ended)))
    # At most one extension of each place ends, so at least `beam` of the 2·beam continue; a stable sort keeps order.
    going = ended.to(torch.uint8).argsort(dim=1, stable=True)[:, :beam]
    parent = place.gather(1, going)
    newest = token.gather(1, going)
    history = torch.cat([_gathered(beams.history, parent), newest[:, :, None]], dim=2)
    running = total.masked_fill(ended, NONE).gather(1, going)
    first_row = torch.arange(len(parent), device=parent.device)[:, None] * beam
    return replace(beams, history=history, total=running, token=newest.flatten()), parent + first_row


def _completed(
    beams: Beams,
    complete: Bool[Tensor, "sentences beam"],
    total: Float[Tensor, "sentences candidates"],
    place: Int[Tensor, "sentences candidates"],
    token: Int[Tensor, "sentences candidates"],
    ended: Bool[Tensor, "sentences candidates"],
) -> _Pool:
    """The first `beam` candidates as an unsorted pool, with −∞ for incomplete ones."""
    beam, position = complete.shape[1], beams.history.shape[2]
    total = total[:, :beam].masked_fill(~complete, NONE)
    divisor = beams.divisor(1)
    return _Pool(
        score=total / (divisor if isinstance(divisor, float) else divisor[:, None]),
        log_probability=total,
        finished=ended[:, :beam],
        end=position + 1 - ended[:, :beam].to(torch.int64),
        tokens=torch.cat([_gathered(beams.history, place[:, :beam]), token[:, :beam, None]], dim=2),
    )


def _gathered(values: Tensor, order: Int[Tensor, "sentences places"]) -> Tensor:
    """The values at these indices of the second axis."""
    if values.dim() == 3:
        order = order[:, :, None].expand(-1, -1, values.shape[2])
    return values.gather(1, order)
