"""The fused additive path: equal to the formula in float64, where features are extreme as well, and lean."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from foveate import native
from foveate.attention import (
    Additive,
    AdditiveConfig,
    Attention,
    GatV2Config,
    Hard,
    LocationAware,
    Positions,
    ScaledDot,
    Softmax,
    Visibility,
    causal,
    everything,
    padding,
)
from foveate.attention.paths import AdditivePath, ChunkedPath, MaterialisedPath, Path, pairwise
from foveate.attention.paths.materialised import materialise
from foveate.attention.paths.pairwise import pair_weights
from foveate.attention.paths.path import Inputs

PATH = AdditivePath()
PATHS: tuple[Path, ...] = (PATH, ChunkedPath(), MaterialisedPath())
Pair = Callable[[Tensor], Tensor]


@pytest.fixture(autouse=True)
def _compiled() -> None:
    assert pairwise.unavailable() in ("", "no native kernels: FOVEATE_NATIVE=0")


def served() -> bool:
    """Whether there are kernels: without, the path refuses and there is nothing to see."""
    return not pairwise.unavailable()


def plain(query: Tensor, key: Tensor, vector: Tensor, pair: Pair = torch.tanh) -> Tensor:
    return (pair(query[..., :, None, :] + key[..., None, :, :]) * vector[:, None, None, :]).sum(-1)


def tensors(queries: int, keys: int, hidden: int, scale: float = 1.0) -> list[Tensor]:
    torch.manual_seed(queries + keys + hidden)
    query, key = (scale * torch.randn(2, 2, length, hidden) for length in (queries, keys))
    return [tensor.requires_grad_() for tensor in (query, key, torch.randn(2, hidden) / hidden**0.5)]


def gradients(scores: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    torch.manual_seed(1)
    direction = torch.randn(scores.shape, dtype=torch.float64).to(scores.dtype)
    return [scores.detach(), *torch.autograd.grad((scores * direction).sum(), inputs)]


def compare(mine: list[Tensor], reference: list[Tensor], exact: list[Tensor]) -> None:
    for got, eager, truth in zip(mine, reference, exact, strict=True):
        size = truth.abs().max().clamp(min=1.0)
        allowed = max(8 * float((eager.double() - truth).abs().max() / size), 1e-5)
        assert float((got.double() - truth).abs().max() / size) <= allowed


@pytest.mark.parametrize("slope", [None, 0.2], ids=["tanh", "leaky_relu"])
@pytest.mark.parametrize(("queries", "keys", "hidden"), [(1, 5, 3), (2, 40, 64), (5, 7, 16), (33, 70, 100), (4, 0, 8)])
def test_scores_and_gradients_are_those_of_the_formula(
    queries: int, keys: int, hidden: int, slope: float | None
) -> None:
    if not served():
        return
    inputs = tensors(queries, keys, hidden)
    double = [tensor.detach().double().requires_grad_() for tensor in inputs]
    pair: Pair = torch.tanh if slope is None else lambda s: torch.nn.functional.leaky_relu(s, slope)
    mine = gradients(pair_weights(*inputs, softmax=False, slope=slope), inputs)
    if keys == 0:
        assert mine[0].shape == (2, 2, queries, 0)
        assert not any(gradient.any() for gradient in mine[1:])
        return
    compare(mine, gradients(plain(*inputs, pair), inputs), gradients(plain(*double, pair), double))


@pytest.mark.parametrize("queries", [1, 6])
@pytest.mark.parametrize(
    ("of_query", "of_key"), [(1e3, -1e3), (30.0, -29.0), (12.0, -9.0), (-45.0, 45.5), (1e30, -1e30), (80.0, 3.0)]
)
def test_extreme_features_lose_nothing(queries: int, of_query: float, of_key: float) -> None:
    """e^{2a} e^{2b} would overflow or vanish where a and b are far apart, though a + b is moderate."""
    if not served():
        return
    inputs = tensors(queries, 6, 48)
    with torch.no_grad():
        inputs[0][0, 0, :, ::2] += of_query
        inputs[1][0, 0, :, ::2] += of_key
    double = [tensor.detach().double().requires_grad_() for tensor in inputs]
    scores = pair_weights(*inputs, softmax=False)
    compare(
        gradients(scores, inputs),
        gradients(plain(*inputs), inputs),
        gradients(plain(*double).to(torch.float64), double),
    )


@pytest.mark.parametrize("scale", [3.0, 12.0, 60.0])
def test_saturated_units_have_small_but_right_gradients(scale: float) -> None:
    if not served():
        return
    inputs = tensors(9, 17, 64, scale)
    double = [tensor.detach().double().requires_grad_() for tensor in inputs]
    compare(
        gradients(pair_weights(*inputs, softmax=False), inputs),
        gradients(plain(*inputs), inputs),
        gradients(plain(*double), double),
    )


@pytest.mark.parametrize("queries", [1, 5])
def test_infinite_features_saturate_and_nan_stays_with_its_pair(queries: int) -> None:
    if not served():
        return
    query, key, vector = (tensor.detach() for tensor in tensors(queries, 6, 16))
    key[0, 0, 1, 3], key[0, 0, 2, 3], key[0, 0, 4, 3] = float("inf"), -float("inf"), float("nan")
    scores, expected = pair_weights(query, key, vector, softmax=False), plain(query, key, vector)
    assert torch.equal(scores.isnan(), expected.isnan())
    torch.testing.assert_close(scores, expected, equal_nan=True, atol=1e-5, rtol=0)
    weights = pair_weights(query, key, vector)
    assert torch.equal(weights.isnan(), expected.softmax(-1).isnan())


def test_hidden_pairs_are_not_read_and_get_nothing() -> None:
    if not served():
        return
    query, key, vector = tensors(5, 6, 16)
    visible = torch.rand(2, 1, 5, 6) < 0.5
    visible[0, 0, 2], visible[..., 4] = False, False
    with torch.no_grad():
        key[:, :, 4] = float("nan")
    weights = pair_weights(query, key, vector, visible=visible)
    expected = Softmax()(plain(query, key.nan_to_num(), vector), visible)
    torch.testing.assert_close(weights, expected, atol=1e-6, rtol=1e-5)
    assert (weights[(~visible).expand_as(weights)] == 0).all()
    grads = torch.autograd.grad(weights.square().sum(), (query, key, vector))
    assert all(grad.isfinite().all() for grad in grads)
    assert (grads[1][:, :, 4] == 0).all()


def attention(visibility: Visibility = everything(), **rest: object) -> Attention:
    torch.manual_seed(0)
    return Attention(Additive(query_dim=8, key_dim=6, hidden_dim=20, num_heads=4), visibility=visibility, **rest)


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randn(3, 4, 9, 8), torch.randn(3, 2, 9, 6), torch.randn(3, 2, 9, 5)


def test_a_bias_learns() -> None:
    if not served():
        return
    bias = torch.nn.Parameter(torch.randn(1, 4, 1, 9))
    site = attention(causal(), bias=lambda at: bias)
    direction = torch.randn(3, 4, 9, 5)
    arguments = {"at": Positions.of(9, 9), "key_features": None, "dropout": 0.0}
    (mine,) = torch.autograd.grad((PATH.run(site, *inputs(), **arguments) * direction).sum(), bias)
    (expected,) = torch.autograd.grad((site.explain(*inputs()).context * direction).sum(), bias)
    torch.testing.assert_close(mine, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("rest", [{"normaliser": Softmax(temperature=0.3)}, {"reweight": lambda at: -0.1 * at.key}])
def test_other_normalisers_and_reweighting_use_the_same_scores(rest: dict[str, object]) -> None:
    if not served():
        return
    site, at = attention(causal(), **rest), Positions.of(9, 9)
    context = PATH.run(site, *inputs(), at=at, key_features=None, dropout=0.0)
    torch.testing.assert_close(context, site.explain(*inputs(), at=at).context, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("queries", [1, 9])
def test_kept_key_features_give_the_same(queries: int) -> None:
    if not served():
        return
    site = attention(padding())
    query, key, value = inputs()
    at = Positions.of(queries, 9, key_lengths=torch.tensor([9, 3, 0]))
    heads = key.repeat_interleave(2, dim=1)
    rest = {"at": at, "dropout": 0.0}
    once = PATH.run(site, query[:, :, :queries], key, value, key_features=site.key_features(heads), **rest)
    torch.testing.assert_close(
        once, PATH.run(site, query[:, :, :queries], key, value, key_features=None, **rest), atol=1e-6, rtol=0
    )


def test_blocks_of_queries_give_what_one_piece_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    if not served():
        return
    site, at = attention(causal() & padding()), Positions.of(9, 9, key_lengths=torch.tensor([9, 4, 0]))

    def outcome() -> list[Tensor]:
        tensors = [tensor.requires_grad_() for tensor in inputs()]
        context = PATH.run(site, *tensors, at=at, key_features=None, dropout=0.0)
        return [context, *torch.autograd.grad(context.square().sum(), [*tensors, *site.parameters()])]

    whole = outcome()
    monkeypatch.setattr(pairwise, "ROOM", 4 * 3 * 4 * 9 * 2)
    for one, other in zip(outcome(), whole, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("rest", [{}, {"normaliser": Softmax(temperature=0.5)}, {"bias": lambda at: -0.1 * at.key}])
@pytest.mark.parametrize("copy", [False, True])
def test_a_step_that_sees_where_the_last_one_looked_runs_on_the_kernel(copy: bool, rest: dict[str, object]) -> None:
    if not served():
        return
    torch.manual_seed(0)
    score = LocationAware(query_dim=8, key_dim=6, hidden_dim=20, channels=3, width=5, num_heads=4)
    torch.nn.init.normal_(score.bias)
    site, (query, key, value) = Attention(score, visibility=padding(), **rest), inputs()
    key, value = (tensor.repeat_interleave(2, dim=1) for tensor in (key, value))
    at = replace(
        Positions.of(1, 9, key_lengths=torch.tensor([9, 4, 0])), previous=torch.rand(3, 4, 1, 9, requires_grad=True)
    )
    leaves = [query[:, :, :1].clone(), key, value]
    leaves = [*(tensor.requires_grad_() for tensor in leaves), at.previous, *score.parameters()]

    def outcome(way: Callable[..., tuple[Tensor, Tensor]]) -> list[Tensor]:
        features = score.key_features(key) if copy else None
        context, weights = way(site, *leaves[:3], at=at, key_features=features)
        loss = context.square().sum() + (weights * torch.arange(9)).sum()
        return [context, weights, *torch.autograd.grad(loss, leaves)]

    def whole(*args: object, **rest: object) -> tuple[Tensor, Tensor]:
        result = materialise(*args, **rest)
        return result.context, result.weights

    assert pairwise.looked_back(Inputs(site, *leaves[:3], at)) is not None
    for one, other in zip(outcome(Attention.step), outcome(whole), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
    assert pairwise.looked_back(Inputs(site.double(), *(x.double() for x in leaves[:3]), at)) is None


def test_draws_that_would_fall_into_blocks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    if not served():
        return
    site, (query, key, _) = attention(normaliser=Hard(mode="sample")), inputs()
    assert not PATH.refuses(site, query, key, Positions.of(9, 9))
    monkeypatch.setattr(pairwise, "ROOM", 4 * 3 * 4 * 9 * 2)
    assert PATH.refuses(site, query, key, Positions.of(9, 9)) == [f"{site.normaliser} draws for all queries at once"]
    assert not PATH.refuses(site, query[:, :, :2], key, Positions.of(2, 9))


@pytest.mark.parametrize("queries", [1, 6])
def test_a_visible_nan_value_reaches_only_queries_that_see_it(queries: int) -> None:
    if not served():
        return
    site = attention(padding())
    query, key, value = inputs()
    value[1, :, 2] = float("nan")
    value[2, :, 5] = float("nan")
    at = Positions.of(queries, 9, key_lengths=torch.tensor([9, 9, 5]))
    context = PATH.run(site, query[:, :, :queries], key, value, at=at, key_features=None, dropout=0.0)
    assert context.isnan().flatten(1).any(1).tolist() == [False, True, False]


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_change_nothing(threads: int) -> None:
    if not served():
        return
    before = torch.get_num_threads()
    parts = tensors(20, 33, 100)
    expected = gradients(pair_weights(*parts, softmax=False), parts)
    torch.set_num_threads(threads)
    try:
        for one, other in zip(gradients(pair_weights(*parts, softmax=False), parts), expected, strict=True):
            assert torch.equal(one, other)
    finally:
        torch.set_num_threads(before)


def test_graph_attention_of_all_pairs_needs_no_tensor_of_them_either() -> None:
    if not served():
        return
    torch.manual_seed(0)
    site = Attention(GatV2Config(hidden_dim=20).build(query_dim=8, key_dim=6, num_heads=4), visibility=causal())
    longer = [tensor.repeat(1, 1, 12, 1) for tensor in inputs()]
    assert site.plan(*longer[:2]).chosen == "additive"
    tensors, at = [tensor.requires_grad_() for tensor in inputs()], Positions.of(9, 9)
    mine = PATH.run(site, *tensors, at=at, key_features=None, dropout=0.0)
    expected = site.explain(*tensors, at=at).context
    leaves, direction = [*tensors, *site.parameters()], torch.randn(expected.shape)
    gradients = [torch.autograd.grad((context * direction).sum(), leaves) for context in (mine, expected)]
    for one, other in zip((mine, *gradients[0]), (expected, *gradients[1]), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_a_leaky_relu_at_zero_has_the_slope_that_torch_gives_it() -> None:
    if not served():
        return
    site = Attention(GatV2Config(hidden_dim=20).build(query_dim=8, key_dim=6, num_heads=4))
    weights = [torch.nn.init.zeros_(weight) for weight in (site.score.query_weight, site.score.key_weight)]
    tensors = inputs()
    mine = PATH.run(site, *tensors, at=Positions.of(9, 9), key_features=None, dropout=0.0)
    expected = site.explain(*tensors).context
    direction = torch.randn(expected.shape)
    gradients = [torch.autograd.grad((context * direction).sum(), weights) for context in (mine, expected)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "config", [AdditiveConfig(hidden_dim=20), GatV2Config(hidden_dim=20)], ids=["additive", "gat_v2"]
)
def test_a_traced_program_takes_another_path(config: object) -> None:
    torch.manual_seed(0)
    site, (query, key, value) = Attention(config.build(query_dim=8, key_dim=6, num_heads=4)), inputs()
    at = Positions.of(9, 9)

    def context(query: Tensor) -> Tensor:
        return site.run(query, key, value, at=at)

    pairwise.unavailable.cache_clear()  # a kernel's first check of itself must not be traced either
    mapped = torch.func.vmap(context)(query[None])[0]
    slope = torch.func.grad(lambda query: context(query).square().sum())(query)
    torch.testing.assert_close(mapped, site.explain(query, key, value, at=at).context)
    (expected,) = torch.autograd.grad(context(query.requires_grad_()).square().sum(), query)
    torch.testing.assert_close(slope, expected, atol=1e-5, rtol=1e-4)
    assert pairwise.unavailable() in ("", "no native kernels: FOVEATE_NATIVE=0")


def test_what_it_cannot_do_it_refuses_with_a_reason() -> None:
    x, at = torch.zeros(1, 1, 2, 4), Positions.of(2, 2)
    score = AdditiveConfig().build(query_dim=4, key_dim=4)
    assert PATH.refuses(Attention(ScaledDot()), x, x, at) == ["ScaledDot is not a sum of tanh or leaky ReLU"]
    assert PATH.refuses(Attention(LocationAware(query_dim=4, key_dim=4, hidden_dim=4)), x, x, at)
    double = x.double()
    assert PATH.refuses(Attention(score).double(), double, double, at) == ["computes in float32, not in torch.float64"]


def test_without_kernels_it_refuses_and_blocks_run_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOVEATE_NATIVE", "0")
    native.forget()
    pairwise.unavailable.cache_clear()
    try:
        torch.manual_seed(0)
        site = Attention(AdditiveConfig(hidden_dim=256).build(query_dim=8, key_dim=8), paths=PATHS)
        x = torch.randn(8, 1, 600, 8)
        reasons = {path.name: path.refuses(site, x, x, Positions.of(600, 600)) for path in PATHS}
        assert reasons["additive"] == ["no native kernels: FOVEATE_NATIVE=0"]
        assert site.plan(x, x).chosen == "chunked"
        small = x[:1, :, :5]
        torch.testing.assert_close(site.run(small, small, small), site.explain(small, small, small).context)
    finally:
        monkeypatch.undo()
        native.forget()
        pairwise.unavailable.cache_clear()


def test_with_kernels_it_is_chosen_for_many_pairs() -> None:
    if not served():
        return
    site = Attention(AdditiveConfig(hidden_dim=64).build(query_dim=8, key_dim=8), paths=PATHS)
    x = torch.randn(2, 1, 100, 8)
    assert isinstance(PATH, Path)
    assert site.plan(x, x).chosen == "additive"


def test_a_mask_that_changes_between_forward_and_backward_is_an_error() -> None:
    query, key, vector = torch.randn(1, 1, 4, 8, requires_grad=True), torch.randn(1, 1, 5, 8), torch.randn(1, 8)
    visible = torch.ones(1, 1, 4, 5, dtype=torch.bool)
    weights = pair_weights(query, key, vector, visible=visible)
    visible[..., 2:] = False
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        weights.square().sum().backward()
