"""Batches in flight beside batches that are decoded to their end, under requests that arrive at random.

    python benchmarks/flight.py                     # the translator that comes with foveate, beam 4 and greedy
    python benchmarks/flight.py --trace mixed       # half of the requests are short strings of an interface
    python benchmarks/flight.py --law 10000         # that many sentences in flight give what they give alone

Requests arrive by a Poisson process. The clock is virtual: it is the CPU time of this thread, and jumps to the next
arrival when nothing is to do, so that other programs on the machine matter less. Batches wait 5 ms for company and
hold up to 32 sentences; a flight has 32 places. Load 1.0 is what batches of 32 translate in a closed loop. The goodput
counts answers within a second. Beyond the capacity both are also measured with a deadline: batches do not take requests
that have waited for a second, and a flight drops them.
"""

import argparse
import collections
import itertools
import json
import lzma
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import race

TREE = Path(__file__).resolve().parents[1]
VERSES, STRINGS = TREE / "examples/data/verses.tsv.xz", TREE / "viewer/src/strings/en.json"
WINDOW, BATCH, SOON, STEPS = 0.005, 32, 1.0, 4
"""Seconds that a batch waits for company, its sentences, the seconds of a good answer, and the tokens that a flight
writes between two looks at what has come."""
LOADS = (0.5, 0.8, 1.0, 1.3)
PLACES = {1: 0.01, 5: 0.09, 16: 0.4, 64: 0.5}
"""Capacities of flights, and their shares of the sentences whose tokens are compared."""
SHORT, LONG = 10, 200
"""Characters of the verses."""
Arrivals = list[tuple[float, str]]
Run = tuple[list[float], float]
"""The delay of every answer, and the seconds until the last one."""


class Clock:
    """CPU seconds of this thread, and those that were skipped because nothing was to do."""

    def __init__(self) -> None:
        self.skipped = -time.thread_time()

    def now(self) -> float:
        return time.thread_time() + self.skipped

    def wait_until(self, moment: float) -> None:
        self.skipped += max(0.0, moment - self.now())


