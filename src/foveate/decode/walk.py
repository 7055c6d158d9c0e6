"""The loop of greedy decoding and sampling: one row per sentence, one token per step, until all sentences have
ended.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from foveate.decode.constraint import cohorts, constrained, hidden_alone
from foveate.decode.random_number import keys
from foveate.decode.request import END, Request
from foveate.decode.stepper import State, Stepper, reordered, require_rows
from foveate.interruption import ask
from foveate.search import Constraints, Hypothesis, require_number

Choose = Callable[[Float[Tensor, "rows vocab"], "Rows"], Int[Tensor, " rows"]]
"""Maps the scores and the rows to each row's next token."""
Shortcut = Callable[[Float[Tensor, "rows vocab"], tuple[int, ...]], tuple[Tensor, Tensor] | None]
"""Maps the logits and the tokens that are hidden in every row to each row's next token and its score, without the
scores of all tokens; returns None if it cannot.
"""

# Finished rows are removed once they are this share of the batch. Removing them copies the state (its caches); keeping
# them costs their share of every later step. If a copy costs c ≈ 0.5 steps and the sentences end over T ≈ 25 steps, the
# sum is least near √(2c/T) = 0.2. The optimum is flat: from 0.001 to 0.35 a Transformer on CPU took within 20 % of the
# same time, and twice as long when no row was removed.
COMPACT_SHARE = 0.2


@torch.no_grad()
def walk(stepper: Stepper, state: State, request: Request, step: "Walk") -> list[Hypothesis]:
    """Extend every sentence by a token until its end or its limit; one hypothesis each, in order."""
    hypotheses: dict[int, Hypothesis] = {}
    rows = step.start(request, request.limits(step.constraints, stepper))
    while len(hypotheses) < request.sentences:
        ask()
        state, logits = stepper.step(state, rows.token)
        rows = step.advance(rows, logits)
        done = int(rows.done.sum())  # the only synchronisation with the device
        if done == len(rows.done):
            hypotheses |= rows.hypotheses()
        elif done >= COMPACT_SHARE * len(rows.done):
            hypotheses |= rows.select(rows.done.nonzero()[:, 0]).hypotheses()
            going = (~rows.done).nonzero()[:, 0]
            state, rows = reordered(stepper, state, going), rows.select(going)
    return [hypotheses[sentence] for sentence in range(request.sentences)]


