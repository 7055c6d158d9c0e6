"""Explain = run, for every path that accepts, over random products of the algebra; gradients included.

A path's error is not held against a guessed tolerance but against the reference's own error in the same dtype, both
measured against the same formula in float64.
"""

import copy
import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from foveate.attention import (
    AdditiveConfig,
    Alibi,
    Attention,
    Bias,
    CosineConfig,
    Dot,
    Entmax,
    GatConfig,
    GatV2Config,
    Gaussian,
    GeneralConfig,
    Hard,
    LocationAware,
    LocationAwareConfig,
    LocationConfig,
    Positions,
    PredictedCentre,
    QKNorm,
    RelativeBuckets,
    ReLU,
    Rotary,
    ScaledDot,
    ScoreConfig,
    ShawRelativeConfig,
    Sigmoid,
    Softmax,
    Sparsemax,
    Transform,
    Visibility,
    around,
    block,
    causal,
    chunk,
    dilated,
    edges,
    everything,
    global_tokens,
    neighbourhood,
    padding,
    prefix,
    random_blocks,
    record,
    same_segment,
    summary,
    window,
)
from foveate.attention.paths import PATHS, BandedPath, TiledPath, fused, materialised, pairwise
from foveate.attention.paths.path import share_heads
from foveate.attention.score import KeyedScore

CASES, CHUNKS = 8_000, 100
CUT = (*PATHS, BandedPath(tile=2), TiledPath(tile=2))
"""Short inputs would be one tile each."""
LONG = (*PATHS, BandedPath(tile=16), TiledPath(tile=16))
OFTEN = 24
"""Of the chunks, those that other laws look at too."""
FACTOR = 8.0
"""How much worse than the reference's own rounding a path may be: another order of summation, never another formula."""
FLOOR = {torch.float32: 2e-5, torch.bfloat16: 4e-2, torch.float16: 8e-3, torch.float64: 1e-13}
"""Rounding of sums of numbers around 1, for cases in which the reference happens to be exact; in bfloat16 and float16
ten to sixteen units in the last place, which gradients through a norm of vectors come to where they cancel."""
LIGHT = (torch.bfloat16, torch.float16)
SUMMED = {torch.bfloat16: 2.0**-6, torch.float16: 2.0**-9}
"""Some roundings of a sum that was made in float32; one made in half precision stops growing, far below."""


@dataclass(frozen=True)
class Case:
    attention: Attention
    query: Tensor
    key: Tensor
    value: Tensor
    at: Positions
    name: str
    keeps: bool = False
    """Whether a path is handed what the score makes of the keys."""

    @property
    def placed(self) -> tuple[Tensor, Tensor, Positions]:
        """Queries and keys as a path meets them."""
        return self.attention._placed(self.query, self.key, self.value, self.at)


def stretches(rng: random.Random) -> list[Visibility]:
    return [everything(), causal(), padding(), window(left=rng.randint(0, 3), right=rng.randint(0, 3))]


def rules(rng: random.Random, nodes: int = 9) -> Visibility:
    simple = stretches(rng)
    one, other = rng.choice(simple), rng.choice([*simple, *patterns(rng, nodes)])
    if rng.random() < 0.1:
        return graph(rng, nodes) & rng.choice([everything(), one, same_segment()])
    return rng.choice([one, one & other, one | other, one & ~other, ~one, one & other & padding()])


def patterns(rng: random.Random, nodes: int) -> list[Visibility]:
    left, right, size = rng.randint(0, 3), rng.randint(0, 3), rng.randint(1, 4)
    return [
        dilated(left=left, right=right, step=size),
        around(left=left, right=right),
        block(size),
        block(size, strided=True),
        chunk(size, left=rng.choice([left, math.inf]), right=right),
        summary(block=size, count=rng.randint(1, size)),
        global_tokens(rng.choice([left, [right, 5]])),
        random_blocks(block=size, count=right, seed=left),
        prefix(left),
        same_segment(),
        neighbourhood(columns=size, reach=(left, right)),
        graph(rng, nodes),
    ]


def graph(rng: random.Random, nodes: int) -> Visibility:
    """Random edges; where there are many nodes, half of the edges lead to or from one."""
    ends = [[rng.randint(0, nodes - 1) for _ in range(10 if nodes < 10 else 2 * nodes)] for _ in range(2)]
    if nodes > 10:
        ends[rng.randint(0, 1)][:nodes] = [3] * nodes
    return edges(ends, self_loops=rng.choice([True, False]))


