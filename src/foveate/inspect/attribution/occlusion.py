"""Leave-one-out: what an answer loses without a word. Deletion: what it loses without the words that rank highest."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from foveate.inspect.attribution.answer import Answer, Way
from foveate.inspect.attribution.attribution import Attribution

DIGITS = 5
"""Decimals of a drop in log-probability, in nats: smaller differences are rounding of 32 bits, and count as equal."""
POINTS = 16
"""The largest number of points of a deletion curve: of more words, several are removed at once."""
ORDERS = 10
"""The number of random orders that a deletion curve is compared with."""
MASKED = {"remove": "removed", "unknown": "replaced by the unknown token", "mask": "replaced by the mask token"}


def leave_one_out(answer: Answer, way: Way | None = None) -> Attribution:
    """ln p(y | x) − ln p(y | x without word i): the drop of the answer's log-probability, by trying, in one batch.

    `way` says what happens to the word: its pieces are removed, or each becomes the unknown or the mask token. Without
    it, it is the first of the model's ways (`Answer.substitutes`). A positive score speaks for the answer, a
    negative one against it. Differences below 0.00001 nats are 0.

    Reference: Li, Monroe & Jurafsky 2016, "Understanding Neural Networks through Representation Erasure", equation 1,
    who divide by the log-probability. Raises UsageError for a way that does not suit the model.
    """
    way = answer.way(way)
    whole, *without = answer.log_probabilities([(), *((word,) for word in range(len(answer.inputs)))], way)
    drops = (whole - np.array(without).reshape(len(answer.inputs), len(whole))).T.round(DIGITS) + 0.0
    return Attribution.of(
        answer, "leave-one-out", np.where(answer.possible, drops, 0.0), note=f"words are {MASKED[way]}"
    )  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class Deletion:
    """The drop of one output word's log-probability when more and more input words are removed."""

    removed: tuple[int, ...]
    """The number of words removed at each point: never none or all, where orders do not differ."""
    drops: Float64[np.ndarray, "methods points"]
    random: Float64[np.ndarray, " points"]
    """The mean over random orders."""

    @property
    def areas(self) -> Float64[np.ndarray, " methods"]:
        """The mean drop over the points less that of random orders, in nats: above 0 is better than chance. NaN with
        fewer than two words.
        """
        if not self.removed:
            return np.full(len(self.drops), np.nan)
        return (self.drops - self.random).mean(1)


def deletion(
    answer: Answer,
    attributions: Sequence[Attribution],
    *,
    way: Way | None = None,
    outputs: Iterable[int] | None = None,
    seed: int = 0,
) -> list[Deletion]:
    """The deletion curves of some output words (None: all): the words that each method ranks highest go first.

    All methods share ten random orders, which follow from `seed`. Sets of words that several curves need are tried
    once. Reference: Samek et al. 2017, section III, on pictures; DeYoung et al. 2020, section 4 (comprehensiveness).
    """
    chosen = range(len(answer.outputs)) if outputs is None else list(outputs)
    generator = np.random.default_rng(seed)
    shuffled = [generator.permutation(len(answer.inputs)).tolist() for _ in range(ORDERS)]
    plans = [_Plan(answer, attributions, shuffled, output) for output in chosen]
    sets = list(dict.fromkeys([frozenset[int](), *(words for plan in plans for words in plan.sets())]))
    values = answer.log_probabilities(sets, way)
    number = {words: place for place, words in enumerate(sets)}
    results = []
    for plan in plans:
        here = values[[number[words] for words in plan.sets()], plan.output]
        drops = (values[0, plan.output] - here).reshape(len(plan.orders), len(plan.removed)).round(DIGITS) + 0.0
        methods = len(attributions)
        results.append(Deletion(removed=plan.removed, drops=drops[:methods], random=drops[methods:].mean(0)))
    return results


class _Plan:
    """The orders in which the words of one output word are removed: those of methods, then random ones."""

    def __init__(
        self, answer: Answer, attributions: Sequence[Attribution], shuffled: Sequence[list[int]], output: int
    ) -> None:
        possible = answer.possible[output]
        self.output = output
        self.orders = [each.order(output) for each in attributions]
        self.orders += [[word for word in order if possible[word]] for order in shuffled]
        count = int(possible.sum())
        self.removed = tuple(range(1, count)[:: max(1, -(-(count - 1) // POINTS))])

    def sets(self) -> Iterator[frozenset[int]]:
        return (frozenset(order[:size]) for order in self.orders for size in self.removed)
