"""Two seconds in which a machine shows that explain = run on it."""

import itertools
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from foveate.attention.attention import Attention
from foveate.attention.position import Positions
from foveate.attention.score import AdditiveConfig, Dot, GeneralConfig, ScaledDot, ScoreConfig
from foveate.attention.visibility import causal, everything, padding, window

FACTOR = 8.0
"""How much worse than the reference's own rounding a path may be: another order of summation, never another formula."""
FLOOR = {torch.float32: 1e-6, torch.bfloat16: 1e-2}
"""One rounding of a number around 1, with some room, for cases in which the reference happens to be exact."""


@dataclass(frozen=True)
class Outcome:
    """What the self-test found."""

    cases: int
    worst: float
    seconds: float
    failures: tuple[str, ...]

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


@torch.no_grad()
def self_test(device: torch.device | str = "cpu") -> Outcome:
    """Every path that accepts, over scores, visibilities and dtypes.

    Errors are distances from the reference in float64; a path's may be `FACTOR` times the reference's own in its dtype.
    """
    started, worst, failures, cases = time.perf_counter(), 0.0, [], 0
    generator = torch.Generator().manual_seed(0)
    rules = (everything(), causal(), padding(), causal() & padding(), window(left=3, right=1), ~causal())
    scores: tuple[ScoreConfig, ...] = (Dot(), ScaledDot(), GeneralConfig(), AdditiveConfig(hidden_dim=16))
    lengths = torch.tensor([0, 5, 17], device=device)
    for rule, score, (queries, keys) in itertools.product(rules, scores, ((17, 17), (3, 17))):
        inputs = [torch.randn(3, 2, n, 8, generator=generator).to(device) for n in (queries, keys, keys)]
        at = Positions.of(queries, keys, query_start=keys - queries, key_lengths=lengths)
        built = score.build(query_dim=8, key_dim=8, num_heads=2)
        attention = Attention(built, visibility=rule).to(device)
        exact = _context(attention.double(), [tensor.double() for tensor in inputs], at)
        for dtype, floor in FLOOR.items():
            attention, typed = attention.to(dtype), [tensor.to(dtype) for tensor in inputs]
            allowed = max(FACTOR * _error(_context(attention, typed, at), exact), floor)
            for path in attention.paths:
                if path.refuses(attention, typed[0], typed[1], at):
                    continue
                cases += 1
                context = path.run(attention, *typed, at=at, key_features=None, dropout=0.0)
                difference = _error(context, exact)
                worst = max(worst, difference) if dtype == torch.float32 else worst
                if not difference <= allowed:
                    failures.append(
                        f"{path.name}, {score}, {rule}, {dtype}: difference {difference:.1e}, allowed {allowed:.1e}"
                    )
    return Outcome(cases, worst, time.perf_counter() - started, tuple(failures))


def _error(context: Tensor, exact: Tensor) -> float:
    return float((context.double() - exact).abs().max())


def _context(attention: nn.Module, inputs: list[Tensor], at: Positions) -> Tensor:
    assert isinstance(attention, Attention)
    return attention.explain(*inputs, at=at).context