def distance_bias(at: Positions) -> Tensor:
    return -0.3 * (at.query - at.key).abs().float()


PLACED = [
    CosineConfig(beta=3.0, learned=True),
    LocationConfig(max_length=1024),
    LocationAwareConfig(hidden_dim=4, channels=2, width=3),
    ShawRelativeConfig(radius=2),
    GatConfig(),
    GatV2Config(hidden_dim=3),
]
EQUAL = (Dot, CosineConfig, ShawRelativeConfig, GatConfig)
"""Scores that compare queries and keys of one width."""
NORMALISERS = [
    Softmax(temperature=0.5),
    Softmax(temperature=3.0),
    ReLU(),
    ReLU(normalised=False),
    Sigmoid(bias=-1.0),
    Sparsemax(),
    Entmax(),
    Entmax(alpha=1.2),
    Hard(mode="argmax"),
    Hard(mode="straight_through"),
]
SUMLESS = (ReLU(), ReLU(normalised=False), Sigmoid(bias=-1.0))
"""Whose rows need not sum to 1."""


def learned_bias(rng: random.Random, heads: int) -> Bias:
    buckets = RelativeBuckets(num_heads=heads, num_buckets=6, max_distance=8, bidirectional=rng.choice([True, False]))
    return rng.choice([buckets, Alibi(heads), Gaussian(sigma=2.5)])


def orders(rng: random.Random, dim: int) -> tuple[Transform, ...]:
    norm = QKNorm(head_dim=dim, norm=rng.choice(["l2", "rms"]), scale=3.0, eps=1e-3)
    if dim == 1:
        return (norm,)
    rotary = Rotary(base=100.0, dims=rng.choice([None, 2]), layout=rng.choice(["interleaved", "halves"]))
    return rng.choice([(rotary,), (rotary, norm), (norm, rotary)])


