"""Do the rules choose well? Every accepting path is timed on attentions drawn at random, and the choices are judged.

python benchmarks/chooser.py --cases 200                     # up to 512 queries and keys: about four minutes
python benchmarks/chooser.py --cases 60 --long               # 2,000 to 16,000: about six minutes
python benchmarks/chooser.py --judge results/chooser-*.json  # judges the rules again by times that were kept

Seconds are CPU time on one thread, the least of many rounds in which the paths take turns. The attentions follow from
the seed alone, so that a file of times serves for other rules too.
"""

import argparse
import json
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as File
from typing import Any

import race
import torch
from torch import Tensor

from foveate import machine
from foveate.attention import (
    AdditiveConfig,
    Alibi,
    Attention,
    AttentionConfig,
    CosineConfig,
    Dot,
    Entmax,
    GatConfig,
    GatV2Config,
    GeneralConfig,
    Path,
    Positions,
    RelativeBuckets,
    ReLU,
    ScaledDot,
    ShawRelativeConfig,
    Sigmoid,
    Softmax,
    Sparsemax,
    Visibility,
    bigbird,
    causal,
    edges,
    everything,
    longformer,
    padding,
    window,
)
from foveate.attention.score import Additive

WITHIN = 1.1
MOST = {"short": 2e8, "long": 6e9}
"""Multiply-adds beyond which no attention is drawn."""
LARGEST = 2**29
"""Bytes beyond which a path is not tried."""
HOPELESS = 3.0
"""A path that takes so many times as long as the fastest in its first call is not timed again."""
PATIENCE, LEAST, OFTENEST = 0.25, 2, 30
"""Seconds for the rounds of one attention, and how many rounds at least and at most."""
Chooser = Callable[["Case", Sequence[Path]], str]


@dataclass(frozen=True)
class Case:
    """One attention with its inputs."""

    attention: Attention
    inputs: tuple[Tensor, Tensor, Tensor]
    at: Positions
    training: bool

    @property
    def placed(self) -> tuple[Tensor, Tensor, Positions]:
        """Queries and keys as paths meet them, and where they stand."""
        return self.attention._placed(*self.inputs, self.at)

    def accepting(self) -> list[Path]:
        with torch.set_grad_enabled(self.training):
            return [path for path in self.attention.paths if not path.refuses(self.attention, *self.placed)]

    def call(self, path: Path) -> Callable[[], object]:
        """One call of this path: the forward pass, and the backward when training. What an additive score makes of the
        keys is there: it takes every path the same, and a decoder's steps find it made.
        """
        query, key, at = self.placed
        features = None
        if isinstance(self.attention.score, Additive):
            with torch.no_grad():
                features = self.attention.score.key_features(key).requires_grad_(self.training)

        def forward() -> Tensor:
            return path.run(self.attention, query, key, self.inputs[2], at=at, key_features=features, dropout=0.0)

        def training() -> None:
            context = forward()
            context.backward(torch.ones_like(context))
            for tensor in (*self.inputs, *self.attention.parameters(), *([] if features is None else [features])):
                tensor.grad = None

        return training if self.training else forward

    def __str__(self) -> str:
        query, key, _ = self.inputs
        shape = "×".join(map(str, (*query.shape[:3], key.shape[2], query.shape[3])))
        kv_heads = "" if query.shape[1] == key.shape[1] else f" ({key.shape[1]} key heads)"
        parts = [type(self.attention.score).__name__, self.attention.visibility, self.attention.normaliser]
        parts += [] if self.attention.bias is None else [type(self.attention.bias).__name__]
        mode = "training" if self.training else "inference"
        return f"{shape}{kv_heads} {' + '.join(map(str, parts))} {str(query.dtype)[6:]} {mode}"


def cases(count: int, *, long: bool, seed: int) -> Iterator[Case]:
    rng = random.Random(f"{seed} {long}")
    made = 0
    while made < count:
        case = drawn(rng, long=long)
        if case is not None:
            made += 1
            yield case


