"""A part's statements hold for what it computes: a subclass or a hook that computes otherwise inherits none of them."""

import copy
import pickle
from dataclasses import dataclass
from functools import cached_property

import pytest
import torch
from jaxtyping import Bool
from torch import Tensor, nn

from foveate.attention import (
    PATHS,
    Alibi,
    Attention,
    Dot,
    Gaussian,
    General,
    Hard,
    Positions,
    RelativeBuckets,
    Rotary,
    Sigmoid,
    Softmax,
    Visibility,
    causal,
    everything,
    padding,
    record,
)
from foveate.attention.claim import claim
from foveate.attention.normaliser import tells_place
from foveate.attention.paths.path import cutting_reasons
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


class Far:
    """An answer that is mixed into a rule."""

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads query key"]:
        return at.key < at.query - 2


class Mixed(Far, Behind):
    pass


@dataclass(frozen=True)
class Joint(Visibility):
    """A rule that states its parts."""

    @property
    def parts(self) -> tuple[Visibility, ...]:
        return causal(), padding()

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads query key"]:
        return (causal() & padding())(at)


class Apart(Joint):
    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads query key"]:
        return at.key >= at.query


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


@pytest.mark.parametrize("rule", [Behind(), Beyond(), Somewhere(), ~Behind(), Mixed(), Apart()], ids=str)
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


class Annealed(nn.Module):
    """A softmax of a user's, whose temperature may change."""

    softmax_temperature = 1.0

    def forward(self, scores, visible):
        return Softmax(self.softmax_temperature)(scores, visible)

    def statistic(self, scores, visible):
        return Softmax(self.softmax_temperature).statistic(scores, visible)

    def tile(self, scores, visible, statistic, *, first=0):
        return Softmax(self.softmax_temperature).tile(scores, visible, statistic, first=first)


def hook_score(attention: Attention) -> None:
    attention.score.register_forward_hook(lambda module, inputs, scores: 3 * scores)


def put_method_into_score(attention: Attention) -> None:
    attention.score.compare = lambda query, key: (query @ key.mT).tanh()


def put_method_into_class(attention: Attention) -> None:
    type(attention.score).forward = lambda self, query, key: (query @ key.mT).tanh()


def parametrise_score(attention: Attention) -> None:
    nn.utils.parametrize.register_parametrization(attention.score, "weight", nn.Tanh())


def hook_normaliser(attention: Attention) -> None:
    attention.normaliser.register_forward_hook(lambda module, inputs, weights: 2 * weights)


def anneal_normaliser(attention: Attention) -> None:
    attention.normaliser.softmax_temperature = 3.0


CHANGES = (
    hook_score,
    put_method_into_score,
    put_method_into_class,
    parametrise_score,
    hook_normaliser,
    anneal_normaliser,
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("bias", [None, Alibi(2)], ids=["plain", "biased"])
@torch.no_grad()
def test_a_part_that_changes_after_a_path_was_chosen_is_computed_as_it_is_now(change, bias) -> None:
    class Own(General):
        pass

    attention = Attention(Own(query_dim=16, key_dim=16), normaliser=Annealed(), bias=bias)
    tensors = torch.randn(3, 1, 2, LENGTH, 16)
    attention.run(*tensors)
    change(attention)
    torch.testing.assert_close(attention.run(*tensors), attention.explain(*tensors).context, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("hook", ["register_full_backward_hook", "register_full_backward_pre_hook"])
def test_a_backward_hook_of_a_score_changes_the_gradients_of_every_run(hook: str) -> None:
    score = General(query_dim=16, key_dim=16)
    getattr(score, hook)(lambda module, *grads: tuple(None if grad is None else 3 * grad for grad in grads[0]))
    attention, (query, key, value) = Attention(score), torch.randn(3, 1, 2, LENGTH, 16)
    query.requires_grad_()
    run = torch.autograd.grad(attention.run(query, key, value).square().sum(), query)[0]
    explained = torch.autograd.grad(attention.explain(query, key, value).context.square().sum(), query)[0]
    torch.testing.assert_close(run, explained, atol=1e-5, rtol=1e-4)


def test_a_restriction_holds_for_subclasses_and_hooked_modules() -> None:
    class Halved(Hard):
        def forward(self, scores, visible):
            return super().forward(scores, visible) / 2

    for normaliser in (Halved(mode="sample"), hooked(Hard(mode="sample"))):
        assert cutting_reasons(Attention(normaliser=normaliser))
    for normaliser in (Halved(mode="argmax"), hooked(Hard(mode="argmax"))):
        assert tells_place(normaliser)


def test_a_method_that_is_put_into_a_part_ends_what_its_class_states() -> None:
    score = General(query_dim=4, key_dim=4)
    assert claim(score, "onnx") is not None
    score.key_features = lambda key: key.relu()
    assert claim(score, "onnx") is None


def test_a_cached_property_computes_something() -> None:
    class Sloped:
        by_pair = True

        @cached_property
        def slope(self) -> float:
            return 1.0

    class Steeper(Sloped):
        @cached_property
        def slope(self) -> float:
            return 2.0

    assert claim(Sloped(), "by_pair")
    assert claim(Steeper(), "by_pair") is None


@torch.no_grad()
def test_kept_features_serve_no_score_whose_formula_a_subclass_in_between_overrides() -> None:
    class Capped(Dot):
        def __call__(self, query, key):
            return super().__call__(query, key).tanh()

    class Doubled(Capped):
        def query_features(self, query):
            return 2 * query

    attention, (query, key, value) = Attention(Doubled()), torch.randn(3, 1, 2, LENGTH, WIDTH)
    context = attention.run(query, key, value, key_features=attention.key_features(key))
    torch.testing.assert_close(context, attention.explain(query, key, value).context)


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda part: pickle.loads(pickle.dumps(part))], ids=["deep", "pickle"]
)
@torch.no_grad()
def test_copies_of_attentions_and_of_records_show_the_same(copied) -> None:
    attention = Attention(General(query_dim=WIDTH, key_dim=WIDTH), bias=Alibi(2), visibility=causal())
    tensors = torch.randn(3, 1, 2, LENGTH, WIDTH)
    with record(attention) as seen:
        context = attention.run(*tensors)
    same = copied(attention)
    assert same._chosen == {}
    torch.testing.assert_close(same.run(*tensors), context)
    entry = copied(seen.records[0])
    torch.testing.assert_close(entry.weights(), attention.explain(*tensors).weights)
    entry.formula.score.weight.mul_(2)
    for changed in (entry, copied(entry)):
        with pytest.raises(ValueError, match="record again"):
            changed.weights()
