"""The self-test of `foveate doctor`: some seconds in which a machine shows that explain = run on it."""

import itertools
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from foveate.attention import Attention
from foveate.attention.paths import PATHS
from foveate.attention.position import Positions
from foveate.attention.score import (
    AdditiveConfig,
    Dot,
    GatConfig,
    GatV2Config,
    GeneralConfig,
    ScaledDot,
    ScoreConfig,
)
from foveate.attention.visibility import Visibility, causal, edges, everything, padding, window

FACTOR = 8.0
"""The largest error that a path may have, in multiples of the reference's own rounding: sums are in another order, the
formula is the same."""
FLOOR = {"float32": 1e-6, "bfloat16": 1e-2, "autocast": 1e-2}
"""One rounding of a number around 1, with some room, for cases in which the reference happens to be exact. Under
autocast numbers are float32 and products bfloat16."""
DIM = 16
"""The dimension of a head: the narrowest that every path takes."""
NODES, LENGTHS = 17, (0, 5, 17)


class Case(NamedTuple):
    """An attention to be run by every path that accepts it."""

    score: ScoreConfig
    rule: Visibility
    queries: int
    precisions: tuple[str, ...] = ("float32", "bfloat16")


def cases() -> Iterator[Case]:
    """Sequences by every score and kind of rule, graphs, and some of them under autocast."""
    rules = (everything(), causal(), padding(), causal() & padding(), window(left=3, right=1), ~causal())
    scores: tuple[ScoreConfig, ...] = (Dot(), ScaledDot(), GeneralConfig(), AdditiveConfig(hidden_dim=16))
    for rule, score, queries in itertools.product(rules, scores, (NODES, 3)):
        yield Case(score, rule, queries)
    graph = edges([[0, 3, 16, 2, 2, 9, 11], [1, 1, 1, 4, 16, 9, 0]], self_loops=False)
    of_nodes: tuple[ScoreConfig, ...] = (ScaledDot(), AdditiveConfig(hidden_dim=16), GatConfig(), GatV2Config())
    for score in of_nodes:
        yield Case(score, graph, NODES)
    yield Case(GatV2Config(), everything(), NODES)
    for score, rule in itertools.product(of_nodes[:2], (causal(), padding())):
        yield Case(score, rule, NODES, ("autocast",))


@dataclass(frozen=True)
class Outcome:
    """The result of the self-test."""

    cases: int
    worst: float
    seconds: float
    failures: tuple[str, ...]
    runs: Mapping[str, int] = field(default_factory=dict)
    """The number of times that each path ran."""

    @property
    def passed(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        if self.failures:
            return f"FAILED on {len(self.failures)} of {self.cases} cases, first: {self.failures[0]}"
        return (
            f"explain = run in {self.cases} cases, largest float32 difference {self.worst:.1e} "
            f"({self.seconds:.1f} seconds)"
        )

    def listing(self) -> str:
        """The number of times that each path ran, the largest first; paths that accepted nothing come last."""
        ranked = sorted(self.runs.items(), key=lambda run: -run[1])
        return ", ".join(f"{name} {f'{count} times' if count else 'never'}" for name, count in ranked)


@torch.no_grad()
def self_test(device: torch.device | str = "cpu") -> Outcome:
    """Every path that accepts, over scores, rules of sequences and graphs, and types of numbers.

    Errors are distances from the reference in float64; a path's may be `FACTOR` times the reference's own at
    the same precision.
    """
    started, worst, failures = time.perf_counter(), 0.0, []
    runs = Counter({path.name: 0 for path in PATHS})
    generator = torch.Generator().manual_seed(0)
    lengths = torch.tensor(LENGTHS, device=device)
    for case in cases():
        sizes = (case.queries, NODES, NODES)
        inputs = [torch.randn(len(LENGTHS), 2, n, DIM, generator=generator).to(device) for n in sizes]
        at = Positions.of(case.queries, NODES, query_start=NODES - case.queries, key_lengths=lengths)
        built = case.score.build(query_dim=DIM, key_dim=DIM, num_heads=2)
        attention = Attention(built, visibility=case.rule).to(device)
        exact = attention.double().explain(*(tensor.double() for tensor in inputs), at=at).context
        for precision in case.precisions:
            dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
            attention, typed = attention.to(dtype), [tensor.to(dtype) for tensor in inputs]
            autocast = precision == "autocast"
            with torch.autocast(torch.device(device).type, dtype=torch.bfloat16, enabled=autocast):
                reference = attention.explain(*typed, at=at).context
                allowed = max(FACTOR * _error(reference, exact), FLOOR[precision])
                for path in attention.paths:
                    if path.refuses(attention, typed[0], typed[1], at):
                        continue
                    runs[path.name] += 1
                    context = path.run(attention, *typed, at=at, key_features=None, dropout=0.0)
                    difference = _error(context, exact)
                    worst = max(worst, difference) if precision == "float32" else worst
                    if not difference <= allowed:
                        failures.append(
                            f"{path.name}, {case.score}, {case.rule}, {precision}: difference {difference:.1e}, "
                            f"allowed {allowed:.1e}"
                        )
    return Outcome(runs.total(), worst, time.perf_counter() - started, tuple(failures), runs)


def _error(context: Tensor, exact: Tensor) -> float:
    return float((context.double() - exact).abs().max())