def drawn(rng: random.Random, *, long: bool) -> Case | None:
    """An attention of a size, score, rule, normaliser, bias, number type and mode; None where it is too large."""
    dtype, training = rng.choice((torch.float32, torch.bfloat16)), rng.random() < 0.55
    batch, heads = _between(rng, 1, 4 if long else 96), rng.choice((1, 2, 4, 6, 8, 12, 16))
    keys = _between(rng, 2048, 16384) if long else _between(rng, 2, 512)
    queries = keys if rng.random() < 0.75 else rng.choice((1, 1, _between(rng, 2, keys)))
    dim = rng.choice((16, 32, 64, 64, 96, 128))
    family = rng.choice(("dot",) * 12 + ("additive",) * 3 + ("graph",) * 2 + ("other",) * 2)
    reach = _between(rng, 8, 1024)
    padded = causal() & padding()
    rules = (everything(), everything(), padding(), padding(), causal(), causal(), padded, padded)
    rules += (window(left=reach, right=0), window(left=reach, right=0) & padding(), window(left=reach, right=reach))
    rule: Visibility = rng.choice((*rules, longformer(window=64, tokens=2), bigbird(block=32)))
    bias = rng.choice((None,) * 6 + ("alibi", "buckets"))
    normaliser = rng.choice((Softmax(),) * 3 + (Sparsemax(), Entmax(), ReLU(), Sigmoid()))
    cost, seed = float(batch * heads * queries * keys * dim), rng.randrange(2**30)
    if cost > MOST["long" if long else "short"] or (family in ("additive", "other") and cost > 1e9):
        return None
    generator = torch.Generator().manual_seed(seed)
    score: Any = rng.choice((ScaledDot(),) * 8 + (Dot(), GeneralConfig(), CosineConfig()))
    if family == "additive":
        score, bias = AdditiveConfig(), None
    elif family == "graph":
        queries, bias = keys, None
        score, rule = rng.choice((score, score, AdditiveConfig(), GatConfig(), GatV2Config())), _graph(keys, generator)
    elif family == "other":
        score = rng.choice((score, ShawRelativeConfig(), GatV2Config()))
    if family != "other":
        normaliser = Softmax()
    built = AttentionConfig(score=score).build(query_dim=dim, key_dim=dim, num_heads=heads, visibility=rule)
    biases = {"alibi": Alibi, "buckets": lambda **sizes: RelativeBuckets(bidirectional=True, **sizes)}
    attention = Attention(
        built.score,
        visibility=rule,
        normaliser=normaliser,
        bias=None if bias is None else biases[bias](num_heads=heads),
    ).to(dtype)

    def tensor(heads: int, length: int) -> Tensor:
        return torch.randn(batch, heads, length, dim, generator=generator).to(dtype).requires_grad_(training)

    kv_heads = heads if family != "dot" or rng.random() < 0.8 else 1
    lengths = torch.randint(max(keys // 2, 1), keys + 1, (batch,), generator=generator)
    at = Positions.of(queries, keys, query_start=max(keys - queries, 0))
    if "padding" in str(rule):
        at = replace(at, real=Positions.of(queries, keys, key_lengths=lengths).real)
    return Case(attention, (tensor(heads, queries), tensor(kv_heads, keys), tensor(kv_heads, keys)), at, training)


def _between(rng: random.Random, least: int, most: int) -> int:
    """Even in its logarithm."""
    return round(math.exp(rng.uniform(math.log(least), math.log(most))))


def _graph(nodes: int, generator: torch.Generator) -> Visibility:
    """Eight edges for each node, at random."""
    return edges(torch.randint(nodes, (2, 8 * nodes), generator=generator).unique(dim=1), self_loops=True)


def timed(case: Case) -> dict[str, float]:
    """CPU seconds of every accepting path, infinite for those that are too large; the hopeless ones ran once."""
    took: dict[str, float] = {}
    calls = {}
    with torch.set_grad_enabled(case.training):
        for path in case.accepting():
            large = path.cost(case.attention, *case.placed).bytes > LARGEST
            took[path.name] = math.inf
            if not large:
                calls[path.name] = case.call(path)
                calls[path.name]()
                took[path.name] = _clocked(calls[path.name])
        fastest = min(took.values())
        calls = {name: call for name, call in calls.items() if took[name] < HOPELESS * fastest}
        rounds, begun = 0, time.perf_counter()
        while rounds < LEAST or (rounds < OFTENEST and time.perf_counter() - begun < PATIENCE):
            for name, call in calls.items():
                took[name] = min(took[name], _clocked(call))
            rounds += 1
    return took


def _clocked(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def chosen(case: Case, accepting: Sequence[Path]) -> str:
    """What the package chooses."""
    query, key, _ = case.inputs
    with torch.set_grad_enabled(case.training):
        return case.attention.plan(query, key, at=case.at).chosen


CHOOSERS: dict[str, Chooser] = {"rules": chosen}


def judged(rows: Sequence[Mapping[str, Any]]) -> str:
    """How much longer choices take than the best path: over all attentions and over parts of them."""
    parts: dict[str, Callable[[Mapping[str, Any]], bool]] = {
        "all": lambda row: True,
        "inference": lambda row: not row["training"],
        "training": lambda row: row["training"],
        "float32": lambda row: row["dtype"] == "float32",
        "bfloat16": lambda row: row["dtype"] == "bfloat16",
    }
    lines = []
    for part, belongs in parts.items():
        mine = [row for row in rows if belongs(row)]
        for name in mine[0]["chosen"] if mine else ():
            times = [(row["seconds"][row["chosen"][name]], min(row["seconds"].values())) for row in mine]
            regrets = [one / best for one, best in times]
            total = sum(one for one, _ in times) / sum(best for _, best in times)
            good = sum(regret <= WITHIN for regret in regrets) / len(regrets)
            lines.append(
                [
                    part,
                    str(len(mine)),
                    name,
                    f"{total:.3f}",
                    f"{statistics.mean(regrets):.3f}",
                    f"{statistics.median(regrets):.3f}",
                    f"{good:.0%}",
                    f"{max(regrets):.2f}",
                ]
            )
    return race.table(["part", "cases", "chooser", "total", "mean", "median", "within 10 %", "worst"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--long", action="store_true", help="2,000 to 16,000 queries and keys")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--judge", type=File, nargs="+", help="files of times to judge the rules by")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    machine.tune()
    if arguments.judge:
        for file in arguments.judge:
            print(file.name, again(json.loads(file.read_text())), sep="\n")
        return
    rows = []
    for case in cases(arguments.cases, long=arguments.long, seed=arguments.seed):
        accepting = case.accepting()
        choices = {name: choose(case, accepting) for name, choose in CHOOSERS.items()}
        took = timed(case)
        dtype = str(case.inputs[0].dtype)[6:]
        rows.append({"case": str(case), "training": case.training, "dtype": dtype, "chosen": choices, "seconds": took})
        _remark(rows[-1])
    print(judged(rows))
    result = {"machine": race.machine(1), "long": arguments.long, "seed": arguments.seed, "rows": rows}
    print(f"kept in {race.save('chooser-long' if arguments.long else 'chooser', result).name}")


def again(kept: Mapping[str, Any]) -> str:
    """The same attentions and their times, judged by what is chosen now."""
    rows = []
    for row, case in zip(kept["rows"], cases(len(kept["rows"]), long=kept["long"], seed=kept["seed"]), strict=True):
        assert row["case"] == str(case), "the attentions are drawn in another way now"
        choices = {**row["chosen"], **{name: choose(case, case.accepting()) for name, choose in CHOOSERS.items()}}
        rows.append({**row, "chosen": choices})
        _remark(rows[-1])
    return judged(rows)


def _remark(row: Mapping[str, Any]) -> None:
    """A line where a choice is not within 10 % of the best."""
    best = min(row["seconds"], key=lambda name: row["seconds"][name])
    for name, choice in row["chosen"].items():
        regret = row["seconds"][choice] / row["seconds"][best]
        if regret > WITHIN:
            print(f"{name:8} {regret:5.2f} × {best:12} instead: {choice:12} {row['case']}", flush=True)


if __name__ == "__main__":
    main()
