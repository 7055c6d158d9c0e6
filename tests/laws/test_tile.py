"""Every provider of tiles says what the dense reference says, and traces weigh what explain weighs.

Random products of score × normaliser × visibility × bias × heads; every level, both poolings, semantic levels too.
"""

import itertools
import math
import random
import threading
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import Tensor

from foveate.attention import (
    Attention,
    Cosine,
    Dot,
    Entmax,
    Positions,
    ReLU,
    ScaledDot,
    Sigmoid,
    Softmax,
    Sparsemax,
    Visibility,
    around,
    bigbird,
    block,
    causal,
    dilated,
    edges,
    everything,
    global_tokens,
    padding,
    prefix,
    record,
    window,
)
from foveate.attention.bias import Alibi, Gaussian, RelativeBuckets
from foveate.attention.efficient.pattern import PredictedCentre
from foveate.attention.normaliser import Hard, Normaliser
from foveate.attention.score import Additive, General, Location, ShawRelative
from foveate.inspect.tile import HIDDEN, UNKNOWN, ZERO, DenseProvider, TraceProvider, decode
from foveate.inspect.tile.provider import TileProvider
from foveate.inspect.tile.turn import Turn
from foveate.inspect.trace import Trace, Track, given

CASES = 60
HALF = 2.0**-11
"""Relative rounding of a number stored in 16 bits."""


@dataclass(frozen=True)
class Case:
    name: str
    attention: Attention
    query: Tensor
    key: Tensor
    at: Positions


def made(seed: int) -> Case:
    draw, _ = random.Random(seed), torch.manual_seed(seed)
    kind = draw.choice(["self", "self", "cross"])
    heads, groups, dim = draw.choice([1, 2, 4]), draw.choice([1, 2]), draw.choice([2, 4])
    kv_heads = heads // groups if heads % groups == 0 else heads
    n = draw.choice([1, 7, 33, 70])
    m = n if kind == "self" else draw.choice([1, 5, 40, 67])
    score = draw.choice(
        [
            Dot(),
            ScaledDot(),
            ScaledDot(scale=0.3),
            General(query_dim=dim, key_dim=dim, num_heads=1),
            Cosine(beta=3.0),
            Additive(query_dim=dim, key_dim=dim, hidden_dim=5, num_heads=draw.choice([1, heads])),
            Location(query_dim=dim, max_length=70),
            ShawRelative(head_dim=dim, radius=2),
        ]
    )
    if isinstance(score, Additive | General | Location):
        kv_heads = heads
    normaliser: Normaliser = draw.choice(
        [
            Softmax(),
            Softmax(temperature=0.5),
            ReLU(),
            ReLU(normalised=False),
            Sigmoid(bias=-1.0),
            Sparsemax(),
            Entmax(),
            Hard(mode="argmax"),
            Hard(mode="sample", temperature=2.0),
        ]
    )
    rule: Visibility = draw.choice(
        [
            everything(),
            padding(),
            causal(),
            window(left=3, right=0),
            window(left=2, right=4) & padding(),
            dilated(left=2, right=1, step=3),
            block(5),
            prefix(4) | causal(),
            global_tokens(2) | window(left=1, right=1),
            bigbird(block=4),
            edges([[0, 1, 2, 0, 4], [1, 2, 0, 3, 6]]),
            ~causal(),
        ]
    )
    bias = draw.choice([None, None, Alibi(heads), RelativeBuckets(num_heads=heads), Gaussian(sigma=3.0)])
    more = {}
    if draw.random() < 0.25:
        more = {"centre": PredictedCentre(query_dim=dim, hidden_dim=4), "reweight": Gaussian(sigma=2.0)}
        rule = rule if draw.random() < 0.5 else around(left=3, right=3) & padding()
    attention = Attention(score, visibility=rule, bias=bias, normaliser=normaliser, kind=kind, **more).eval()
    lengths = torch.tensor([max(1, m - draw.choice([0, 0, 3]))])
    at = Positions.of(n, m, key_lengths=lengths, query_start=0 if kind == "self" else draw.choice([0, 2]))
    query, key = torch.randn(1, heads, n, dim), torch.randn(1, kv_heads, m, dim)
    return Case(f"{seed}: {attention}, {n} × {m}, {heads}/{kv_heads} heads", attention, query, key, at)


def traced(case: Case, stored: str = "float16") -> Trace:
    with record(case.attention) as seen, torch.no_grad():
        case.attention.run(case.query, case.key, case.key, at=case.at)
    tracks = {"source": worded(case.key.shape[2])}
    if case.attention.kind == "cross":
        tracks["target"] = worded(case.query.shape[2])
    return Trace.of(seen, tracks, stored=stored)  # type: ignore[arg-type]


