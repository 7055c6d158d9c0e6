"""A part of the user's that inherits from one of ours is computed as it says, on every path."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from foveate.attention import (
    PATHS,
    Additive,
    Alibi,
    Attention,
    Cosine,
    Dot,
    GATScore,
    GATv2Score,
    Gaussian,
    General,
    Location,
    Positions,
    ScaledDot,
    Softmax,
    Sparsemax,
    causal,
    edges,
    everything,
    padding,
    record,
    window,
)
from foveate.errors import UsageError
from foveate.inspect import Trace, Track

LENGTH, HEADS, WIDTH = 40, 2, 16
SIZES = {"num_heads": HEADS, "query_dim": WIDTH, "key_dim": WIDTH}
GRAPH = edges(torch.randint(0, LENGTH, (2, 150), generator=torch.Generator().manual_seed(0)))


@dataclass(frozen=True, kw_only=True)
class CalledDot(ScaledDot):
    def __call__(self, query, key):
        return 3 * super().__call__(query, key).tanh()


@dataclass(frozen=True, kw_only=True)
class ComparedDot(Dot):
    def compare(self, query_features, key_features):
        return (query_features @ key_features.mT).tanh()


@dataclass(frozen=True, kw_only=True)
class FeaturedDot(ScaledDot):
    def query_features(self, query):
        return super().query_features(query).relu()


@dataclass(frozen=True, kw_only=True)
class ScaledElsewhere(ScaledDot):
    def factor(self, head_dim):
        return 0.7


class CalledGeneral(General):
    def forward(self, query, key):
        return super().forward(query, key).tanh()


class ComparedGeneral(General):
    def compare(self, query_features, key_features):
        return super().compare(query_features, key_features).tanh()


class CalledCosine(Cosine):
    def forward(self, query, key):
        return 2 - super().forward(query, key)


class CalledAdditive(Additive):
    def forward(self, query, key):
        return super().forward(query, key).exp()


class ComparedAdditive(Additive):
    def compare(self, query_features, key_features):
        return super().compare(query_features, key_features).exp()


class CalledGAT(GATScore):
    def forward(self, query, key):
        return 2 * super().forward(query, key)


class ComparedGATv2(GATv2Score):
    def compare(self, query_features, key_features):
        return 2 * super().compare(query_features, key_features)


class PlacedLocation(Location):
    def scores_at(self, query, key, at, **kept):
        return 2 * super().scores_at(query, key, at, **kept)


def hooked(score: nn.Module) -> nn.Module:
    score.register_forward_hook(lambda module, inputs, scores: 2 * scores)
    return score


def patched(score: nn.Module) -> nn.Module:
    whole = score.forward
    score.forward = lambda query, key: 2 * whole(query, key)
    return score


SCORES = {
    "called dot": CalledDot,
    "compared dot": ComparedDot,
    "featured dot": FeaturedDot,
    "dot with another scale": ScaledElsewhere,
    "called general": lambda: CalledGeneral(**SIZES),
    "compared general": lambda: ComparedGeneral(**SIZES),
    "called cosine": CalledCosine,
    "called additive": lambda: CalledAdditive(**SIZES, hidden_dim=16),
    "compared additive": lambda: ComparedAdditive(**SIZES, hidden_dim=16),
    "called GAT": lambda: CalledGAT(dim=WIDTH, num_heads=HEADS),
    "compared GATv2": lambda: ComparedGATv2(**SIZES, hidden_dim=16),
    "placed location": lambda: PlacedLocation(num_heads=HEADS, query_dim=WIDTH, max_length=LENGTH),
    "hooked general": lambda: hooked(General(**SIZES)),
    "patched general": lambda: patched(General(**SIZES)),
    "hooked additive": lambda: hooked(Additive(**SIZES, hidden_dim=16)),
    "patched GATv2": lambda: patched(GATv2Score(**SIZES, hidden_dim=16)),
}


@pytest.mark.parametrize(
    "rule", [everything(), causal() & window(left=6, right=0), GRAPH], ids=["all", "band", "graph"]
)
@pytest.mark.parametrize("normaliser", [Softmax(), Sparsemax()], ids=str)
@pytest.mark.parametrize("name", SCORES)
@torch.no_grad()
def test_every_path_computes_what_a_subclass_of_a_score_says(name, normaliser, rule):
    score, at, x = SCORES[name](), Positions.of(LENGTH, LENGTH), torch.randn(2, HEADS, LENGTH, WIDTH)
    attention = Attention(score, visibility=rule, normaliser=normaliser)
    scores = score.scores_at(x, x, at) if "location" in name else score(x, x)
    expected = normaliser(scores, rule(at).expand(2, HEADS, LENGTH, LENGTH)) @ x

    torch.testing.assert_close(attention.explain(x, x, x).context, expected, atol=1e-5, rtol=1e-5)
    for path in PATHS:
        if path.refuses(attention, x, x, at):
            continue
        features = [None] if "location" in name else [None, attention.key_features(x)]
        for given in features:
            context = path.run(attention, x, x, x, at=at, key_features=given, dropout=0.0)
            torch.testing.assert_close(context, expected, atol=1e-5, rtol=1e-5, msg=f"{path.name}, {given is None}")
    with record(attention) as seen:
        attention.run(x, x, x)
    torch.testing.assert_close(seen.records[0].weights() @ x, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("rule", [causal(), everything(), padding(), window(left=2, right=0), GRAPH], ids=str)
def test_a_rule_of_ours_cannot_be_subclassed(rule):
    with pytest.raises(TypeError, match="paths know without asking it"):
        type("Mine", (type(rule),), {})


def trace_of_one(attention: Attention, x: torch.Tensor) -> Trace:
    with torch.no_grad(), record(attention) as seen:
        attention.run(x, x, x)
    return Trace.of(seen, {"nodes": Track.numbered(LENGTH)})


@pytest.mark.parametrize("name", SCORES)
def test_a_trace_shows_what_a_subclass_of_a_score_says(name):
    score, x = SCORES[name](), torch.randn(1, HEADS, LENGTH, WIDTH)
    attention = Attention(score, visibility=causal())
    trace = trace_of_one(attention, x)
    expected = attention.explain(x, x, x).weights
    for head in range(HEADS):
        torch.testing.assert_close(trace.sites[0].weights(head)[0], expected[0, head], atol=2e-3, rtol=1e-2)


class HalfSoftmax(Softmax):
    def __call__(self, scores, visible):
        return 0.5 * super().__call__(scores, visible)

    def tile(self, scores, visible, statistic, *, first=0):
        return 0.5 * super().tile(scores, visible, statistic, first=first)


class CalledHalfSoftmax(Softmax):
    def __call__(self, scores, visible):
        return 0.5 * super().__call__(scores, visible)


class SteepAlibi(Alibi):
    def __call__(self, at):
        return 5 * super().__call__(at)


class FarGaussian(Gaussian):
    def __call__(self, at):
        return -super().__call__(at)


@pytest.mark.parametrize(
    "parts",
    [
        {"normaliser": HalfSoftmax()},
        {"normaliser": CalledHalfSoftmax()},
        {"bias": SteepAlibi(HEADS)},
        {"bias": FarGaussian(sigma=9.0)},
        {"reweight": FarGaussian(sigma=90.0)},
    ],
    ids=str,
)
def test_a_trace_shows_what_subclasses_of_other_parts_say(parts):
    x = torch.randn(1, HEADS, LENGTH, WIDTH)
    attention = Attention(visibility=causal(), **parts)
    trace = trace_of_one(attention, x)
    with record(attention) as seen:
        context = attention.run(x, x, x)
    expected = attention.explain(x, x, x)
    torch.testing.assert_close(context, expected.context, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(seen.records[0].weights(), expected.weights, atol=1e-5, rtol=1e-5)
    for head in range(HEADS):
        torch.testing.assert_close(trace.sites[0].weights(head)[0], expected.weights[0, head], atol=2e-3, rtol=1e-2)


def test_a_header_of_an_unknown_kind_is_refused_by_the_name_of_its_normaliser():
    class Named(Softmax):
        def header(self):
            return {"kind": "mine"}

    with pytest.raises(UsageError, match=r"Named\.header\(\) gives .*mine.* Leave `header` out"):
        trace_of_one(Attention(normaliser=Named()), torch.randn(1, HEADS, LENGTH, WIDTH))
