"""What batches in flight can gain over batches that end together: a simulation with the costs of the kernels.

    python benchmarks/flight_queue.py

Requests arrive by a Poisson process at shares of what batches of 32 translate without a pause. A step costs the same in
both manners, and so does the encoder; the difference is only who waits for whom, and Python around the kernels. The
costs are those of the translator `en-fr` on one thread (`docs/log.md`, "Flights in C++").
"""

import argparse
import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import race

BATCH, WINDOW = 32, 5.0
"""Sentences of a batch, and the milliseconds that it waits for company."""
STEPS = 4
"""Tokens between two looks at what has come."""
DELAY = 4
"""Looks that a sentence waits for shorter ones, for each of its tokens."""
TEXT = 0.12
"""Milliseconds for the tokens and the text of a sentence, in both manners."""


@dataclass(frozen=True)
class Costs:
    """Milliseconds of a step, which are linear in its rows, and of a look and a boarding in Python."""

    beam: int
    step: float
    row: float
    look: float = 0.05
    boarding: float = 0.1

    def steps(self, sentences: int) -> float:
        return self.step + self.row * self.beam * sentences


@dataclass(frozen=True)
class Sentence:
    moment: float
    source: int
    target: int


def encoder(sentences: list[Sentence]) -> float:
    return 0.25 + 0.036 * sum(each.source for each in sentences)


def arrivals(rate: float, seconds: float, seed: int) -> list[Sentence]:
    """Requests whose lengths are those of English verses: 20 tokens on average, 4 to 60."""
    draw, moment, sentences = random.Random(seed), 0.0, list[Sentence]()
    while (moment := moment + draw.expovariate(rate / 1000)) < 1000 * seconds:
        source = max(4, min(60, int(draw.lognormvariate(3.0, 0.5))))
        sentences.append(Sentence(moment, source, max(4, int(1.2 * source * draw.uniform(0.8, 1.2)))))
    return sentences


def in_batches(sentences: list[Sentence], costs: Costs) -> list[float]:
    """The delay of every answer."""
    now, first, delays = 0.0, 0, list[float]()
    while first < len(sentences):
        now = max(now, sentences[first].moment + WINDOW)
        batch = [each for each in sentences[first : first + BATCH] if each.moment <= now]
        first += len(batch)
        now += encoder(batch) + TEXT * len(batch)
        for step in range(max(each.target for each in batch)):
            now += costs.steps(sum(each.target > step for each in batch))
        delays += [now - each.moment for each in batch]
    return delays


def in_flight(sentences: list[Sentence], costs: Costs, places: int, gather: int, patience: int) -> list[float]:
    """The delay of every answer."""
    now, first, looks, delayed, delays = 0.0, 0, 0, 0, list[float]()
    queue, flying = list[tuple[float, Sentence]](), list[tuple[int, Sentence]]()
    while first < len(sentences) or queue or flying:
        if not queue and not flying:
            now = max(now, sentences[first].moment)
        while first < len(sentences) and sentences[first].moment <= now:
            queue.append((looks + DELAY * sentences[first].source, sentences[first]))
            first += 1
        queue.sort(key=lambda each: each[0])
        looks += 1
        count = min(places - len(flying), len(queue))
        delayed = delayed + 1 if count else 0
        if count and (count >= gather or not flying or delayed > patience):
            boarding, queue, delayed = [each for _, each in queue[:count]], queue[count:], 0
            now += encoder(boarding) + costs.boarding
            flying += [(each.target, each) for each in boarding]
        now += costs.look
        for _ in range(STEPS):
            now += costs.steps(len(flying))
            flying = [(left - 1, each) for left, each in flying]
            if min(flying, key=lambda each: each[0])[0] <= 0:
                break
        done = [each for left, each in flying if left <= 0]
        flying = [(left, each) for left, each in flying if left > 0]
        now += TEXT * len(done)
        delays += [now - each.moment for each in done]
    return delays


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8.0, help="of arrivals")
    parser.add_argument("--seeds", type=int, default=8)
    arguments = parser.parse_args()
    results = []
    print("| search | load | manner | p50, ms | p95, ms |\n|---|---|---|---|---|")
    for name, costs in {"beam 4": Costs(4, 0.2, 0.05), "greedy": Costs(1, 0.22, 0.055)}.items():
        free = Costs(costs.beam, costs.step, costs.row, 0.0, 0.0)
        crowd = [Sentence(0.0, each.source, each.target) for each in arrivals(100.0, 6.4, 0)]
        most = 1000 * len(crowd) / max(in_batches(crowd, costs))
        flying: Any = partial(in_flight, places=BATCH, gather=4, patience=2)
        manners: dict[str, Callable[[list[Sentence]], list[float]]] = {
            "batches": partial(in_batches, costs=costs),
            "in flight, 4 or 2 looks": partial(flying, costs=costs),
            "in flight, at once": partial(flying, costs=costs, gather=1, patience=1),
            "in flight, 8 places": partial(flying, costs=costs, places=8),
            "in flight, no Python": partial(flying, costs=free),
        }
        for load in (0.5, 0.8, 1.0):
            for manner, run in manners.items():
                sorted_delays = [
                    sorted(run(arrivals(load * most, arguments.seconds, seed))) for seed in range(arguments.seeds)
                ]
                p50, p95 = (
                    statistics.median(delays[len(delays) * share // 100] for delays in sorted_delays)
                    for share in (50, 95)
                )
                print(f"| {name} | {load} | {manner} | {p50:.0f} | {p95:.0f} |", flush=True)
                results.append({"search": name, "load": load, "manner": manner, "p50": p50, "p95": p95})
    settings = race.settings(arguments)
    print(f"kept in {race.save('flight-queue', {'settings': settings, 'results': results})}")


if __name__ == "__main__":
    main()
