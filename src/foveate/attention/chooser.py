"""The rules that choose the path: the first one that applies and whose path accepts decides. Nothing is measured while
a program runs.

The gains are ratios of CPU time by `benchmarks/chooser.py`, on one thread of an AMD EPYC (AVX-512) and of an Intel Xeon
(AMX), 21 and 22 November 2026. Over six sets of random attentions the chosen paths take 0.5 to 5 % longer in total than
the best of each; those of a regression over measured times, which these rules replaced, 1.4 to 10 %. Rules for GPUs
follow from what kernels skip, and have not been measured.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import NamedTuple

import torch
from torch import Tensor, nn

from foveate import machine, native
from foveate.attention.paths import PATHS
from foveate.attention.paths.path import Formula, Path
from foveate.attention.position import Positions
from foveate.attention.score.form import terms
from foveate.attention.visibility import TRIANGLE

FEW = 512
"""Keys up to which a path may keep all scores."""
SMALL = 30_000
"""Pairs up to which one call of torch's kernel takes less time than several products."""
SMALL_ROWS = 1000
"""The same in rows of keys, which that kernel takes time for in bfloat16."""
LARGE = 50_000
"""Pairs from which products of matrices outweigh what is done around them."""
VAST = 2_000_000
"""Pairs from which it pays to leave out half of those of a few keys."""
ROOM = 2**29
"""Bytes that scores may take in training where another path keeps none."""