def worded(length: int) -> Track:
    pieces = [
        ("▁" if place % 3 == 0 else "") + "abcde"[place % 5] + ("." if place % 9 == 8 else "")
        for place in range(length)
    ]
    return Track.of_pieces(pieces)


def explained(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    seen = case.attention.explain(case.query, case.key, case.key, at=case.at)
    weights = seen.weights.detach()
    if isinstance(case.attention.normaliser, Hard) and case.attention.normaliser.mode == "sample":
        weights = Softmax(temperature=2.0)(seen.scores.detach(), seen.visible)
        if case.attention.reweight is not None:
            at = replace(case.at, centre=case.attention.centre(case.query, case.at))  # type: ignore[misc]
            weights = weights * case.attention.reweight(at).exp().detach()
    return weights[0], seen.visible[0], seen.scores.detach()[0]


@pytest.mark.parametrize("seed", range(CASES))
def test_a_trace_kept_in_float32_weighs_what_explain_weighs(seed: int) -> None:
    case = made(seed)
    trace = traced(case, "float32")
    weights, visible, _ = explained(case)
    site = trace.sites[0]
    for head in range(site.heads):
        mine, seen = site.weights(head)
        assert torch.allclose(mine, weights[head], atol=2e-6, rtol=2e-5), case.name
        shown = torch.ones_like(mine, dtype=torch.bool) if seen is None else seen
        assert torch.equal(shown, visible[head]), case.name


@pytest.mark.parametrize("seed", range(CASES))
def test_a_trace_kept_in_16_bits_errs_as_little_as_its_rounding(seed: int) -> None:
    """|Δe| ≤ Σ |q_h| |k_h| · 2 · 2⁻¹¹ for products, and softmax turns scores moved by Δ into a factor of e^{2Δ}."""
    case = made(seed)
    trace = traced(case)
    site = trace.sites[0]
    weights, _, _ = explained(case)
    if site.normaliser["kind"] != "softmax" or site.score["kind"] == "dense":
        return
    for head in range(site.heads):
        q = site.tensors["query"][head].float().abs()
        k = site.tensors["key"][head // (site.heads // site.kv_heads)].float().abs()
        if site.score["kind"] == "product":
            moved = float((q @ k.mT).max()) * abs(site.score["factor"]) * 2.1 * HALF
        else:
            vector = site.tensors["vector"]
            moved = float(vector[head % len(vector)].abs().sum()) * float(q.max() + k.max()) * 1.1 * HALF
        stated = math.expm1(2 * moved / site.normaliser["temperature"]) + 1e-5
        mine, _ = site.weights(head)
        assert ((mine - weights[head]).abs() <= stated * weights[head] + 1e-7).all(), case.name


@pytest.mark.parametrize("seed", range(CASES))
def test_rows_of_a_trace_sum_to_one_or_to_nothing(seed: int) -> None:
    site = traced(made(seed)).sites[0]
    if not site.weighs_nothing_else:
        return
    for head in range(site.heads):
        weights, visible = site.weights(head)
        seen = torch.ones(site.queries) if visible is None else visible.any(1).float()
        total = weights.sum(1)
        if site.normaliser["kind"] == "relu":
            seen = torch.where(total > 0, seen, 0.0)
        assert torch.allclose(total, seen, atol=1e-5)


def levels(trace: Trace) -> list[tuple[object, int, int]]:
    return [*((level, 0, 0) for level in (0, 1, 2, 3, 5, 6, 7)), ("word", 0, 0), ("sentence", 0, 0)]


@pytest.mark.parametrize("seed", range(CASES))
def test_every_tile_is_the_dense_reference_s(seed: int) -> None:
    case = made(seed)
    trace = traced(case, "float32")
    weights, visible, scores = (part.numpy() for part in explained(case))
    dense = DenseProvider(trace, [(weights, visible, scores)])
    lazy: TileProvider = TraceProvider(trace)
    for head, (level, row, column), pool in itertools.product(
        range(trace.sites[0].heads), levels(trace), ("peak", "mass")
    ):
        mine = lazy.tile(0, head, level, row, column, pool)  # type: ignore[arg-type]
        right = dense.tile(0, head, level, row, column, pool)  # type: ignore[arg-type]
        assert mine.dtype == np.uint16
        assert np.array_equal(mine == HIDDEN, right == HIDDEN), (case.name, level, pool)
        assert np.allclose(decode(mine), decode(right), atol=3e-6, rtol=1e-3), (case.name, level, pool)
        nothing = right == ZERO
        assert (decode(mine)[nothing] < 2e-6).all()
    for head, level in itertools.product(range(trace.sites[0].heads), ("word", "sentence")):
        mine, right = (each.tile(0, head, level, 0, 0, "equal") for each in (lazy, dense))  # type: ignore[arg-type]
        assert np.array_equal(mine == HIDDEN, right == HIDDEN), (case.name, level, "equal")
        assert np.allclose(decode(mine), decode(right), atol=3e-6, rtol=1e-3), (case.name, level, "equal")


def test_what_is_not_a_number_is_neither_hidden_nor_nothing() -> None:
    """At every level and pooling: a cell with a NaN in it is not a number, wherever in its block the NaN stands."""
    for place in ((0, 0), (3, 2), (39, 39)):
        weights = torch.full((1, 40, 40), 1 / 40)
        weights[0][place] = torch.nan
        words = Track(labels=("a",) * 40, words=((0, 20), (20, 40)), sentences=((0, 40),))
        trace = Trace(tracks={"source": words}, sites=(given(weights),))
        for provider in (TraceProvider(trace), DenseProvider(trace)):
            assert math.isnan(provider.value(0, 0, *place).weight)
            assert provider.value(0, 0, *place).visible
            for level, pool in itertools.product((0, 1, 2, 5, 6, "word", "sentence"), ("peak", "mass")):
                codes = provider.tile(0, 0, level, 0, 0, pool)  # type: ignore[arg-type]
                step = {"word": 20, "sentence": 40}.get(level) or 1 << level  # type: ignore[arg-type, operator]
                assert (codes == UNKNOWN).sum() == 1, (type(provider), level, pool)
                assert codes[place[0] // step, place[1] // step] == UNKNOWN, (type(provider), level, pool)


@pytest.mark.parametrize("seed", range(CASES))
def test_rows_cells_and_statistics_are_the_dense_reference_s(seed: int) -> None:
    case = made(seed)
    trace = traced(case, "float32")
    weights, visible, scores = (part.numpy() for part in explained(case))
    dense, lazy = DenseProvider(trace, [(weights, visible, scores)]), TraceProvider(trace)
    site = trace.sites[0]
    for head in range(site.heads):
        assert np.array_equal(lazy.counts(0, head), dense.counts(0, head))
        query, key = (7 * seed) % site.queries, (5 * seed) % site.keys
        assert np.allclose(lazy.row(0, head, query), dense.row(0, head, query), atol=2e-6, rtol=2e-5)
        mine, right = lazy.value(0, head, query, key), dense.value(0, head, query, key)
        assert (mine.visible, mine.score is None) == (right.visible, right.score is None)
        assert math.isclose(mine.lift, right.lift, rel_tol=1e-4, abs_tol=1e-4)
    for mine, right in zip(lazy.statistics(0), dense.statistics(0), strict=True):
        assert np.allclose(mine.received, right.received, atol=1e-5)
        for name, row in right.rows.items():
            close = np.allclose(mine.rows[name], row, atol=2e-4, rtol=1e-4, equal_nan=True)
            assert close, (case.name, name)
        assert mine.means() == pytest.approx(right.means(), abs=2e-4, rel=1e-4)


def test_an_estimate_of_all_rows_is_exact() -> None:
    for seed in range(20):
        trace = traced(made(seed), "float32")
        lazy = TraceProvider(trace)
        for pool in ("peak", "mass"):
            exact, quick = lazy.tile(0, 0, 5, 0, 0, pool), lazy.estimate(0, 0, 5, 0, 0, pool)
            assert np.array_equal(exact == HIDDEN, quick == HIDDEN)
            assert np.allclose(decode(exact), decode(quick), atol=1e-5, rtol=2e-3)


def test_what_is_looked_at_goes_before_what_is_made_in_advance() -> None:
    turn, order = Turn(), []
    stop = turn.before(lambda: False)
    assert not stop()

    def served() -> None:
        with turn:
            begun.set()
            done.wait(10)
            order.append("tile")

    begun, done = threading.Event(), threading.Event()
    server = threading.Thread(target=served)
    server.start()
    begun.wait(10)
    builder = threading.Thread(target=lambda: (stop(), order.append("pyramid")))
    builder.start()
    done.set()
    server.join()
    builder.join()
    assert order == ["tile", "pyramid"]
