"""A language model under requests that arrive at random: in flight, in batches that end together, one after another.

    python benchmarks/prompt_flight.py                  # a GPT of 4 layers, 256 wide, with 8,000 pieces
    python benchmarks/prompt_flight.py --law 300        # that many requests in flight get what they get alone

Every request has a prompt of 3 to 60 words, 16 to 128 tokens to write, and a search of its own: greedy, a nucleus, or
top-k, with its own seed. Requests arrive by a Poisson process; the clock is virtual, as in `flight.py`. Load 1.0 is
what `Generator.generate` answers one after another without a pause, as `foveate serve` did before. The weights are
random, because the time does not depend on them, except that embeddings are scaled so that samples are about as sharp
as those of a trained model. `--text` tokens are told by decoding the whole text after each token, and a few tokens.
"""

import argparse
import collections
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import race
from flight import BATCH, WINDOW, Clock, poisson, summary, verses

LOADS = (0.8, 1.0, 3.0)
WAITING = 1.5
"""The load up to which requests are also answered one after another: beyond, the queue grows for ever."""
VOCAB, SHARPER = 8000, 20.0
PLACES = (1, 3, 8, 32)


class Wish(NamedTuple):
    """A request."""

    prompt: str
    length: int
    config: Any


Arrivals = list[tuple[float, Wish]]


def wishes(count: int, seed: int) -> list[Wish]:
    from foveate.decode import GreedyConfig, SampleConfig

    draw, words = random.Random(seed), " ".join(verses()).split()
    made = []
    for number in range(count):
        start, size = draw.randrange(len(words) - 60), draw.randint(3, 60)
        search = (
            GreedyConfig(),
            SampleConfig(temperature=0.8, top_p=0.95, seed=number),
            SampleConfig(temperature=draw.choice((0.7, 1.0)), top_k=40, seed=number),
        )[number % 3]
        made.append(Wish(" ".join(words[start : start + size]), draw.randint(16, 128), search))
    return made


def writer() -> Any:
    """A language model with random weights."""
    import torch

    from foveate import Generator
    from foveate.data.tokeniser import SentencePieceConfig
    from foveate.models import GPTConfig

    torch.manual_seed(0)
    model = GPTConfig().build(VOCAB).eval()
    with torch.no_grad():
        model.embedding.weight.mul_(SHARPER)
    return Generator(model, SentencePieceConfig(vocab_size=VOCAB).train(verses()[:20_000]))


def one_by_one(generator: Any, arrivals: Arrivals) -> tuple[list[float], float]:
    """Every request alone, in the order of their coming."""
    clock, delays = Clock(), []
    for moment, wish in arrivals:
        clock.wait_until(moment)
        generator.generate(wish.prompt, config=wish.config, length=wish.length)
        delays.append(clock.now() - moment)
    return delays, clock.now()


def in_flight(generator: Any, arrivals: Arrivals, *, together: bool = False) -> tuple[list[float], float]:
    """Requests that join those that are being answered; `together` only while there are none, after `WINDOW`."""
    from foveate.tasks.language_model.continuation_flight import ContinuationFlight

    clock, queue, delays = Clock(), collections.deque(enumerate(arrivals)), []
    flight = ContinuationFlight(generator, capacity=BATCH)
    while queue or flight.busy:
        if not flight.busy:
            clock.wait_until(queue[0][1][0] + WINDOW * together)
        room = 0 if together and flight.busy else BATCH if together else len(queue)
        now = clock.now()
        while queue and queue[0][1][0] <= now and room:
            number, (_, wish) = queue.popleft()
            flight.admit([number], [wish.prompt], config=wish.config, length=wish.length)
            room -= 1
        complete = [int(str(addition.name)) for addition in flight.tick() if addition.complete is not None]
        delays += [clock.now() - arrivals[number][0] for number in complete]
    return delays, clock.now()


MANNERS: dict[str, Callable[[Any, Arrivals], tuple[list[float], float]]] = {
    "one after another": one_by_one,
    "in batches": lambda generator, arrivals: in_flight(generator, arrivals, together=True),
    "in flight": in_flight,
}