@pytest.fixture
def cut_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short inputs, too, are cut into blocks, and what long ones do not keep is computed again."""
    monkeypatch.setattr(materialised, "ROOM", 256)
    monkeypatch.setattr(pairwise, "ROOM", 64)
    monkeypatch.setattr(fused, "KEPT", 0)
    monkeypatch.setattr(fused, "AT_ONCE", 8)


def random_case(seed: int, *, long: bool = False) -> Case:
    rng = random.Random(seed)
    torch.manual_seed(seed)
    batch, kv_heads, group = rng.randint(1, 3), rng.choice([1, 2]), rng.choice([1, 1, 3])
    if long:
        batch, kv_heads, group = rng.choice([(1, 1, 1), (1, 1, 2), (2, 1, 1)])
    heads = kv_heads * group
    plain = rng.random() < 0.1  # what a kernel for short sequences takes: seldom met by chance
    keys, dim = rng.randint(1, 9), 16 if plain else rng.choice([1, 4, 8, 16])
    queries = rng.choice([keys, rng.randint(1, 7)])
    if long:
        keys = rng.randint(500, 540)
        queries = rng.choice([keys, keys, rng.randint(1, 600)])
    dtype = rng.choice([torch.float32, torch.float32, *LIGHT, torch.float64])
    additive = AdditiveConfig(hidden_dim=5)
    score = rng.choice([Dot(), ScaledDot(), ScaledDot(scale=0.7), GeneralConfig(), additive, additive, None])
    score = rng.choice(PLACED) if score is None else score
    score = rng.choice([ScaledDot(), GeneralConfig(), *PLACED[:2]]) if plain else score
    key_dim = dim if isinstance(score, EQUAL) else rng.choice([dim, 3])
    built = score.build(query_dim=dim, key_dim=key_dim, num_heads=rng.choice([1, heads]))
    normaliser = rng.choice([Softmax(), None])
    normaliser = rng.choice(NORMALISERS[:2] if plain else NORMALISERS) if normaliser is None else normaliser
    bias = rng.choice([None, None, distance_bias, None if dtype in LIGHT else learned_bias(rng, heads)])
    transforms = rng.choice([(), (), orders(rng, dim)]) if dim == key_dim else ()
    local, rule = rng.random() < 0.1 and not plain, rules(rng, keys if long else 9)
    if plain:
        bias, rule = None, rng.choice(stretches(rng)) & rng.choice(stretches(rng))
    attention = Attention(
        built,
        visibility=rule,
        bias=bias,
        normaliser=normaliser,
        transforms=transforms,
        centre=PredictedCentre(query_dim=dim, hidden_dim=3) if local else None,
        reweight=Gaussian(sigma=2.0) if local else None,
    )
    kinked = isinstance(score, GatConfig | GatV2Config)
    if local or kinked or (normaliser != Softmax() and not isinstance(normaliser, Softmax | Sigmoid)):
        dtype = torch.float64  # where a choice, a kink or an edge of a window falls depends on rounding
    attention = attention.to(dtype)
    lengths = torch.tensor([rng.randint(0, keys) for _ in range(batch)])
    side = rng.choice(["left", "right"]) if queries == keys else "right"
    start = 0 if side == "left" else rng.choice([0, 0, rng.randint(0, 4)])
    at = Positions.of(queries, keys, query_start=start, key_lengths=rng.choice([None, lengths]), side=side)
    segments = [torch.tensor([rng.randint(0, 1) for _ in range(length)]) for length in (queries, keys)]
    at = replace(at, query_segment=segments[0][None, None, :, None], key_segment=segments[1][None, None, None])
    if rng.choice([True, False]):
        at = replace(
            at, centre=torch.tensor([keys * rng.random() for _ in range(batch * queries)]).view(batch, 1, -1, 1)
        )
    if isinstance(built, LocationAware):
        at = replace(at, previous=torch.rand(batch, heads, queries, keys))
    shapes = (
        (batch, heads, queries, dim),
        (batch, kv_heads, keys, key_dim),
        (batch, kv_heads, keys, rng.choice([2, dim, dim])),
    )
    query, key, value = (torch.randn(shape, dtype=dtype) for shape in shapes)
    keeps = isinstance(built, KeyedScore) and rng.choice([True, False])
    return Case(attention, query, key, value, at, f"{attention} {dtype} {keeps=}", keeps)


def looked(case: Case, path: object | None) -> tuple[Tensor, list[Tensor]]:
    """The context, by one path or (None) by explain, and all that learns: queries, keys, values, weights."""
    inputs = [tensor.detach().clone().requires_grad_() for tensor in (case.query, case.key, case.value)]
    learning = [*inputs, *case.attention.parameters()]
    if path is None:
        return case.attention.explain(*inputs, at=case.at).context, learning
    query, key, at = case.attention._placed(*inputs, case.at)
    kept = case.attention.score.key_features(share_heads(key, query.shape[1])) if case.keeps else None
    return path.run(case.attention, query, key, inputs[2], at=at, key_features=kept, dropout=0.0), learning


def outcome(case: Case, path: object | None, direction: Tensor | None = None) -> list[Tensor]:
    """The context and its gradients, by one path or (None) by explain."""
    context, learning = looked(case, path)
    torch.manual_seed(1)
    direction = torch.randn(context.shape, dtype=torch.float64) if direction is None else direction
    gradients = torch.autograd.grad((context * direction.to(context.dtype)).sum(), learning, allow_unused=True)
    return [context.detach(), *filled(gradients, learning)]


def twice(case: Case, path: object | None) -> list[Tensor]:
    """The context, its gradients, and the gradients of a penalty on these, by one path or (None) by explain."""
    context, learning = looked(case, path)
    first = torch.autograd.grad(context.sin().sum(), learning, create_graph=True, allow_unused=True)
    penalty = torch.stack([slope.double().square().sum() for slope in first if slope is not None]).sum()
    second = [None] * len(first)
    if penalty.requires_grad:
        second = torch.autograd.grad(penalty, learning, allow_unused=True)
    return [context.detach(), *filled(first, learning), *filled(second, learning)]


def filled(gradients: Sequence[Tensor | None], learning: list[Tensor]) -> list[Tensor]:
    return [torch.zeros_like(x) if g is None else g.detach() for g, x in zip(gradients, learning, strict=True)]


def served(
    path: object, visibility: Visibility, dtype: torch.dtype = torch.float32, *, dim: int = 8
) -> Attention | None:
    """A simple attention that this path accepts, if there is one for numbers of this type."""
    x, at = torch.zeros(1, 1, 3, dim, dtype=dtype), Positions.of(3, 3)
    for score in (ScaledDot(), AdditiveConfig(hidden_dim=5)):
        built = score.build(query_dim=dim, key_dim=dim)
        attention = Attention(built, visibility=visibility).to(dtype)
        if not path.refuses(attention, x, x, at):
            return attention
    return None


def in_double(case: Case) -> Case:
    attention = copy.deepcopy(case.attention).double()
    return replace(
        case, attention=attention, query=case.query.double(), key=case.key.double(), value=case.value.double()
    )


def error(got: Tensor, exact: Tensor) -> float:
    assert got.shape == exact.shape
    return float((got.double() - exact).abs().max() / exact.abs().max().clamp(min=1.0)) if exact.numel() else 0.0


def floor(case: Case, result: Tensor) -> float:
    """The error that is always allowed. Through a norm of single numbers no gradient passes: what is left is the
    rounding of the larger gradient before it, which the reference has by chance or has not. The gradient of a single
    number, such as a temperature, sums the roundings of all pairs.
    """
    single = case.query.shape[-1] == 1 and bool(case.attention.transforms)
    wide = 4 if single else 2 if result.dim() == 0 else 1
    return FLOOR[case.query.dtype] * (wide if case.query.dtype in LIGHT else 1)


def crowded(name: str, dtype: torch.dtype) -> Case:
    """Hundreds of positions whose sums go one way: one key that all look at, values and directions around 1."""
    generator, n = torch.Generator().manual_seed(0), 512 if name == "short" else 600
    star = torch.stack([torch.arange(n), torch.zeros(n, dtype=torch.long)])
    attention = {
        "everything": lambda: Attention(),
        "short": lambda: Attention(),
        "causal": lambda: Attention(visibility=causal()),
        "global token": lambda: Attention(visibility=global_tokens(1) | window(left=2, right=2)),
        "hub": lambda: Attention(visibility=edges(torch.cat([star, star.flip(0)], 1), self_loops=True)),
        "graph attention": lambda: Attention(
            GatV2Config().build(query_dim=16, key_dim=16), visibility=edges(torch.cat([star, star.flip(0)], 1))
        ),
        "additive": lambda: Attention(AdditiveConfig(hidden_dim=3).build(query_dim=16, key_dim=16)),
        "learned bias": lambda: Attention(visibility=causal(), bias=RelativeBuckets(num_heads=1)),
        "relative": lambda: Attention(
            ShawRelativeConfig(radius=2).build(query_dim=16, key_dim=16), visibility=causal()
        ),
        "sparse": lambda: Attention(
            visibility=global_tokens(1) | window(left=2, right=2), normaliser=Entmax(alpha=1.2)
        ),
        "large": lambda: Attention(normaliser=ReLU()),
        "centre": lambda: Attention(visibility=around(left=0, right=0)),
    }[name]()
    query, key, value = (0.1 * torch.randn(1, 1, n, 16, generator=generator) for _ in range(3))
    query[..., 0] += 2
    key[:, :, 0, 0] += 6 if name == "additive" else 2
    if name == "large":
        key[..., 0] += 300
    value += 1
    value[:, :, 0] += 2
    query, key, value = (part.to(dtype) for part in (query, key, value))
    at = Positions.of(n, n)
    if name == "centre":
        at = replace(at, centre=torch.where(torch.arange(n) % 2 == 0, 5.0, n - 9.0).view(1, 1, n, 1))
    with torch.no_grad():
        for weight in attention.parameters():
            weight.abs_()
    return Case(attention.to(dtype), query, key, value, at, name)


CROWDS = [
    (name, torch.bfloat16) for name in ("everything", "short", "causal", "global token", "hub", "graph attention")
]
CROWDS += [(name, torch.bfloat16) for name in ("additive", "learned bias", "relative", "sparse", "centre")]
CROWDS += [(name, torch.float16) for name in ("everything", "global token", "hub", "large")]


def test_groups_of_query_heads_share_a_key_head_as_they_do_in_torch() -> None:
    query, key, value = (torch.randn(2, heads, 5, 16) for heads in (6, 2, 2))
    expected = scaled_dot_product_attention(query, key, value, enable_gqa=True)
    attention, at = Attention(), Positions.of(5, 5)
    torch.testing.assert_close(attention.explain(query, key, value).context, expected)
    for path in CUT:
        if not path.refuses(attention, query, key, at):
            context = path.run(attention, query, key, value, at=at, key_features=None, dropout=0.0)
            torch.testing.assert_close(context, expected)


@pytest.mark.parametrize("chunk", range(8))
def test_second_derivatives_of_every_path_are_those_of_explain(chunk: int, cut_small: None) -> None:
    """Small inputs of every path, cut as long ones are, with context and first derivatives: what fails fails soon."""
    for seed in range(chunk, 160, 8):
        case = random_case(seed)
        if case.query.dtype != torch.float16:  # squares of gradients are too large
            agree_twice(case, CUT, f"seed {seed}")


def agree_twice(case: Case, paths: Sequence[object], name: str) -> None:
    exact, reference = twice(in_double(case), None), twice(case, None)
    for path in paths:
        if path.refuses(case.attention, *case.placed):
            continue
        for got, eager, truth in zip(twice(case, path), reference, exact, strict=True):
            floor = (100 if case.query.dtype == torch.float64 else 10) * FLOOR[case.query.dtype]
            allowed = max(FACTOR * error(eager, truth), floor)
            assert error(got, truth) <= allowed, f"{path.name}, {name}: {case.name}"


@pytest.mark.parametrize("chunk", range(8))
def test_every_path_computes_what_explain_shows_over_hundreds_of_positions(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many tiles, hubs, every number type; second derivatives of every other case."""
    monkeypatch.setattr(materialised, "ROOM", 2**17)
    monkeypatch.setattr(pairwise, "ROOM", 2**17)
    monkeypatch.setattr(fused, "KEPT", chunk % 2 * 2**28)
    for seed in range(chunk, 48, 8):
        case = random_case(seed, long=True)
        if seed < 24 and case.query.dtype != torch.float16:
            agree_twice(case, LONG, f"seed {seed}")
            continue
        exact, reference = outcome(in_double(case), None), outcome(case, None)
        for path in LONG:
            if path.refuses(case.attention, *case.placed):
                continue
            for got, eager, truth in zip(outcome(case, path), reference, exact, strict=True):
                allowed = max(FACTOR * error(eager, truth), floor(case, truth))
                assert error(got, truth) <= allowed, f"{path.name}, seed {seed}: {case.name}"


