"""Attentions to measure paths on: some that models are made of, and as many more as there is time for, at random."""

import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from foveate.attention.attention import Attention
from foveate.attention.configuration import AttentionConfig
from foveate.attention.efficient import LinearConfig, PerformerConfig, ReformerConfig
from foveate.attention.mechanism import MechanismConfig
from foveate.attention.paths.path import Path
from foveate.attention.position import Positions
from foveate.attention.score import Additive, AdditiveConfig
from foveate.attention.visibility import (
    Visibility,
    bigbird,
    causal,
    edges,
    everything,
    longformer,
    padding,
    window,
)

Size = tuple[int, int, int, int, int]
"""Batch, heads, queries, keys, head_dim."""
Kind = tuple[Size, Visibility, torch.dtype, bool, str]
"""Size, rule, number type, whether it trains, the formula."""
ADDITIVE: tuple[Size, ...] = (
    (1, 1, 1, 20, 64),
    (5, 1, 1, 40, 256),
    (20, 1, 1, 30, 128),
    (100, 1, 1, 12, 128),
    (50, 1, 1, 40, 256),
    (80, 1, 1, 30, 512),
    (8, 1, 5, 30, 128),
    (32, 1, 24, 24, 256),
    (8, 4, 40, 40, 32),
    (8, 1, 64, 64, 256),
    (4, 1, 256, 256, 128),
    (1, 1, 1000, 1000, 64),
)
EFFICIENT: tuple[Size, ...] = ((16, 8, 32, 32, 32), (8, 8, 128, 128, 64), (2, 8, 512, 512, 64), (1, 8, 1500, 1500, 64))
LONG: tuple[Size, ...] = ((1, 1, 4500, 4500, 64), (2, 4, 2500, 2500, 64))
"""Beyond what is drawn: there, what does not fit into the cache is slow."""
GRAPHS: tuple[Size, ...] = ((1, 8, 200, 200, 16), (1, 4, 1000, 1000, 32), (1, 8, 2700, 2700, 8))
LARGE_ADDITIVE: tuple[Size, ...] = ((32, 1, 64, 64, 512), (8, 1, 1024, 1024, 256), (1, 8, 4096, 4096, 64))
"""For GPUs only."""
MODES = ((torch.float32, False), (torch.float32, True), (torch.bfloat16, False), (torch.bfloat16, True))
FORMULAS: dict[str, MechanismConfig] = {
    "dot": AttentionConfig(),
    "additive": AttentionConfig(score=AdditiveConfig()),
    "linear": LinearConfig(),
    "performer": PerformerConfig(),
    "reformer": ReformerConfig(),
}
OFTEN = 6
"""Of so many attentions one is not of dot products, until those are through."""
MOST = {"cpu": (1.5e9, 3e7), "cuda": (5e12, 2e9)}
"""Multiply-adds, and numbers of queries and keys, beyond which no attention is drawn."""


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
        return [path for path in self.attention.paths if not path.refuses(self.attention, *self.placed)]

    def run(self, path: Path) -> Callable[[], object]:
        """One call of this path: the forward pass, and the backward when training. What an additive score makes of the
        keys is there: it takes every path the same, and would hide in what they differ.
        """
        features = self._key_features()

        def forward() -> Tensor:
            query, key, at = self.placed
            return path.run(self.attention, query, key, self.inputs[2], at=at, key_features=features, dropout=0.0)

        def training() -> None:
            context = forward()
            context.backward(torch.ones_like(context))
            for tensor in (*self.inputs, *self.attention.parameters(), *([] if features is None else [features])):
                tensor.grad = None

        return training if self.training else forward

    @torch.no_grad()
    def _key_features(self) -> Tensor | None:
        """As a decoder's steps find them."""
        score = self.attention.score
        return score.key_features(self.inputs[1]).requires_grad_(self.training) if isinstance(score, Additive) else None


