"""A part's statements hold for what it computes: a subclass or a hook that computes otherwise inherits none of them."""

from dataclasses import dataclass

import pytest
import torch
from jaxtyping import Bool
from torch import Tensor, nn

from foveate.attention import (
    PATHS,
    Alibi,
    Attention,
    Gaussian,
    Positions,
    RelativeBuckets,
    Rotary,
    Sigmoid,
    Softmax,
    Visibility,
    everything,
    record,
)
from foveate.attention.claim import claim
from foveate.inspect import Trace

LENGTH, WIDTH = 9, 4


@dataclass(frozen=True)
class Behind(Visibility):
    """A rule of a user's that states all that it can."""

    band, ahead, gapless, by_pair, hides, width = (2, 0), 0, True, True, True, 3

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads query key"]:
        return (at.key <= at.query) & (at.key >= at.query - 2)


@dataclass(frozen=True)
class Beyond(Behind):
    """Another answer, about which nothing is stated."""

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads query key"]:
        return at.key > at.query


@dataclass(frozen=True)
class Nowhere(Visibility):
    """A rule that leaves its answer to a subclass, and states something for all of them."""

    by_pair = True


class Somewhere(Nowhere):
    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads query key"]:
        return at.key != at.query


class CalledSoftmax(Softmax):
    def __call__(self, scores, visible):
        return Sigmoid()(scores, visible)


class TemperedSoftmax(Softmax):
    def tempered(self, scores):
        return scores.square()

    def statistic(self, scores, visible):
        return self.tempered(scores).logsumexp(-1)


class SteepAlibi(Alibi):
    def __call__(self, at):
        return super().__call__(at) * at.query


class NarrowGaussian(Gaussian):
    def __call__(self, at):
        return 3 * super().__call__(at)


def hooked(part: nn.Module) -> nn.Module:
    part.register_forward_hook(lambda module, inputs, answer: 2 * answer)
    return part


def runs_as_explained(attention: Attention) -> None:
    for dtype in (torch.float32, torch.float64):
        query, key, value = torch.randn(3, 1, 2, LENGTH, WIDTH, dtype=dtype)
        at = Positions.of(LENGTH, LENGTH)
        right = attention.explain(query, key, value, at=at).context
        for path in PATHS:
            if not path.refuses(attention, query, key, at):
                context = path.run(attention, query, key, value, at=at, key_features=None, dropout=0.0)
                torch.testing.assert_close(context, right, atol=1e-5, rtol=1e-5)


def traced_weights(attention: Attention) -> tuple[Tensor, Tensor]:
    """Weights of a trace, and those of the record that it was made from."""
    with record(nn.ModuleList([attention])) as seen, torch.no_grad():
        attention.run(*torch.randn(3, 1, 2, LENGTH, WIDTH))
    site = Trace.of(seen, stored="float32").sites[0]
    return torch.stack([site.weights(head)[0] for head in range(2)]), seen.records[0].weights()[0]


@pytest.mark.parametrize("rule", [Behind(), Beyond(), Somewhere(), ~Behind()], ids=str)
@torch.no_grad()
def test_a_rule_is_obeyed_whatever_its_base_states(rule: Visibility) -> None:
    runs_as_explained(Attention(visibility=rule))
    torch.testing.assert_close(*traced_weights(Attention(visibility=rule)))


def test_another_answer_inherits_nothing_that_was_stated_about_the_first() -> None:
    assert (Behind().band, Behind().width, Behind().by_pair) == ((2, 0), 3, True)
    assert (Beyond().band, Beyond().width, Beyond().by_pair) == (None, float("inf"), False)
    assert Somewhere().by_pair  # stated before there was any answer: for all of them


@pytest.mark.parametrize("normaliser", [CalledSoftmax(), TemperedSoftmax()], ids=lambda part: type(part).__name__)
@torch.no_grad()
def test_a_normaliser_is_used_whatever_its_base_states(normaliser: Softmax) -> None:
    assert claim(normaliser, "softmax_temperature") is None
    runs_as_explained(Attention(normaliser=normaliser))
    assert claim(normaliser, "header") is None


@pytest.mark.parametrize(
    "bias",
    [SteepAlibi(2), NarrowGaussian(2.0), hooked(RelativeBuckets(num_heads=2, num_buckets=4, max_distance=6))],
    ids=lambda part: type(part).__name__,
)
@torch.no_grad()
def test_a_bias_is_added_whatever_its_base_states(bias: object) -> None:
    assert claim(bias, "by_distance") is None
    runs_as_explained(Attention(bias=bias))
    torch.testing.assert_close(*traced_weights(Attention(bias=bias)), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(*traced_weights(Attention(reweight=bias)), atol=1e-5, rtol=1e-5)


def test_a_transform_that_turns_otherwise_does_not_write_what_its_base_does() -> None:
    class Backwards(Rotary):
        def query(self, query, at):
            return super().query(query, at).flip(-1)

    assert claim(Rotary(), "onnx") is not None
    assert claim(Backwards(), "onnx") is None


@torch.no_grad()
def test_a_part_that_states_something_of_one_object_is_believed() -> None:
    def nearer(at):
        return -(at.query - at.key).abs().float()

    nearer.by_distance = True
    attention = Attention(bias=nearer, visibility=everything())
    runs_as_explained(attention)
    torch.testing.assert_close(*traced_weights(attention))
    with record(nn.ModuleList([attention])) as seen:
        attention.run(*torch.randn(3, 1, 1, LENGTH, WIDTH))
    assert Trace.of(seen).sites[0].bias == {"kind": "distance", "first": 1 - LENGTH}