def loads(arguments: argparse.Namespace, generator: Any) -> list[dict[str, Any]]:
    """All manners under every load, in turns; medians over the seeds."""
    every = wishes(400, 0)
    for manner in MANNERS.values():
        manner(generator, [(0.0, wish) for wish in every[:4]])
    at_once = [(0.0, wish) for wish in every[: arguments.closed]]
    tokens, rows = sum(wish.length for _, wish in at_once), list[dict[str, Any]]()
    speed = {name: tokens / manner(generator, at_once)[1] for name, manner in MANNERS.items()}
    print("tokens in a CPU second without a pause:", ", ".join(f"{name} {each:.0f}" for name, each in speed.items()))
    most = speed["one after another"] * len(at_once) / tokens
    print(f"Load 1.0 is {most:.1f} requests in a CPU second.\n", flush=True)
    print("| load | manner | p50, ms | p95, ms | answers within 1 s, a second |\n|---|---|---|---|---|", flush=True)
    for load in arguments.loads:
        names = [name for name in MANNERS if load <= WAITING or name != "one after another"]
        results: dict[str, list[dict[str, float]]] = {name: [] for name in names}
        for seed in range(arguments.seeds):
            arrivals: Any = poisson(every, load * most, arguments.seconds, seed)  # type: ignore[arg-type]
            for name in sorted(names, reverse=bool(seed % 2)):
                results[name].append(summary(MANNERS[name](generator, arrivals), arguments.seconds))
        for name, each in results.items():
            middle = {key: statistics.median(row[key] for row in each) for key in each[0]}
            print(
                f"| {load} | {name} | {middle['p50']:.0f} | {middle['p95']:.0f} | {middle['goodput']:.1f} |", flush=True
            )
            rows.append({"load": load, "manner": name, "median": middle, "seeds": each})
    return [{"tokens a second": speed, "capacity": most, "loads": rows}]


def law(generator: Any, count: int) -> dict[str, Any]:
    """Compare the texts of requests in flight, at several capacities, with those of the same requests alone."""
    from foveate.tasks.language_model.continuation_flight import ContinuationFlight

    draw, every, different = random.Random(0), wishes(count, 1), []
    for places in PLACES:
        flight = ContinuationFlight(generator, capacity=places)
        part, complete = list(range(PLACES.index(places), count, len(PLACES))), dict[int, Any]()
        while part or flight.busy:
            size = draw.randrange(9)
            for number in part[:size]:
                wish = every[number]
                flight.admit([number], [wish.prompt], config=wish.config, length=wish.length)
            part = part[size:]
            for _ in range(draw.randrange(1, 30)):
                complete |= {
                    int(str(addition.name)): addition.complete
                    for addition in flight.tick()
                    if addition.complete is not None
                }
        for number, continuation in complete.items():
            wish = every[number]
            [alone] = generator.generate(wish.prompt, config=wish.config, length=wish.length)
            if (alone.text, alone.hypothesis.tokens) != (continuation.text, continuation.hypothesis.tokens):
                different.append(number)
        print(f"capacity {places}: {len(complete):,} requests", file=sys.stderr, flush=True)
    return {"requests": count, "different": different}


def text(generator: Any, count: int) -> dict[str, Any]:
    """CPU seconds of telling this many tokens one by one."""
    draw = random.Random(0)
    read, tokens = generator.ids("It is"), [draw.randrange(260, VOCAB) for _ in range(count)]
    start = time.thread_time()
    for size in range(1, count + 1):
        generator.text_after(read, tokens[:size])
    whole = time.thread_time() - start
    running, start = generator.running(read), time.thread_time()
    for token in tokens:
        running.add(token)
    parts = time.thread_time() - start
    print(f"{count:,} tokens told one by one: {whole:.2f} CPU s by decoding all each time, {parts:.3f} by a few")
    return {"tokens": count, "all": whole, "a few": parts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=6.0, help="of arrivals")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--closed", type=int, default=64, help="requests that measure the capacity")
    parser.add_argument("--loads", type=float, nargs="*", default=list(LOADS))
    parser.add_argument("--text", type=int, default=2000, help="tokens that are told one by one")
    parser.add_argument("--law", type=int, default=0, help="compare this many requests instead")
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    generator = writer()
    if arguments.law:
        results: Any = law(generator, arguments.law)
        print(json.dumps(results, indent=1))
    else:
        results = {"loads": loads(arguments, generator), "text": text(generator, arguments.text)}
    machine, settings = race.machine(1), race.settings(arguments)
    name = "prompt-flight-law" if arguments.law else "prompt-flight"
    print(f"kept in {race.save(name, {'machine': machine, 'settings': settings, 'results': results})}")


if __name__ == "__main__":
    main()