def cases(seed: int = 0, *, device: str = "cpu") -> Iterator[Case]:
    """Attentions without end, in random order, so that any beginning covers all kinds."""
    rng = random.Random(seed)
    others = other_kinds(device)
    rng.shuffle(others)
    for number in itertools.count():
        if number % OFTEN == 0 and others:
            yield case(*others.pop(), device=device)
        yield case(*drawn(rng, device), device=device)


def drawn(rng: random.Random, device: str = "cpu") -> Kind:
    """Dot products of a size, a rule, a number type and a mode: sizes are even in their logarithms."""
    products, numbers = MOST[device]
    while True:
        queries = 1 if rng.random() < 0.1 else _between(rng, 2, 4096 if device == "cpu" else 16384)
        keys = queries if rng.random() < 0.7 else _between(rng, 4, 4096)
        batch, heads = _between(rng, 1, 100), rng.choice((1, 2, 4, 6, 8, 12, 16))
        dim = rng.choice((16, 32, 64, 64, 96, 128, 256))
        if batch * heads * queries * keys * dim < products and batch * heads * (queries + keys) * dim < numbers:
            break
    reach = _between(rng, 8, 1024)
    padded, windowed = causal() & padding(), window(left=reach, right=0)
    rules = (everything(), causal(), padding(), padded, padded, windowed, window(left=reach, right=reach))
    sparse = (longformer(window=64, tokens=2), bigbird(block=32))
    rule = rng.choice(sparse if rng.random() < 0.1 else rules)
    return ((batch, heads, queries, keys, dim), rule, *rng.choice(MODES), "dot")


def other_kinds(device: str = "cpu") -> list[Kind]:
    """Other formulas, long sequences, and graphs; larger ones on GPUs."""
    additive = ADDITIVE if device == "cpu" else ADDITIVE + LARGE_ADDITIVE
    others: list[Kind] = [(size, padding(), *mode, "additive") for size, mode in itertools.product(additive, MODES)]
    rules, kinds = (padding(), causal()), ("linear", "performer", "reformer")
    others += [
        (size, rule, *mode, kind) for size, rule, mode, kind in itertools.product(EFFICIENT, rules, MODES[:2], kinds)
    ]
    others += [(size, graph(size[2]), *mode, "dot") for size, mode in itertools.product(GRAPHS, MODES)]
    rule = everything(), causal() & padding()
    others += [(size, rule[number % 2], *mode, "dot") for number, size in enumerate(LONG) for mode in MODES]
    return others


def _between(rng: random.Random, least: int, most: int) -> int:
    """Even in its logarithm."""
    return round(math.exp(rng.uniform(math.log(least), math.log(most))))


def graph(nodes: int) -> Visibility:
    """Eight edges for each node, at random."""
    drawn = torch.randint(nodes, (2, 8 * nodes), generator=torch.Generator().manual_seed(nodes))
    return edges(drawn.unique(dim=1), self_loops=True)


def case(
    size: Size,
    rule: Visibility,
    dtype: torch.dtype,
    training: bool,
    formula: str = "dot",
    *,
    device: str = "cpu",
) -> Case:
    """One attention of this size with random inputs."""
    batch, heads, queries, keys, dim = size
    generator = torch.Generator().manual_seed(sum(size))

    def tensor(length: int) -> Tensor:
        drawn = torch.randn(batch, heads, length, dim, generator=generator)
        return drawn.to(device, dtype).requires_grad_(training)

    lengths = torch.randint(max(keys // 2, 1), keys + 1, (batch,), generator=generator).to(device)
    at = Positions.of(queries, keys, query_start=max(keys - queries, 0), device=device)
    if rule not in (everything(), causal()):
        padded = Positions.of(queries, keys, key_lengths=lengths)
        at = replace(at, real=padded.real)
    built = FORMULAS[formula].build(query_dim=dim, key_dim=dim, num_heads=heads, visibility=rule, kind="self")
    assert isinstance(built, Attention)
    return Case(built.to(device, dtype), (tensor(queries), tensor(keys), tensor(keys)), at, training)
