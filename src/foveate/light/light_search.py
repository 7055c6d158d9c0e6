"""Greedy decoding and beam search over one sentence: those of `foveate.decode`, which define what is right.

Both engines round differently, in the sixth digit. A decision between two values that are closer than that is left to
torch (`CloseError`), so that a result of this one is that of torch.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from foveate.light.light_transformer import LightTransformer
from foveate.light.weight import Array, NotSupportedError
from foveate.search import BeamConfig, Constraints, DecodeConfig, GreedyConfig, Hypothesis, beam_size, divisor_of

BEGIN, END = 1, 2
CLOSE = 1e-4
"""Log-probabilities that differ by less may have the other order in torch; of a score it is divided like the score. The
two engines' log-probabilities of a hypothesis differed by at most 3.1e-5 (`benchmarks/start.py`), the difference of two
therefore by at most 6.2e-5."""
NONE = np.float32(-np.inf)
Number = float | np.float32


class CloseError(NotSupportedError):
    """A decision that rounding could change."""

    def __init__(self) -> None:
        super().__init__("two hypotheses are so close that rounding decides between them")


@np.errstate(all="ignore")  # as torch; logits that are not numbers are refused
def search(
    model: LightTransformer, source: list[int], limit: int, config: DecodeConfig, *, close: float = CLOSE
) -> list[Hypothesis]:
    """The hypotheses of a sentence with its end, best first; `limit` is the most tokens with the end.

    Raises NotSupportedError for sampling and for settings that leave no choice, CloseError for differences below
    `close`.
    """
    if not isinstance(config, GreedyConfig | BeamConfig):
        raise NotSupportedError("sampling is not supported")
    if limit <= config.min_length or max((*config.forbid, END)) >= len(model.logits.weight):
        raise NotSupportedError("the settings exclude every token")
    state, running = model.start(source, beam_size(config)), _Running.of(config, limit, close)
    while not running.done:
        state, logits = model.step(state, running.tokens)
        state = state.select(running.advance(_constrained(logits, running.histories, config)))
    return running.pool[: getattr(config, "num_best", 1)]


@dataclass
class _Running:
    """The hypotheses of a sentence that go on, side by side, and those that are complete, best first.

    Greedy decoding is beam search of one place that stops at its first end and has no penalty.
    """

    config: GreedyConfig | BeamConfig
    limit: int
    close: float
    histories: list[list[int]]
    total: Array
    """The log-probability of each."""
    pool: list[Hypothesis] = field(default_factory=list)
    done: bool = False

    @classmethod
    def of(cls, config: GreedyConfig | BeamConfig, limit: int, close: float) -> "_Running":
        beam = beam_size(config)
        total = np.full(beam, NONE, np.float32)
        total[0] = 0  # all rows are alike at first: only one of them is extended
        return cls(config, limit, close, [[] for _ in range(beam)], total)

    @property
    def tokens(self) -> list[int]:
        """The newest tokens, which the model reads next."""
        return [history[-1] if history else BEGIN for history in self.histories]

    def advance(self, scores: Array) -> list[int]:
        """Extend the hypotheses by the best tokens; returns the row that each continues."""
        beam, vocab = scores.shape
        values, places = _largest(scores + self.total[:, None], 2 * beam + 1)
        ended = places % vocab == END
        last = len(self.histories[0]) + 1 == self.limit
        complete = (ended | last)[:beam] & (values[:beam] > NONE)
        self._require_apart(values, ended, last)
        for value, place, end in zip(
            values[:beam][complete], places[:beam][complete], ended[:beam][complete], strict=True
        ):
            history, token = self.histories[place // vocab], int(place % vocab)
            self._keep(tuple(history if end else [*history, token]), value, bool(end))
        going = np.flatnonzero(~ended)[:beam]
        parents, newest = (places[going] // vocab).tolist(), (places[going] % vocab).tolist()
        self.histories = [[*self.histories[parent], token] for parent, token in zip(parents, newest, strict=True)]
        self.total = values[going]
        self.done = self._is_done()
        if self.done:
            self._require_order()
        return parents

    def _divisor(self, length: int) -> float:
        return divisor_of(self.config.length_penalty if isinstance(self.config, BeamConfig) else None, length)

    def _keep(self, tokens: tuple[int, ...], value: np.float32, finished: bool) -> None:
        """Put a complete hypothesis into the pool. Of equal scores the older comes first."""
        score = float(value / np.float32(self._divisor(len(self.histories[0]) + 1)))
        self.pool.append(Hypothesis(tokens, score, float(value), finished))
        self.pool.sort(key=lambda hypothesis: -hypothesis.score)
        beam = beam_size(self.config)
        if len(self.pool) > beam:
            self._require_scores(self.pool[beam - 1].score, self.pool[beam].score)
            del self.pool[beam:]

    def _is_done(self) -> bool:
        length = len(self.histories[0])
        if length >= self.limit or (isinstance(self.config, GreedyConfig) and self.pool):
            return True
        if not self.total[0] > NONE:
            if not self.pool:
                raise NotSupportedError("the settings exclude every token")
            return True
        if len(self.pool) < beam_size(self.config):
            return False
        hope, worst = float(self.total[0] / np.float32(self._divisor(length))), self.pool[-1].score
        self._require_scores(max(hope, worst), min(hope, worst))
        return hope <= worst

    def _require_apart(self, values: Array, ended: Any, last: bool) -> None:
        """Raises CloseError if other candidates might be among the first `beam` that go on, or that are complete."""
        beam, going = len(self.histories), np.flatnonzero(~ended)
        if len(going) > beam:
            self._require(values[going[beam - 1]], values[going[beam]])
        if len(values) > beam:
            inside, outside = values[:beam], values[beam:]
            if last:
                self._require(inside[-1], outside[0])
            for value in inside[ended[:beam]]:
                self._require(value, outside[0])
            for value in outside[ended[beam:]]:
                self._require(inside[-1], value)

    def _require_order(self) -> None:
        best = self.pool[: getattr(self.config, "num_best", 1) + 1]
        for better, worse in pairwise(best):
            self._require_scores(better.score, worse.score)

    def _require_scores(self, better: Number, worse: Number) -> None:
        """The same of scores, whose differences are divided by the penalty of the shortest complete hypothesis."""
        shortest = min(len(hypothesis.tokens) + hypothesis.finished for hypothesis in self.pool)
        self._require(better, worse, self._divisor(shortest))

    def _require(self, better: Number, worse: Number, divisor: float = 1.0) -> None:
        """Raises CloseError if two values might have the other order in torch."""
        if worse > NONE and (better - worse) * divisor < self.close:
            raise CloseError


def _constrained(logits: Array, histories: list[list[int]], constraints: Constraints) -> Array:
    """log softmax(logits), then −∞ at the tokens that may not come next; see `foveate.decode.constraint`."""
    if not np.isfinite(logits).all():
        raise NotSupportedError("the logits are not numbers")
    scores: Array = logits - logits.max(-1, keepdims=True)
    scores -= np.log(np.exp(scores).sum(-1, keepdims=True))
    position, size = len(histories[0]), constraints.no_repeat_ngram
    scores[:, list(constraints.forbid)] = NONE
    if position < constraints.min_length:
        scores[:, END] = NONE
    if 0 < size <= position:
        for row, history in enumerate(histories):
            ngrams = [history[first : first + size] for first in range(position - size + 1)]
            latest = history[position - size + 1 :]
            scores[row, [ngram[-1] for ngram in ngrams if ngram[:-1] == latest]] = NONE
    return scores


def _largest(values: Array, count: int) -> tuple[Array, Any]:
    """The `count` largest numbers, best first, and their places in the flattened array; of equal ones the first."""
    flat = values.reshape(-1)
    if count >= len(flat):
        order = np.argsort(-flat, kind="stable")
        return flat[order], order
    least = np.partition(flat, len(flat) - count)[len(flat) - count]
    places = np.flatnonzero(flat >= least)
    order = places[np.argsort(-flat[places], kind="stable")][:count]
    return flat[order], order