def verses() -> list[str]:
    """Both English columns."""
    with lzma.open(VERSES, "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    return [line[column] for column in (2, 1) for line in lines if SHORT < len(line[column]) < LONG]


def mixed() -> list[str]:
    """As many strings of the viewer's interface as verses."""
    strings = [
        text for text in _strings(json.loads(STRINGS.read_text(encoding="utf-8"))) if any(map(str.isalpha, text))
    ]
    long = verses()
    return [*long, *itertools.islice(itertools.cycle(strings), len(long))]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _strings(part)


TRACES = {"verses": verses, "mixed": mixed}


def in_batches(translator: Any, config: Any, arrivals: Arrivals, deadline: float) -> Run:
    """Requests in batches, each decoded to its end."""
    clock, queue, delays = Clock(), collections.deque(arrivals), []
    while queue:
        clock.wait_until(queue[0][0] + WINDOW)
        batch, now = [], clock.now()
        while queue and len(batch) < BATCH and queue[0][0] <= now:
            moment, text = queue.popleft()
            if now - moment < deadline:
                batch.append((moment, text))
            else:
                delays.append(math.inf)
        translator.translate([text for _, text in batch], config=config)
        delays += [clock.now() - moment for moment, _ in batch]
    return delays, clock.now()


def in_flight(translator: Any, config: Any, arrivals: Arrivals, deadline: float) -> Run:
    """Requests in a batch that they join and leave."""
    from foveate.tasks.translate.translation_flight import TranslationFlight

    clock, queue, delays = Clock(), collections.deque(enumerate(arrivals)), []
    flight, waiting = TranslationFlight(translator, config, capacity=BATCH), dict[int, float]()
    while queue or flight.busy:
        if not flight.busy:
            clock.wait_until(queue[0][1][0])
        here, now = [], clock.now()
        while queue and queue[0][1][0] <= now:
            here.append(queue.popleft())
        flight.admit([number for number, _ in here], [text for _, (_, text) in here])
        waiting |= {number: moment for number, (moment, _) in here}
        late = [number for number, moment in waiting.items() if now - moment >= deadline]
        flight.drop(late)
        delays += [math.inf] * len(late)
        complete = [int(str(name)) for name, _ in flight.tick(STEPS)]
        delays += [clock.now() - arrivals[number][0] for number in complete]
        for number in (*late, *complete):
            del waiting[number]
    return delays, clock.now()


MANNERS: dict[str, Callable[[Any, Any, Arrivals, float], Run]] = {"batches": in_batches, "in flight": in_flight}


def poisson(texts: list[str], rate: float, seconds: float, seed: int) -> Arrivals:
    """Moments and texts of requests at this rate."""
    draw, moment, arrivals = random.Random(seed), 0.0, list[tuple[float, str]]()
    while (moment := moment + draw.expovariate(rate)) < seconds:
        arrivals.append((moment, draw.choice(texts)))
    return arrivals


def capacity(translator: Any, config: Any, texts: list[str], count: int) -> float:
    """Sentences in a CPU second in batches of 32, as they come."""
    chosen = random.Random(0).sample(texts, count)
    translator.translate(chosen[:BATCH], config=config)
    start = time.thread_time()
    for first in range(0, count, BATCH):
        translator.translate(chosen[first : first + BATCH], config=config)
    return count / (time.thread_time() - start)


def summary(run: Run, seconds: float) -> dict[str, float]:
    """Quantiles of the delays of answers in milliseconds, and good answers in a second."""
    delays, end = sorted(delay for delay in run[0] if delay < math.inf), max(run[1], seconds)
    quantiles = {f"p{share}": 1000 * delays[min(len(delays) - 1, len(delays) * share // 100)] for share in (50, 95)}
    return {
        **quantiles,
        "goodput": sum(delay <= SOON for delay in delays) / end,
        "requests": len(run[0]),
        "answers": len(delays),
    }


def loads(arguments: argparse.Namespace, translator: Any, configs: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Both manners under every load, in turns; medians over the seeds."""
    texts = TRACES[arguments.trace]()
    for name, config in configs.items():
        most = capacity(translator, config, texts, arguments.closed)
        print(f"\n{name}: batches of {BATCH} translate {most:.1f} sentences in a CPU second", flush=True)
        print("| load | manner | p50, ms | p95, ms | answers within 1 s, a second |\n|---|---|---|---|---|", flush=True)
        for load in arguments.loads:
            deadlines = (math.inf, SOON) if load > 1 else (math.inf,)
            cases = {
                manner + (", one second" if deadline < math.inf else ""): (manner, deadline)
                for deadline in deadlines
                for manner in MANNERS
            }
            rows: dict[str, list[dict[str, float]]] = {case: [] for case in cases}
            for seed in range(arguments.seeds):
                arrivals = poisson(texts, load * most, arguments.seconds, seed)
                for case in sorted(cases, reverse=bool(seed % 2)):
                    manner, deadline = cases[case]
                    run = MANNERS[manner](translator, config, arrivals, deadline)
                    rows[case].append(summary(run, arguments.seconds))
            for case, each in rows.items():
                middle = {key: statistics.median(row[key] for row in each) for key in each[0]}
                delays = " | ".join(f"{middle[key]:.0f}" for key in ("p50", "p95"))
                print(f"| {load} | {case} | {delays} | {middle['goodput']:.1f} |", flush=True)
                yield {
                    "config": name,
                    "capacity": most,
                    "load": load,
                    "manner": case,
                    "median": middle,
                    "seeds": each,
                }


def law(translator: Any, config: Any, count: int, single: int) -> dict[str, Any]:
    """Compare the tokens of sentences in flight, at several capacities, with those of the same sentences alone."""
    from foveate.tasks.translate.translation_flight import TranslationFlight

    draw, texts = random.Random(0), verses()[:count]
    order = list(range(len(texts)))
    draw.shuffle(order)
    differences, deviation, dropped, complete = list[str](), 0.0, set[int](), dict[int, Any]()
    for places, share in PLACES.items():
        size = round(share * len(texts))
        part, order = order[:size], order[size:]
        flight = TranslationFlight(translator, config, capacity=places)
        while part or flight.busy:
            size = draw.randrange(17)
            here, part = part[:size], part[size:]
            flight.admit(here, [texts[number] for number in here])
            if here and draw.random() < 0.05:
                dropped.add(here[0])
                flight.drop(here[:1])
            for _ in range(draw.randrange(1, 9)):
                complete |= {int(str(name)): translation for name, translation in flight.tick()}
        print(f"capacity {places}: {len(complete):,} sentences so far", file=sys.stderr, flush=True)
    numbers = sorted(complete)
    alone = set(draw.sample(numbers, min(single, len(numbers))))
    together = [number for number in numbers if number not in alone]
    expected = {number: translator.translate(texts[number], config=config) for number in sorted(alone)}
    translations = translator.translate([texts[number] for number in together], config=config)
    expected |= dict(zip(together, translations, strict=True))
    for number, translation in complete.items():
        mine, theirs = translation.hypotheses, expected[number].hypotheses
        if [best.tokens for best in mine] != [best.tokens for best in theirs]:
            differences.append(texts[number])
        else:
            deviation = max([deviation, *(abs(a.score - b.score) for a, b in zip(mine, theirs, strict=True))])
    return {
        "sentences": len(complete),
        "dropped": len(dropped),
        "compared with those decoded alone": len(alone),
        "compared with ordinary batches": len(together),
        "different": differences,
        "largest difference of scores": deviation,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--run", default="en-fr", help="a translator's folder, or the name of one that comes with foveate"
    )
    parser.add_argument("--trace", choices=list(TRACES), default="verses", help="the texts of the requests")
    parser.add_argument("--seconds", type=float, default=20.0, help="of arrivals")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--closed", type=int, default=320, help="sentences that measure the capacity")
    parser.add_argument("--loads", type=float, nargs="*", default=list(LOADS))
    parser.add_argument("--beams", type=int, nargs="*", default=[4, 1])
    parser.add_argument("--law", type=int, default=0, help="compare this many sentences instead")
    parser.add_argument("--single", type=int, default=500, help="of these, sentences that are decoded alone")
    arguments = parser.parse_args()
    import torch

    from foveate import Translator
    from foveate.decode import BeamConfig, GreedyConfig

    torch.set_num_threads(1)
    translator = Translator.load(arguments.run)
    configs = {
        "greedy" if beam == 1 else f"beam {beam}": GreedyConfig() if beam == 1 else BeamConfig(beam=beam)
        for beam in arguments.beams
    }
    if arguments.law:
        results: Any = {
            name: law(translator, config, arguments.law, arguments.single) for name, config in configs.items()
        }
        print(json.dumps(results, indent=1, ensure_ascii=False))
    else:
        results = list(loads(arguments, translator, configs))
    machine, settings = race.machine(1), race.settings(arguments)
    name = "flight-law" if arguments.law else "flight"
    print(f"kept in {race.save(name, {'machine': machine, 'settings': settings, 'results': results})}")


if __name__ == "__main__":
    main()
