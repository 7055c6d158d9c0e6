"""Forms batches of several directions of translation, with a share for each."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int, Integer

from foveate.data.batching import BatchPlan


def tempered(counts: Sequence[int], temperature: float, factors: Sequence[float] | None = None) -> list[int]:
    """Numbers with the same sum, in the proportions of factor · count^(1 / temperature), each at least 1.

    >>> tempered([900, 100], 1.0), tempered([900, 100], 5.0), tempered([900, 100], 1e9)
    ([900, 100], [608, 392], [500, 500])
    >>> tempered([900, 100], 1.0, [1.0, 9.0])
    [500, 500]

    Reference: Arivazhagan et al. 2019, "Massively Multilingual Neural Machine Translation in the Wild", section 4.2.
    Factors are ours.
    """
    factors = [1.0] * len(counts) if factors is None else factors
    if temperature == 1 and len(set(factors)) <= 1:
        return list(counts)
    logarithms = np.log(np.asarray(counts, np.float64)) / temperature + np.log(np.asarray(factors, np.float64))
    shares: Float[np.ndarray, " groups"] = np.exp(logarithms - logarithms.max())
    exact = shares / shares.sum() * (sum(counts) - len(counts))
    numbers = np.floor(exact).astype(np.int64)
    left = sum(counts) - len(counts) - int(numbers.sum())
    numbers[np.argsort(numbers - exact, kind="stable")[:left]] += 1
    return (numbers + 1).tolist()


class BalancedPlan:
    """Batches of single directions, each formed by a `BatchPlan` of its own, whose order is shuffled.

    A round has as many batches as an epoch over all pairs, and directions have shares of it by the temperature: with 1
    each pair occurs once, larger values bring the shares closer together. `factors` by the number of a direction
    multiply its share. A direction goes on in its own epochs, so
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
        factors: Mapping[int, float] | None = None,
        max_tokens: int,
        seed: int,
        lines: Integer[np.ndarray, " examples"] | None = None,
    ) -> None:
        self.seed = seed
        present = np.unique(directions).tolist()
        self._members = [np.flatnonzero(directions == direction) for direction in present]
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
        counts = [plan.steps_per_epoch for plan in self._plans]
        self._shares = tempered(counts, temperature, [(factors or {}).get(direction, 1.0) for direction in present])
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
