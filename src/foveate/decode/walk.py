"""The loop of greedy decoding and sampling: one row per sentence, one token per step, until all sentences have
ended.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from foveate.decode.constraint import Constraints, constrained, hidden_alone
from foveate.decode.request import Request
from foveate.decode.stepper import Hypothesis, State, Stepper, require_number, require_rows

Choose = Callable[[Float[Tensor, "rows vocab"], Int[Tensor, " rows"], int], Int[Tensor, " rows"]]
"""Maps the scores, each row's sentence and the position to each row's next token."""
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
def walk(
    stepper: Stepper,
    state: State,
    request: Request,
    constraints: Constraints,
    choose: Choose,
    shortcut: Shortcut = lambda logits, hidden: None,
) -> list[Hypothesis]:
    """Extend every sentence by the token from `choose` until its end or its limit; one hypothesis each, in order.

    `shortcut` chooses the same token without computing the scores of all tokens, if it can.
    """
    hypotheses: dict[int, Hypothesis] = {}
    rows = _Rows.start(request, request.limits(constraints, stepper))
    token = torch.full((request.sentences,), request.begin, device=request.device)
    while len(hypotheses) < request.sentences:
        state, logits = stepper.step(state, token)
        require_rows(logits, len(token))
        position = rows.history.shape[1]
        hidden = hidden_alone(constraints, position, prefix=rows.prefix, end=request.end, vocab=logits.shape[1])
        choice = None if hidden is None else shortcut(logits, hidden)
        if choice is None:
            scores = constrained(logits, rows.history, constraints=constraints, prefix=rows.prefix, end=request.end)
            token = choose(scores, rows.sentence, position)
            choice = token, scores.gather(1, token[:, None])[:, 0]
        token, gain = choice
        rows = rows.extended(token, gain, request.end)
        done = int(rows.done.sum())  # the only synchronisation with the device
        if done == len(token):
            hypotheses |= rows.hypotheses()
        elif done >= COMPACT_SHARE * len(token):
            hypotheses |= rows.select(rows.done.nonzero()[:, 0]).hypotheses()
            going = (~rows.done).nonzero()[:, 0]
            state, rows, token = stepper.select(state, going), rows.select(going), token[going]
    return [hypotheses[sentence] for sentence in range(request.sentences)]


@dataclass(frozen=True)
class _Rows:
    """The state of each row in the batch. Tokens after a row's end are ignored."""

    sentence: Int[Tensor, " rows"]
    limit: Int[Tensor, " rows"]
    prefix: Int[Tensor, "rows prefix_length"] | None
    history: Int[Tensor, "rows position"]
    log_probability: Float[Tensor, " rows"]
    length: Int[Tensor, " rows"]
    finished: Bool[Tensor, " rows"]
    done: Bool[Tensor, " rows"]

    @classmethod
    def start(cls, request: Request, limit: Int[Tensor, " rows"]) -> "_Rows":
        rows, device = request.sentences, request.device
        false = torch.zeros(rows, dtype=torch.bool, device=device)
        return cls(
            sentence=torch.arange(rows, device=device),
            limit=limit,
            prefix=None if request.prefix is None else request.prefix.to(device),
            history=torch.zeros((rows, 0), dtype=torch.int64, device=device),
            log_probability=torch.zeros(rows, device=device),
            length=limit,
            finished=false,
            done=false,
        )

    def extended(self, token: Int[Tensor, " rows"], gain: Float[Tensor, " rows"], end: int) -> "_Rows":
        ended = (token == end) & ~self.done
        position = self.history.shape[1]
        return replace(
            self,
            history=torch.cat([self.history, token[:, None]], dim=1),
            log_probability=self.log_probability + gain.masked_fill(self.done, 0.0),
            length=self.length.masked_fill(ended, position),
            finished=self.finished | ended,
            done=self.done | ended | (self.limit <= position + 1),
        )

    def select(self, rows: Int[Tensor, " new_rows"]) -> "_Rows":
        return _Rows(
            sentence=self.sentence[rows],
            limit=self.limit[rows],
            prefix=None if self.prefix is None else self.prefix[rows],
            history=self.history[rows],
            log_probability=self.log_probability[rows],
            length=self.length[rows],
            finished=self.finished[rows],
            done=self.done[rows],
        )

    def hypotheses(self) -> dict[int, Hypothesis]:
        columns = (self.sentence, self.history, self.length, self.log_probability, self.finished)
        results = {}
        for sentence, tokens, length, total, finished in zip(*(column.tolist() for column in columns), strict=True):
            require_number(total, sentence)
            results[sentence] = Hypothesis(tuple(tokens[:length]), total, total, finished)
        return results
