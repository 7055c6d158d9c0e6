"""Forms batches of several directions of translation, with a share for each."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int, Integer

from foveate.data.batching import BatchPlan


def tempered(counts: Sequence[int], temperature: float) -> list[int]:
    """Numbers with the same sum, in the proportions of count^(1 / temperature), each at least 1.

    >>> tempered([900, 100], 1.0), tempered([900, 100], 5.0), tempered([900, 100], 1e9)
    ([900, 100], [608, 392], [500, 500])

    Reference: Arivazhagan et al. 2019, "Massively Multilingual Neural Machine Translation in the Wild", section 4.2.
    """
    logarithms = np.log(np.asarray(counts, np.float64)) / temperature
    shares: Float[np.ndarray, " groups"] = np.exp(logarithms - logarithms.max())
    exact = shares / shares.sum() * (sum(counts) - len(counts))
    numbers = np.floor(exact).astype(np.int64)
    left = sum(counts) - len(counts) - int(numbers.sum())
    numbers[np.argsort(numbers - exact, kind="stable")[:left]] += 1
    return (numbers + 1).tolist() if temperature != 1 else list(counts)


class BalancedPlan:
    """Batches of single directions, each formed by a `BatchPlan` of its own, whose order is shuffled.

    A round has as many batches as an epoch over all pairs, and directions have shares of it by the temperature: with 1
    each pair occurs once, larger values bring the shares closer together. A direction goes on in its own epochs, so
    that all of its pairs are read before one is read again. The examples of a step follow from (seed, step) alone.

    Raises DataError like `BatchPlan`.
    """

    def __init__(
        self,
        source_lengths: Int[np.ndarray, " examples"],
        target_lengths: Int[np.ndarray, " examples"],
        directions: Integer[np.ndarray, " examples"],
        *,
        temperature: float,
        max_tokens: int,
        seed: int,
        lines: Integer[np.ndarray, " examples"] | None = None,
    ) -> None:
        self.seed = seed
        self._members = [np.flatnonzero(directions == direction) for direction in np.unique(directions)]
        self._plans = [
            BatchPlan(
                source_lengths[members],
                target_lengths[members],
                max_tokens=max_tokens,
                seed=seed,
                lines=None if lines is None else lines[members],
                shard=number,
            )
            for number, members in enumerate(self._members)
        ]
        self._shares = tempered([plan.steps_per_epoch for plan in self._plans], temperature)
        self._round: tuple[int, np.ndarray, np.ndarray] | None = None

    @property
    def steps_per_epoch(self) -> int:
        return sum(self._shares)

    def examples(self, step: int) -> Int[np.ndarray, " rows"]:
        """The numbers of the examples of a step. Steps are counted over all rounds."""
        number, place = divmod(step, self.steps_per_epoch)
        order, turns = self._arrangement(number)
        direction = int(order[place])
        turn = number * self._shares[direction] + int(turns[place])
        return self._members[direction][self._plans[direction].examples(turn)]

    def _arrangement(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """The direction of each batch of a round, and how many of it were before. The last result is kept."""
        if self._round is None or self._round[0] != number:
            generator = np.random.default_rng([self.seed % (1 << 64), number])
            order = generator.permutation(np.repeat(np.arange(len(self._shares)), self._shares))
            turns = np.empty_like(order)
            for direction, share in enumerate(self._shares):
                turns[order == direction] = np.arange(share)
            self._round = number, order, turns
        return self._round[1:]