@dataclass(frozen=True)
class Rows:
    """The state of each row in the batch. Tokens after a row's end are ignored.

    The newest tokens stand in the last column of `history`, so that rows may have begun at different times.
    """

    sentence: Int[Tensor, " rows"]
    first: tuple[int, ...]
    """The column of each row's first token."""
    limit: Int[Tensor, " rows"]
    """The column after the last token that a row may have."""
    prefix: Int[Tensor, "rows prefix_length"] | None
    example: Int[Tensor, " rows"]
    """The number of each sentence for the noise of sampling."""
    key: Int[Tensor, " rows"] | None
    """The seed of each sentence, if these differ."""
    token: Int[Tensor, " rows"]
    """The newest token, which the model reads next."""
    history: Int[Tensor, "rows position"]
    log_probability: Float[Tensor, " rows"]
    end: Int[Tensor, " rows"]
    """The column after a row's last token, its end token left out."""
    finished: Bool[Tensor, " rows"]
    done: Bool[Tensor, " rows"]

    @classmethod
    def start(cls, request: Request, limit: Int[Tensor, " rows"]) -> "Rows":
        rows, device = request.sentences, request.device
        false = torch.zeros(rows, dtype=torch.bool, device=device)
        number = torch.arange(rows, device=device)
        examples = request.examples
        return cls(
            sentence=number,
            first=(0,) * rows,
            limit=limit,
            prefix=None if request.prefix is None else request.prefix.to(device),
            example=number if examples is None else torch.tensor(list(examples), dtype=torch.int64, device=device),
            key=None if request.seeds is None else keys(request.seeds).to(device),
            token=torch.full((rows,), request.begin, device=device),
            history=torch.zeros((rows, 0), dtype=torch.int64, device=device),
            log_probability=torch.zeros(rows, device=device),
            end=limit,
            finished=false,
            done=false,
        )

    @property
    def ages(self) -> list[int]:
        """The number of tokens of each row."""
        return [self.history.shape[1] - first for first in self.first]

    @property
    def age(self) -> int | Int[Tensor, " rows"]:
        """The number of tokens of each row; one number if all have the same."""
        ages = self.ages
        return ages[0] if len(set(ages)) == 1 else torch.tensor(ages, device=self.history.device)

    def extended(self, token: Int[Tensor, " rows"], gain: Float[Tensor, " rows"], end: int) -> "Rows":
        ended = (token == end) & ~self.done
        position = self.history.shape[1]
        return replace(
            self,
            token=token,
            history=torch.cat([self.history, token[:, None]], dim=1),
            log_probability=self.log_probability + gain.masked_fill(self.done, 0.0),
            end=self.end.masked_fill(ended, position),
            finished=self.finished | ended,
            done=self.done | ended | (self.limit <= position + 1),
        )

    def select(self, rows: Int[Tensor, " new_rows"]) -> "Rows":
        parts = {name: value[rows] for name, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, first=tuple(self.first[row] for row in rows.tolist()), **parts)

    def joined(self, later: "Rows") -> "Rows":
        """The rows of both, which have no prefixes."""
        if not self.first:
            return later
        unused = min(self.first)
        older = self.shifted(-unused)
        younger = later.shifted(older.history.shape[1] - later.history.shape[1])
        parts = {
            name: torch.cat([value, getattr(younger, name)])
            for name, value in vars(older).items()
            if isinstance(value, Tensor)
        }
        return replace(older, first=older.first + younger.first, **parts)

    def shifted(self, columns: int) -> "Rows":
        """The same rows with this many more columns in front, or fewer."""
        return replace(
            self,
            first=tuple(first + columns for first in self.first),
            limit=self.limit + columns,
            end=self.end + columns,
            history=pad(self.history, (columns, 0)),
        )

    def hypotheses(self) -> dict[int, Hypothesis]:
        columns = (self.sentence, self.history, self.end, self.log_probability, self.finished)
        rows = zip(self.first, *(column.tolist() for column in columns), strict=True)
        results = {}
        for first, sentence, tokens, end, total, finished in rows:
            require_number(total, sentence)
            results[sentence] = Hypothesis(tuple(tokens[first:end]), total, total, finished)
        return results


@dataclass(frozen=True)
class Walk:
    """The extension of rows by tokens. `shortcut` chooses the same token as `choose` without the scores of all tokens,
    if it can.
    """

    constraints: Constraints
    choose: Choose
    shortcut: Shortcut = lambda logits, hidden: None
    end: int = END

    def start(self, request: Request, limit: Int[Tensor, " rows"]) -> Rows:
        """The rows before their first token."""
        return Rows.start(request, limit)

    def advance(self, rows: Rows, logits: Float[Tensor, "rows vocab"]) -> Rows:
        """The rows with their next tokens."""
        require_rows(len(logits), len(rows.token))
        groups = cohorts(self.constraints, rows.ages, prefix=rows.prefix, end=self.end, vocab=logits.shape[1])
        if groups[0][1] is None:
            return rows.extended(*self._choice(rows, logits, groups[0][0]), self.end)
        order = torch.tensor([row for _, members in groups for row in members or ()], device=logits.device)
        sizes, choices = [len(members or ()) for _, members in groups], []
        for (age, _), members in zip(groups, order.split(sizes), strict=True):
            choices.append(self._choice(rows.select(members), logits[members], age))
        token, gain = (torch.cat(parts)[order.argsort()] for parts in zip(*choices, strict=True))
        return rows.extended(token, gain, self.end)

    def _choice(
        self, rows: Rows, logits: Float[Tensor, "rows vocab"], age: int
    ) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        """The next tokens, and their log-probabilities, of rows that are constrained as at this age."""
        hidden = hidden_alone(self.constraints, age, prefix=rows.prefix, end=self.end, vocab=logits.shape[1])
        choice = None if hidden is None else self.shortcut(logits, hidden)
        if choice is not None:
            return choice
        history = rows.history[:, rows.history.shape[1] - age :]
        scores = constrained(logits, history, constraints=self.constraints, prefix=rows.prefix, end=self.end)
        token = self.choose(scores, rows)
        return token, scores.gather(1, token[:, None])[:, 0]
