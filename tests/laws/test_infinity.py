"""A visible key whose score is −∞ weighs 0, and a row of such keys is a row that sees nothing.

So it is on every path, under every normaliser, with finite gradients, in records, tiles, traces and steps.
"""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from foveate.attention import (
    AdditiveConfig,
    Attention,
    CosineConfig,
    Dot,
    Entmax,
    GatV2Config,
    GeneralConfig,
    Hard,
    LocationAwareConfig,
    Positions,
    ReLU,
    ScaledDot,
    ShawRelativeConfig,
    Sigmoid,
    Softmax,
    Sparsemax,
    Visibility,
    around,
    causal,
    edges,
    everything,
    longformer,
    padding,
    predicate,
    record,
    window,
)
from foveate.attention.normaliser import Normaliser, Proportional
from foveate.attention.paths import PATHS, BandedPath, TiledPath, fused
from foveate.attention.paths.edges import EdgesPath, edge_weights
from foveate.inspect.tile import DenseProvider, TraceProvider, decode
from foveate.inspect.trace import Trace, Track

CUT = (*PATHS, BandedPath(tile=4), TiledPath(tile=4))
INFINITY = torch.inf
RULES = (
    everything(),
    causal(),
    padding(),
    causal() & padding(),
    window(left=3, right=1) & padding(),
    longformer(window=2, tokens=1),
    edges(torch.randint(0, 19, (2, 120), generator=torch.Generator().manual_seed(0)), self_loops=True) & padding(),
    predicate(lambda at: (at.key + at.query) % 3 != 0),
)
NORMALISERS: tuple[Normaliser, ...] = (
    Softmax(),
    Softmax(temperature=0.5),
    Sparsemax(),
    Entmax(),
    Entmax(alpha=1.2),
    Entmax(alpha=3.0),
    ReLU(),
    ReLU(normalised=False),
    Sigmoid(bias=-1.0),
    Hard(mode="argmax"),
    Hard(mode="straight_through"),
)
SCORES = (
    ScaledDot(),
    GeneralConfig(),
    CosineConfig(),
    AdditiveConfig(hidden_dim=5),
    GatV2Config(hidden_dim=3),
    ShawRelativeConfig(radius=2),
)


class Table(nn.Module):
    """A trained number for each example, head, query and key; some of them −∞, and some whole rows."""

    def __init__(self, batch: int, heads: int, queries: int, keys: int, dtype: torch.dtype) -> None:
        super().__init__()
        table = torch.randn(batch, heads, queries, keys, dtype=dtype)
        self.shut = torch.rand(table.shape) < 0.3
        self.shut[..., torch.rand(queries) < 0.3, :] = True
        self.shut[..., 1:2, :] = True
        self.weight = nn.Parameter(table.masked_fill(self.shut, -INFINITY))

    def forward(self, at: Positions) -> Tensor:
        batch, heads = (torch.arange(size) for size in self.weight.shape[:2])
        return self.weight[batch[:, None, None, None], heads[:, None, None], at.query, at.key]

    def without(self) -> tuple["Table", Visibility]:
        """The same bias where it is finite, and a rule that hides the rest."""
        other = Table(*self.weight.shape, self.weight.dtype)
        other.weight.data = self.weight.detach().masked_fill(self.shut, 0.0)
        other.weight.requires_grad_(self.weight.requires_grad)
        batch, heads = (torch.arange(size) for size in self.shut.shape[:2])

        def open_to(at: Positions) -> Tensor:
            return ~self.shut[batch[:, None, None, None], heads[:, None, None], at.query, at.key]

        return other, predicate(open_to)


Made = tuple[Attention, list[Tensor], Positions]