class Call:
    """The facts that the rules ask about one call, as far as sizes and the names of the parts tell."""

    def __init__(self, formula: Formula, query: Tensor, key: Tensor, at: Positions, *, training: bool) -> None:
        batch, heads, self.queries, dim = query.shape
        rule = formula.visibility
        self.formula, self.keys, self.training = formula, key.shape[2], training
        self.few = self.keys <= FEW
        self.pairs = batch * heads * self.queries * self.keys
        self.rows = batch * heads * self.keys
        self.learns = training and isinstance(formula.bias, nn.Module)
        """Whether gradients of a bias are wanted."""
        self.large = self.pairs >= LARGE and dim >= 64
        self.light, self.on_cpu = query.dtype == torch.bfloat16, query.device.type == "cpu"
        self.amx = self.light and self.on_cpu and native.has_tiles()
        self.slow_products = not self.light and self.on_cpu and machine.has_slow_products()
        """Whether torch's products of float32 matrices use half of the processor."""
        known = not rule.hides or (at.aligned and rule.band == TRIANGLE)
        self.masked = formula.bias is not None or not known
        """Whether torch's kernel would read a number for every pair."""
        self.band = min(rule.width / max(self.keys, 1), 1.0)
        """The share of pairs that lie in the rule's band."""
        dense = self.band == 1.0 and rule.ahead >= self.keys
        self.unhidden = dense and (not self.masked or (self.light and training))
        """Whether little is hidden, such as padding, by a mask that costs little beside the products."""
        self.by_key = not rule.reads_query_position
        """Whether the rule hides the same keys from all queries."""
        self.narrow = not self.few and self.band < (0.15 if self.amx else 0.5)

    @property
    def small(self) -> bool:
        """Whether one call of torch's kernel, with a mask, takes less time than several products."""
        if self.training and (self.light or self.learns):
            return self.pairs <= 1000
        return self.pairs <= SMALL and self.few and (not self.light or self.rows <= SMALL_ROWS)

    @property
    def fits(self) -> bool:
        """Whether all scores, and what they are made of, may be kept."""
        return self.pairs * terms(self.formula.score) * (6 if self.light else 8) <= ROOM

    @property
    def halved(self) -> bool:
        """Whether tiles may compute half of the pairs only. With a bias that learns they keep all weights."""
        many = not self.few or (self.pairs >= VAST and self.keys >= FEW // 2)
        return many and self.queries == self.keys and (self.fits or not self.learns)


class Rule(NamedTuple):
    """The path that should be the fastest for the calls that the rule applies to."""

    path: str
    gain: float | None
    """The time of the path of the next rule that applies, divided by the time of this path, over all attentions of the
    benchmark that this rule decides; None where there are none."""
    because: str
    applies: Callable[[Call], bool] = lambda call: True


class Choice(NamedTuple):
    """The path that runs, and why."""

    path: Path
    because: str


# fmt: off
RULES = (
    Rule("edges", 9.4, "few pairs of more than 500 nodes are edges",
         lambda call: call.keys > 500),
    Rule("sdpa", 2.3, "AMX multiplies bfloat16 in torch's kernel",
         lambda call: call.amx and not call.training and call.keys >= 256 and call.band > 0.25),
    Rule("product", 1.9, "AMX multiplies bfloat16 in plain products",
         lambda call: call.amx and call.training and call.few and call.large and call.band > 0.3),
    Rule("product", 1.3, "products of large matrices, with little hidden",
         lambda call: call.few and call.large and call.unhidden and not call.slow_products),
    Rule("short", 1.8, f"up to {FEW} keys, one kernel computes everything",
         lambda call: call.few),
    Rule("additive", 24, "one kernel sums the hidden units of each pair, without a tensor of them"),
    Rule("sdpa", 1.2, "so few pairs take less time in one call of torch than in several",
         lambda call: call.small),
    Rule("flex", None, "it skips blocks that nobody sees, where SDPA reads a mask",
         lambda call: call.on_cpu or (call.masked and not call.by_key and not call.few)),
    Rule("banded", 2.0, "a query sees less than half of the keys",
         lambda call: call.narrow),
    Rule("tiled", 1.2, "tiles leave out half of the pairs, which torch's kernel does not",
         lambda call: call.halved and not call.amx and (call.masked or (call.light and call.training))),
    Rule("product", 1.6, "torch's kernel has slow gradients in bfloat16 and for up to 128 queries",
         lambda call: call.training and call.fits and (call.queries <= 128 or (call.light and not call.amx))),
    Rule("product", 1.4, f"up to {FEW} keys, products take less time than torch's kernel",
         lambda call: call.few and call.fits and not call.slow_products),
    Rule("sdpa", 1.4, "torch's kernel keeps no scores"),
    Rule("tiled", None, "pairs that nobody sees are left out",
         lambda call: not call.few),
    Rule("materialised", 1.2, f"all scores fit into {ROOM >> 20} MiB",
         lambda call: call.fits),
    Rule("chunked", None, f"all scores at once would take more than {ROOM >> 20} MiB"),
    Rule("materialised", None, "it accepts every attention"),
)
# fmt: on
OWN = "it was added for such attentions, and accepts"
REST = "no rule names another path that accepts"
ONLY = "no other path was given"


def choose(
    paths: Sequence[Path], formula: Formula, query: Tensor, key: Tensor, at: Positions, *, training: bool
) -> Choice:
    """The path that runs: one that is not among `PATHS`, if it accepts and pays, or else by the first rule.

    Raises ValueError, with the reasons of all, where no path accepts.
    """

    def accepts(path: Path) -> bool:
        return not path.refuses(formula, query, key, at)

    for path in paths:
        pays = getattr(path, "pays", _always)
        if type(path) not in SHIPPED and accepts(path) and pays(formula, query, key, at):
            return Choice(path, OWN)
    if len(paths) == 1 and accepts(paths[0]):
        return Choice(paths[0], ONLY)
    named, call = {path.name: path for path in paths}, Call(formula, query, key, at, training=training)
    for rule in RULES:
        if rule.path in named and rule.applies(call) and accepts(named[rule.path]):
            return Choice(named[rule.path], rule.because)
    for path in paths:
        if accepts(path):
            return Choice(path, REST)
    reasons = "; ".join(f"{path.name}: {', '.join(path.refuses(formula, query, key, at))}" for path in paths)
    raise ValueError(f"No path accepts this attention ({reasons}). Add `materialised`, which accepts every one.")


def _always(*_: object) -> bool:
    return True


SHIPPED = frozenset(map(type, PATHS))
"""Paths that the rules know."""


@dataclass(frozen=True)
class PlannedPath:
    """The answer of one path to an attention of this size."""

    name: str
    reasons: tuple[str, ...]
    """Why it refuses; empty where it accepts."""
    flops: float
    """Floating-point operations of the forward pass; NaN where the path has no `cost`."""
    bytes: float
    """Memory beyond inputs and output, at the peak; NaN where the path has no `cost`."""


@dataclass(frozen=True)
class Plan:
    """The path that runs, and why the others do not."""

    chosen: str
    because: str
    """The attention in words."""
    paths: tuple[PlannedPath, ...]
    rule: str
    """Why the path was chosen among those that accept."""

    def __str__(self) -> str:
        """One line: the path, the attention, the rule, and why the others do not run."""
        accepting = [path.name for path in self.paths if not path.reasons and path.name != self.chosen]
        refusing = [f"{path.name} refused: {', '.join(path.reasons)}" for path in self.paths if path.reasons]
        others = [f"{', '.join(accepting)} would do, too"] if accepting else []
        return f"{self.chosen} ({'; '.join([self.because, self.rule, *others, *refusing])})"

    def table(self) -> str:
        """A line for each path, the chosen one first: arithmetic and memory, or why it refuses."""
        ranked = sorted(self.paths, key=lambda path: (path.name != self.chosen, bool(path.reasons)))
        width = max(len(path.name) for path in ranked)
        lines = []
        for path in ranked:
            mark, rule = ("→", f"  {self.rule}") if path.name == self.chosen else (" ", "")
            answer = f"refuses: {', '.join(path.reasons)}" if path.reasons else f"{_numbers(path)}{rule}"
            lines.append(f"{mark} {path.name:{width}}  {answer}")
        return "\n".join(lines)


def _numbers(path: PlannedPath) -> str:
    if isnan(path.flops):
        return f"{'':33}"
    return f"{path.flops / 1e6:10.1f} MFLOP  {path.bytes / 2**20:8.1f} MiB"