@pytest.mark.parametrize(("name", "dtype"), CROWDS, ids=str)
def test_sums_over_many_positions_are_exact_to_the_rounding_of_their_result(
    name: str, dtype: torch.dtype, cut_small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(materialised, "ROOM", 2**14)
    monkeypatch.setattr(pairwise, "ROOM", 2**14)
    case = crowded(name, dtype)
    direction = 1 + 0.1 * torch.randn(case.value.shape, generator=torch.Generator().manual_seed(1))
    direction = direction.to(dtype).double()
    exact, reference = outcome(in_double(case), None, direction), outcome(case, None, direction)
    for path in CUT:
        if path.refuses(case.attention, *case.placed):
            continue
        for place, (got, eager, truth) in enumerate(zip(outcome(case, path, direction), reference, exact, strict=True)):
            size = truth.abs().max().clamp(min=1e-2)
            # Gradients that pass through softmax are differences of numbers that were rounded before.
            rounded = 0.0 if place in (0, 3) else 2 * float((eager.double() - truth).abs().max() / size)
            wrong = float((got.double() - truth).abs().max() / size)
            assert wrong <= max(SUMMED[dtype], rounded), f"{path.name}, part {place}: {case.name}"


@pytest.mark.parametrize("path", ["product", "short"])
def test_what_all_keys_share_gives_queries_no_gradient_in_half_precision(path: str) -> None:
    """Rows of gradients of scores sum to 0 where weights are float32; rounded to bfloat16 they do not. (torch's own
    kernel rounds the context that it subtracts.)
    """
    generator = torch.Generator().manual_seed(0)
    query, key, value = (0.1 * torch.randn(1, 1, 500, 16, generator=generator).bfloat16() for _ in range(3))
    query[..., 1], key[..., 1] = 0, 8
    query.requires_grad_()
    (chosen,) = (each for each in PATHS if each.name == path)
    attention, at = Attention(), Positions.of(500, 500)
    if chosen.refuses(attention, query, key, at):
        return
    context = chosen.run(attention, query, key, value + 1, at=at, key_features=None, dropout=0.0)
    (slope,) = torch.autograd.grad(context.sum(), query)
    assert slope[..., 1].abs().max() <= 2e-3


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_path_that_accepts_computes_what_explain_shows(chunk: int) -> None:
    for seed in range(chunk, CASES, CHUNKS):
        case = random_case(seed)
        exact, reference = outcome(in_double(case), None), outcome(case, None)
        accepting = [path for path in CUT if not path.refuses(case.attention, *case.placed)]
        assert accepting, case.name
        for path in accepting:
            for got, eager, truth in zip(outcome(case, path), reference, exact, strict=True):
                allowed = max(FACTOR * error(eager, truth), floor(case, truth))
                assert error(got, truth) <= allowed, f"{path.name}, seed {seed}: {case.name}"


@pytest.mark.parametrize("chunk", range(OFTEN))
def test_rows_sum_to_one_or_to_zero_and_hidden_weights_are_zero(chunk: int) -> None:
    for seed in range(chunk, CASES, CHUNKS):
        case = in_double(random_case(seed))
        seen = case.attention.explain(case.query, case.key, case.value, at=case.at)
        assert (seen.weights[~seen.visible] == 0).all()
        if case.attention.normaliser in SUMLESS:
            assert (seen.weights >= 0).all()
        elif case.attention.reweight is not None:
            assert (seen.weights.sum(-1) <= 1 + 1e-9).all()
        else:
            torch.testing.assert_close(seen.weights.sum(-1), seen.visible.any(-1).double())
        assert (seen.context[~seen.visible.any(-1)] == 0).all()


@pytest.mark.parametrize("path", CUT, ids=lambda path: f"{path.name}-{getattr(path, 'tile', None)}")
def test_hidden_keys_and_values_cannot_influence_context_and_gradients(path: object, cut_small: None) -> None:
    for seed in range(200):
        case = random_case(seed)
        if path.refuses(case.attention, *case.placed):
            continue
        column = seed % case.key.shape[2]
        blind = ~case.attention.explain(case.query, case.key, case.value, at=case.at).visible[..., column]
        before = context_by(case, path)
        limit = FLOOR[case.query.dtype] * max(1.0, float(before.abs().max()))
        for poison in (float("nan"), float("inf"), 1e30):
            key, value = case.key.clone(), case.value.clone()
            key[:, :, column], value[:, :, column] = poison, poison
            poisoned = replace(case, key=key, value=value)
            difference = (before - context_by(poisoned, path))[blind].abs().double()
            assert not difference.isnan().any(), f"{poison}, seed {seed}: {case.name}"
            assert (difference <= limit).all(), f"{poison}, seed {seed}: {case.name}"
            if blind.all() and math.isnan(poison) and not case.attention.transforms and not case.keeps:
                for one, other in zip(outcome(case, path), outcome(poisoned, path), strict=True):
                    assert error(other, one.double()) <= 4 * FLOOR[case.query.dtype], f"seed {seed}: {case.name}"


@torch.no_grad()
def context_by(case: Case, path: object) -> Tensor:
    """The context that a path gives without gradients."""
    query, key, at = case.placed
    return path.run(case.attention, query, key, case.value, at=at, key_features=None, dropout=0.0)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
@pytest.mark.parametrize("score", [ScaledDot(), GeneralConfig(), CosineConfig(), AdditiveConfig()], ids=repr)
def test_garbage_in_padding_leaves_context_and_gradients_bit_equal(path: object, score: ScoreConfig) -> None:
    torch.manual_seed(0)
    attention = Attention(score.build(query_dim=16, key_dim=16), visibility=padding() & causal())
    at = Positions.of(4, 4, key_lengths=torch.tensor([2, 0, 4]))
    query, key, value = (torch.randn(3, 2, 4, 16) for _ in range(3))
    if path.refuses(attention, query, key, at):
        return
    poisoned_key, poisoned_value = key.clone(), value.clone()
    for tensor in (poisoned_key, poisoned_value):
        tensor[0, :, 2:], tensor[1] = float("nan"), float("inf")
    clean = outcome(Case(attention, query, key, value, at, ""), path)
    dirty = outcome(Case(attention, query, poisoned_key, poisoned_value, at, ""), path)
    for one, other in zip(clean, dirty, strict=True):
        assert torch.equal(one, other)
        assert one.isfinite().all()


def test_nan_that_is_visible_is_not_swept_under_the_carpet() -> None:
    for path in PATHS:
        attention = served(path, causal(), dim=16)
        if attention is None:
            continue
        x = torch.ones(1, 1, 3, 16)
        value = x.clone()
        value[:, :, 1] = float("nan")
        context = path.run(attention, x, x, value, at=Positions.of(3, 3), key_features=None, dropout=0.0)
        assert context[0, 0, :, 0].isnan().tolist() == [False, True, True]


def test_looking_does_not_change_the_answer() -> None:
    for seed in range(200):
        case = random_case(seed)
        arguments = (case.query, case.key, case.value)
        alone = case.attention.run(*arguments, at=case.at)
        with record(case.attention):
            watched = case.attention.run(*arguments, at=case.at)
        assert torch.equal(alone, watched)


def test_a_record_gives_the_weights_of_any_tile() -> None:
    for seed in range(300):
        case = random_case(seed)
        with record(case.attention) as seen:
            case.attention.run(case.query, case.key, case.value, at=case.at)
        exact = in_double(case)
        weights = exact.attention.explain(exact.query, exact.key, exact.value, at=exact.at).weights
        (kept,) = seen.records
        floor = FLOOR[case.query.dtype] if case.query.dtype in LIGHT else 1e-5
        torch.testing.assert_close(kept.weights().double(), weights, atol=floor, rtol=0)
        rows, columns = slice(1, 3), slice(seed % 3, seed % 3 + 2)
        torch.testing.assert_close(
            kept.weights(rows, columns).double(), weights[:, :, rows, columns], atol=floor, rtol=0
        )


def test_dropout_falls_on_the_context_and_not_on_the_explained_weights() -> None:
    torch.manual_seed(0)
    attention = Attention()
    x = torch.randn(1, 1, 6, 4)
    value = torch.eye(6)[None, None]
    kept = torch.stack([attention.run(x, x, value, dropout=0.5) for _ in range(4000)])
    weights = attention.explain(x, x, value).weights
    torch.testing.assert_close(kept.mean(0), weights, atol=0.02, rtol=0)
    assert ((kept == 0) | ((kept - 2 * weights).abs() < 1e-6)).all()


def test_gradients_are_those_of_finite_differences() -> None:
    torch.manual_seed(0)
    for score in (ScaledDot(), GeneralConfig(), AdditiveConfig(hidden_dim=3), *PLACED):
        built = score.build(query_dim=2, key_dim=2)
        attention = Attention(built, visibility=causal() & padding()).double()
        at = replace(Positions.of(3, 3, key_lengths=torch.tensor([2, 0])), previous=torch.rand(2, 1, 3, 3))
        inputs = [torch.randn(2, 1, 3, 2, dtype=torch.float64, requires_grad=True) for _ in range(3)]
        assert torch.autograd.gradcheck(lambda *args, attention=attention, at=at: attention.run(*args, at=at), inputs)


def test_attention_without_positions_is_permutation_equivariant() -> None:
    torch.manual_seed(0)
    attention, order = Attention(), torch.tensor([2, 0, 3, 1])
    x = torch.randn(2, 2, 4, 8, dtype=torch.float64)
    permuted = x[:, :, order]
    torch.testing.assert_close(attention.run(permuted, permuted, permuted), attention.run(x, x, x)[:, :, order])


def test_causal_attention_has_a_lower_triangular_jacobian() -> None:
    torch.manual_seed(0)
    for path, dtype in itertools.product(PATHS, (torch.float32, torch.float64)):
        attention = served(path, causal(), dtype, dim=3)
        if attention is None:
            continue

        def output(x: Tensor, path: object = path, attention: Attention = attention) -> Tensor:
            shaped = x[None, None]
            at = Positions.of(5, 5)
            return path.run(attention, shaped, shaped, shaped, at=at, key_features=None, dropout=0.0)[0, 0]

        jacobian = torch.autograd.functional.jacobian(output, torch.randn(5, 3, dtype=dtype))
        influence = jacobian.abs().sum((1, 3))
        assert (influence.triu(1) == 0).all()
        assert (influence.tril().diagonal() > 0).all()