def case(seed: int, dtype: torch.dtype = torch.float64) -> Made:
    rng, _ = random.Random(seed), torch.manual_seed(seed)
    batch, heads, dim = rng.randint(1, 3), rng.choice([1, 2]), rng.choice([4, 16])
    keys = rng.choice([2, 9, 19])
    queries = rng.choice([keys, rng.randint(2, 9)])
    score = SCORES[seed % len(SCORES)].build(query_dim=dim, key_dim=dim, num_heads=heads)
    bias = Table(rng.choice([1, batch]), rng.choice([1, heads]), queries, keys, dtype)
    bias.weight.requires_grad_(rng.choice([True, False]))  # some paths serve biases that do not learn
    normaliser = NORMALISERS[seed // len(SCORES) % len(NORMALISERS)] if rng.random() < 0.6 else Softmax()
    attention = Attention(score, visibility=rng.choice(RULES), bias=bias, normaliser=normaliser).to(dtype)
    lengths = torch.tensor([rng.randint(0, keys) for _ in range(batch)])
    at = Positions.of(queries, keys, key_lengths=rng.choice([None, lengths]))
    inputs = [torch.randn(batch, heads, length, dim, dtype=dtype) for length in (queries, keys, keys)]
    return attention, inputs, at


def outcome(
    attention: Attention, given: list[Tensor], at: Positions, path: object | None, *, graph: bool = False
) -> list[Tensor]:
    """The context, and the gradients of queries, keys, values, and of the score's and the bias's weights; with `graph`
    those that can be differentiated once more.
    """
    inputs = [tensor.detach().clone().requires_grad_() for tensor in given]
    if path is None:
        context = attention.explain(*inputs, at=at).context
    else:
        context = path.run(attention, *inputs, at=at, key_features=None, dropout=0.0)
    direction = torch.cos(torch.arange(context.numel())).reshape(context.shape).to(context.dtype)
    leaves = inputs + [weight for weight in attention.parameters() if weight.requires_grad]
    gradients = torch.autograd.grad((context * direction).sum(), leaves, allow_unused=True, create_graph=graph)
    return [
        context.detach(),
        *(torch.zeros_like(x) if g is None else g.detach() for g, x in zip(gradients, leaves, strict=True)),
    ]


def hiding(attention: Attention) -> Attention:
    """The attention that hides by a rule what the other one's bias puts at −∞."""
    bias, rule = attention.bias.without()
    parts = {"normaliser": attention.normaliser, "bias": bias}
    return Attention(attention.score, visibility=attention.visibility & rule, **parts)


def test_explain_gives_a_score_of_minus_infinity_the_weight_of_a_hidden_key() -> None:
    for seed in range(72):
        attention, inputs, at = case(seed)
        seen, hidden = attention.explain(*inputs, at=at), hiding(attention).explain(*inputs, at=at)
        assert torch.equal(seen.weights, hidden.weights), seed
        assert torch.equal(seen.context, hidden.context), seed
        assert (seen.weights[seen.scores == -INFINITY] == 0).all()
        shut = (~seen.visible | (seen.scores == -INFINITY)).all(-1)
        assert shut.any()
        assert (seen.context[shut] == 0).all()
        for got, exact in zip(
            outcome(attention, inputs, at, None), outcome(hiding(attention), inputs, at, None), strict=True
        ):
            assert torch.equal(got, exact), seed


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("path", CUT, ids=lambda path: f"{path.name}-{getattr(path, 'tile', None)}")
def test_every_path_gives_a_score_of_minus_infinity_no_weight(
    path: object, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran, allowed = 0, {torch.float64: 1e-12, torch.float32: 2e-4, torch.bfloat16: 0.3}[dtype]
    for seed in range(72):
        attention, inputs, at = case(seed, dtype)
        sharp = isinstance(attention.normaliser, Hard | Sparsemax | Entmax) or isinstance(attention.score, nn.Module)
        if path.refuses(attention, inputs[0], inputs[1], at) or (dtype == torch.bfloat16 and sharp):
            continue
        ran += 1
        monkeypatch.setattr(fused, "KEPT", 0 if seed % 2 else 2**28)  # weights that are computed again
        pairs = list(zip(outcome(attention, inputs, at, path), outcome(attention, inputs, at, None), strict=True))
        if seed % 3 == 0:
            again = outcome(attention, inputs, at, path, graph=True)
            pairs += [(one, exact) for one, (_, exact) in zip(again, pairs, strict=True)]
        for got, exact in pairs:
            assert got.isfinite().all(), f"{path.name}, seed {seed}: {attention}"
            assert float((got - exact).abs().max()) <= allowed, f"{path.name}, seed {seed}: {attention}"
    assert ran or path.name in ("short", "flex", "additive", "tiled")


@pytest.mark.parametrize("normaliser", NORMALISERS, ids=str)
def test_records_and_their_tiles_give_it_no_weight(normaliser: Normaliser) -> None:
    for seed in range(40):
        attention, inputs, at = case(seed)
        parts = {"visibility": attention.visibility, "bias": attention.bias, "normaliser": normaliser}
        attention = Attention(attention.score, **parts)
        for gradient in (False, True):
            with record(attention, gradient=gradient) as seen:
                attention.run(*inputs, at=at)
            weights = attention.explain(*inputs, at=at).weights
            torch.testing.assert_close(seen.records[0].weights(), weights, atol=1e-12, rtol=0)
            rows, columns = slice(1, 2), slice(1, 9)
            torch.testing.assert_close(
                seen.records[0].weights(rows, columns), weights[:, :, rows, columns], atol=1e-12, rtol=0
            )


# Beyond sparsemax a threshold that is stored in float32 leaves weights near it three digits.
@pytest.mark.parametrize("normaliser", [each for each in NORMALISERS if each != Entmax(alpha=3.0)], ids=str)
def test_traces_and_measures_give_it_no_weight(normaliser: Normaliser) -> None:
    for seed in range(12):
        attention, inputs, at = case(6 * seed + seed % 6, torch.float32)
        inputs = [tensor[:1] for tensor in inputs]
        parts = {"visibility": attention.visibility, "bias": attention.bias, "normaliser": normaliser}
        attention = Attention(attention.score, kind="cross", **parts)
        at = Positions.of(inputs[0].shape[2], inputs[1].shape[2])  # traces cut padding off
        attention.bias.shut = attention.bias.shut[:1]
        attention.bias.weight = nn.Parameter(attention.bias.weight.detach()[:1], requires_grad=False)
        with record(attention) as seen, torch.no_grad():
            attention.run(*inputs, at=at)
        track = Track.of_pieces([f"▁{place}" for place in range(inputs[1].shape[2])])
        queries = Track.of_pieces([f"▁{place}" for place in range(inputs[0].shape[2])])
        trace = Trace.of(seen, {"source": track, "target": queries}, stored="float32")
        site, exact = trace.sites[0], attention.explain(*inputs, at=at)
        for head in range(site.heads):
            torch.testing.assert_close(site.weights(head)[0], exact.weights[0, head].detach(), atol=2e-5, rtol=1e-4)
        maps = tuple(part.detach() for part in (exact.weights, exact.visible, exact.scores))
        dense = DenseProvider(trace, [tuple(part[0].numpy() for part in maps)])
        lazy = TraceProvider(trace)
        for mine, right in zip(lazy.statistics(0), dense.statistics(0), strict=True):
            for name, row in right.rows.items():
                close = np.allclose(mine.rows[name], row, atol=2e-4, rtol=1e-4, equal_nan=True)
                assert close, (seed, name)
        for head in range(trace.sites[0].heads):
            tiles = (provider.tile(0, head, 0, 0, 0, "peak") for provider in (lazy, dense))
            assert np.allclose(*(decode(tile) for tile in tiles), atol=3e-6, rtol=1e-3)
            assert all(math.isfinite(lazy.value(0, head, query, key).lift) for query, key in ((1, 0), (1, 1), (0, 0)))


def test_a_decoder_s_steps_give_it_no_weight() -> None:
    torch.manual_seed(0)
    shut = torch.tensor([[True] * 9, [False] * 4 + [True] * 5])[:, None, None]
    score = LocationAwareConfig(hidden_dim=4, channels=2, width=3).build(query_dim=8, key_dim=8)
    for made in (ScaledDot(), AdditiveConfig(hidden_dim=5).build(query_dim=8, key_dim=8), score):
        attention = Attention(
            made, visibility=padding(), bias=lambda at: torch.zeros(2, 1, 1, 9).masked_fill(shut, -INFINITY)
        )
        query, memory = torch.randn(2, 1, 1, 8, requires_grad=True), torch.randn(2, 1, 9, 8, requires_grad=True)
        at = replace(Positions.of(1, 9, query_start=4), previous=torch.full((2, 1, 1, 9), 1 / 9))
        context, weights = attention.step(query, memory, memory, at=at)
        exact = attention.explain(query, memory, memory, at=at)
        torch.testing.assert_close(weights, exact.weights)
        torch.testing.assert_close(context, exact.context)
        assert (weights[shut.expand_as(weights)] == 0).all()
        assert (context[0] == 0).all()
        context.sum().backward()
        assert query.grad.isfinite().all()
        assert memory.grad.isfinite().all()


def test_numbers_that_overflow_to_minus_infinity_weigh_nothing_on_any_path() -> None:
    query, key = torch.full((1, 1, 5, 16), 1e25), torch.full((1, 1, 5, 16), -1e25)
    value = torch.randn(1, 1, 5, 16)
    for path in CUT:
        for rule in (everything(), causal(), window(left=1, right=0)):
            attention, at = Attention(Dot(), visibility=rule), Positions.of(5, 5)
            if not path.refuses(attention, query, key, at):
                context = path.run(attention, query, key, value, at=at, key_features=None, dropout=0.0)
                assert torch.equal(context, torch.zeros_like(value)), path.name


def test_edges_of_minus_infinity_weigh_nothing() -> None:
    index = torch.tensor([[0, 1, 2, 3], [1, 1, 3, 2]])
    bias = torch.zeros(4, 4)
    bias[3, 2] = bias[1, 0] = -INFINITY
    attention = Attention(visibility=edges(index), bias=lambda at: bias[at.query, at.key])
    x = torch.randn(1, 1, 4, 8)
    assert edge_weights(attention, x, x).weights.flatten().tolist() == [0, 1, 0, 1]
    assert not EdgesPath().run(attention, x, x, x, at=Positions.of(4, 4))[0, 0, 3].any()


@pytest.mark.parametrize("poison", [INFINITY, torch.nan])
def test_scores_of_plus_infinity_and_nan_stay_what_they_are(poison: float) -> None:
    table = torch.zeros(4, 4)
    table[2, 1] = poison
    x = torch.randn(1, 1, 4, 16)
    for path in CUT:
        attention, at = Attention(bias=lambda at: table[at.query, at.key], visibility=causal()), Positions.of(4, 4)
        if not path.refuses(attention, x, x, at):
            context = path.run(attention, x, x, x, at=at, key_features=None, dropout=0.0)
            assert context[0, 0, :, 0].isnan().tolist() == [False, False, True, False], path.name
    with record(attention) as seen:
        attention.run(x, x, x)
    assert seen.records[0].weights()[0, 0, :, 0].isnan().tolist() == [False, False, True, False]


def test_weights_in_proportion_leave_it_out() -> None:
    scores, visible = (
        torch.tensor([[[[1.0, -INFINITY, 3.0], [-INFINITY] * 3]]]),
        torch.ones(1, 1, 1, 1, dtype=torch.bool),
    )
    assert Proportional()(scores, visible).flatten().tolist() == [0.25, 0.0, 0.75, 0.0, 0.0, 0.0]


def test_windows_around_a_centre_gather_keys_of_minus_infinity() -> None:
    class Shut:
        by_pair = True

        def __call__(self, at: Positions) -> Tensor:
            return torch.where(at.key % 50 < 25, -INFINITY, 0.0).double()

    torch.manual_seed(0)
    attention = Attention(visibility=around(left=2, right=2), bias=Shut())
    at = replace(Positions.of(1, 300), centre=torch.tensor([10.0, 30.2, 24.6]).double()[:, None, None, None])
    inputs = [torch.randn(3, 1, length, 8).double() for length in (1, 300, 300)]
    for got, exact in zip(
        outcome(attention, inputs, at, BandedPath()), outcome(attention, inputs, at, None), strict=True
    ):
        assert got.isfinite().all()
        torch.testing.assert_close(got, exact, atol=1e-12, rtol=0)
    assert (attention.run(*inputs, at=at)[0] == 0).all()
