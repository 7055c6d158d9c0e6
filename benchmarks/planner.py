"""Does the planner choose well? Every accepting path is timed on a grid of attentions that calibration has not seen.

foveate doctor --calibrate --threads 1
python benchmarks/planner.py --threads 1 --cases 200                     # about five minutes
python benchmarks/planner.py --threads 1 --long                          # 2,000 to 16,000 keys: about three minutes
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import race
import torch
from torch.nn.functional import scaled_dot_product_attention

from foveate import machine
from foveate.attention import ScaledDot, calibration, causal, everything, padding, planner, window
from foveate.attention.probe import Case, case

WITHIN = 1.1
TORCH = "torch's SDPA alone"
MOST, LEAST = 25, 0.1
"""Rounds at most, where fewer took less than so many seconds."""
LONGEST = 0.5
"""Seconds; a path that should take longer than this, and much longer than the fastest, is not timed."""
LONG = (
    ((4, 1, 4096, 4096, 64), everything(), torch.float32, True),
    ((4, 1, 4096, 4096, 64), padding(), torch.float32, True),
    ((4, 1, 4096, 4096, 64), everything(), torch.float32, False),
    ((1, 1, 8192, 8192, 64), everything(), torch.float32, True),
    ((1, 1, 8192, 8192, 64), padding(), torch.float32, False),
    ((1, 1, 4096, 4096, 64), everything(), torch.float32, True),
    ((1, 1, 4096, 4096, 64), everything(), torch.float32, False),
    ((1, 1, 4096, 4096, 64), everything(), torch.bfloat16, True),
    ((1, 1, 4096, 4096, 64), padding(), torch.bfloat16, False),
    ((1, 8, 4096, 4096, 64), everything(), torch.float32, True),
    ((1, 8, 4096, 4096, 32), padding(), torch.float32, False),
    ((1, 4, 4096, 4096, 64), causal(), torch.float32, True),
    ((1, 4, 4096, 4096, 64), causal() & padding(), torch.float32, False),
    ((2, 2, 2048, 2048, 64), everything(), torch.float32, True),
    ((1, 8, 2048, 2048, 64), padding(), torch.float32, True),
    ((1, 1, 1, 16384, 64), everything(), torch.float32, False),
)
"""Attentions beyond the lengths of the grid."""


def cases(count: int) -> Iterator[Case]:
    rng = random.Random(2024)
    made = 0
    while made < count:
        queries = rng.choice([1, 7, 16, 24, 40, 60, 100, 180, 256, 400, 700, 1024, 1500, 3000])
        keys = queries if rng.random() < 0.75 else rng.choice([12, 33, 64, 200, 480, 900])
        heads, dim = rng.choice([(1, 256), (4, 64), (8, 32), (8, 64), (6, 96)])
        batch = rng.choice([1, 4, 16, 64])
        if batch * heads * queries * keys * dim > 2e9:
            continue
        reach = rng.choice([16, 64, 200, 500])
        rule = rng.choice([everything(), causal(), padding(), causal() & padding(), window(left=reach, right=0)])
        rule = rng.choice([rule, window(left=reach, right=reach)])
        additive = rng.random() < 0.15 and batch * heads * queries * keys * dim < 1.5e8
        dtype = torch.float32 if additive else rng.choice([torch.float32, torch.bfloat16])
        made += 1
        yield case(
            (batch, heads, queries, keys, dim), rule, dtype, rng.random() < 0.6, "additive" if additive else "dot"
        )


def timed(probe: Case, rounds: int) -> dict[str, float]:
    """CPU seconds of every path that is not hopeless, and of torch's SDPA alone, under torch's own switches; they take
    turns, and the fastest of each counts.
    """
    query, key, at = probe.placed
    jobs = {} if probe.attention.score != ScaledDot() else {TORCH: torch_alone(probe)}
    expected = {
        path: planner.seconds(path, probe.attention, query, key, at, training=probe.training)
        for path in probe.accepting()
    }
    worth = max(LONGEST, calibration.HOPELESS * min(expected.values()))
    for path, soon in expected.items():
        if soon < worth and path.cost(probe.attention, query, key, at).bytes < calibration.LARGEST["cpu"]:
            jobs[path.name] = probe.run(path)
    took = dict.fromkeys(jobs, float("inf"))
    turns, begun = 0, time.perf_counter()
    with torch.set_grad_enabled(probe.training):
        while turns <= rounds or (turns < MOST and time.perf_counter() - begun < LEAST):
            for name, job in jobs.items():
                with machine.small_products() if name == TORCH else nullcontext():
                    started = time.process_time()
                    job()
                    if turns:
                        took[name] = min(took[name], time.process_time() - started)
            turns += 1
    return took


def torch_alone(probe: Case) -> Callable[[], object]:
    """What a user of torch writes: no rule to evaluate, its mask is there; what no query sees is not looked after."""
    query, key, value = probe.inputs
    rule, at = probe.attention.visibility, probe.at
    triangle = rule == causal() and at.aligned
    mask = None if triangle or rule == everything() else rule(at).expand(query.shape[0], -1, query.shape[2], -1)

    def forward() -> torch.Tensor:
        return scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=triangle)

    def training() -> None:
        forward().sum().backward()

    return training if probe.training else forward


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--long", action="store_true", help="long sequences instead of the grid")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    known = machine.tune().rates
    print("rates of this machine" if known else "default rates: foveate doctor --calibrate measures this machine's")
    regrets, beside_sdpa, beside_torch, rows = [], [], [], []
    for probe in (case(*kind) for kind in LONG) if arguments.long else cases(arguments.cases):
        query, key, _ = probe.inputs
        with torch.set_grad_enabled(probe.training):
            chosen = probe.attention.plan(query, key, at=probe.at).chosen
        took = timed(probe, arguments.rounds)
        alone = took.pop(TORCH, None)
        regret = took[chosen] / min(took.values())
        regrets.append(regret)
        if "sdpa" in took:
            beside_sdpa.append(took[chosen] / took["sdpa"])
        if alone is not None:
            beside_torch.append(took[chosen] / alone)
        shape = (*query.shape[:3], key.shape[2], query.shape[3])
        rule, dtype = str(probe.attention.visibility), str(query.dtype).removeprefix("torch.")
        rows.append(
            {
                "shape": shape,
                "rule": rule,
                "dtype": dtype,
                "training": probe.training,
                "chosen": chosen,
                "seconds": took,
            }
        )
        if regret > WITHIN:
            best = min(took, key=lambda name: took[name])
            mode = "training" if probe.training else "inference"
            print(f"{regret:5.2f} × {best:12} instead: {chosen:12} {shape} {rule} {dtype} {mode}", flush=True)
    good = sum(regret <= WITHIN for regret in regrets) / len(regrets)
    print(
        f"within 10 % of the best: {good:.1%} of {len(regrets)}; "
        f"median {statistics.median(regrets):.3f}, worst {max(regrets):.2f}"
    )
    print(
        f"slower than the sdpa path by more than 10 %: {sum(r > WITHIN for r in beside_sdpa)} of {len(beside_sdpa)}; "
        f"median against torch's SDPA alone {statistics.median(1 / r for r in beside_torch):.2f} × as fast, "
        f"slower than it by more than 10 % in {sum(r > WITHIN for r in beside_torch)}"
    )
    where = race.save(
        "planner-long" if arguments.long else "planner", {"machine": race.machine(arguments.threads), "rows": rows}
    )
    print(f"kept in {where.name}")


if __name__ == "__main__":
    main()
