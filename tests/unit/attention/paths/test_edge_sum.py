"""The kernel over edges computes the definition, in float32, with its gradients and theirs, and drops what it says."""

import random
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from foveate.attention import AdditiveConfig, Attention, CosineConfig, Dot, GatConfig, GatV2Config, Positions, edges
from foveate.attention.normaliser import Softmax
from foveate.attention.paths import edge_sum
from foveate.attention.paths import edges as edges_module
from foveate.attention.paths.edges import EdgesPath
from foveate.attention.score import GeneralConfig, Score, ScoreConfig
from foveate.attention.score.additive import LeakySum
from foveate.nn.graph_layer import EdgeBias

SCORES = (Dot(), GeneralConfig(), AdditiveConfig(hidden_dim=11), GatConfig(), GatV2Config(hidden_dim=9), CosineConfig())
Case = tuple[Attention, list[Tensor], tuple[Tensor, Tensor] | None]


def built(config: ScoreConfig, dim: int, heads: int) -> Score:
    sizes = {"query_dim": dim, "key_dim": dim, "num_heads": heads}
    return config if isinstance(config, Dot) else config.build(**sizes)  # type: ignore[union-attr,return-value]


def cases() -> Iterator[Case]:
    for seed in range(60):
        rng, _ = random.Random(seed), torch.manual_seed(seed)
        heads, nodes, dim = rng.choice([1, 2, 5]), rng.choice([1, 7, 70, 131]), rng.choice([1, 7, 8, 19])
        index = torch.randint(0, nodes, (2, rng.choice([0, 3, 4 * nodes])))
        numbers = torch.randn(index.shape[1], rng.choice([1, heads]), requires_grad=True)
        biased = rng.random() < 0.5
        score = (
            built(SCORES[seed % 7], dim, rng.choice([1, heads])) if seed % 7 < 6 else LeakySum(dim=dim, num_heads=heads)
        )
        rule = edges(index, self_loops=rng.choice([True, False]))
        attention = Attention(score, visibility=rule, normaliser=Softmax(rng.choice([1.0, 0.7])))
        batch, value_dim = rng.choice([1, 2]), rng.choice([dim, 3, 16])
        inputs = [torch.randn(batch, heads, nodes, dim) for _ in range(2)] + [
            torch.randn(batch, heads, nodes, value_dim)
        ]
        yield attention, inputs, (index, numbers) if biased else None


def outcome(case: Case, *, explained: bool, double: bool) -> list[Tensor]:
    attention, inputs, biased = case
    attention = attention.double() if double else attention.float()
    if biased:
        attention = attention.over(attention.visibility, bias=EdgeBias(*biased, inputs[0].shape[2]))
    inputs = [part.detach().to(torch.float64 if double else torch.float32).requires_grad_() for part in inputs]
    context = attention.explain(*inputs).context if explained else EdgesPath().run(attention, *inputs, at=at(inputs))
    weights = [*inputs, *attention.parameters(), *(biased[1:] if biased else ())]
    direction = torch.cos(torch.arange(context.numel()).to(context.dtype)).reshape(context.shape)
    gradients = torch.autograd.grad((context * direction).sum(), weights, allow_unused=True)
    pairs = zip(weights, gradients, strict=True)
    return [context.detach(), *(torch.zeros_like(weight) if grad is None else grad for weight, grad in pairs)]


def at(inputs: list[Tensor]) -> Positions:
    return Positions.of(inputs[0].shape[2], inputs[1].shape[2])


def test_context_and_gradients_are_those_of_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not edge_sum.unavailable()
    calls = 0

    def counted(*arguments: object, **others: object) -> Tensor:
        nonlocal calls
        calls += 1
        return edge_sum.neighbour_context(*arguments, **others)  # type: ignore[arg-type]

    monkeypatch.setattr(edges_module, "neighbour_context", counted)
    for number, case in enumerate(cases()):
        exact = outcome(case, explained=True, double=True)
        ours = outcome(case, explained=False, double=False)
        theirs = outcome(case, explained=True, double=False)
        for got, eager, true in zip(ours, theirs, exact, strict=True):
            error, allowed = (float((part - true).abs().amax()) if true.numel() else 0.0 for part in (got, eager))
            assert error <= 4 * allowed + 2e-6 * (1 + float(true.abs().amax()) if true.numel() else 1), number
    assert calls == 60


def test_gradients_have_gradients() -> None:
    torch.manual_seed(0)
    index = torch.tensor([[0, 1, 2, 4], [1, 2, 0, 0]])
    numbers = torch.randn(4, 2, requires_grad=True)
    for config in (Dot(), GatV2Config(hidden_dim=9)):
        score = built(config, 3, 2)
        inputs = [torch.randn(1, 2, 5, 3, requires_grad=True) for _ in range(3)]
        second = []
        for explained in (False, True):
            bias = EdgeBias(index, numbers, 5)
            attention = Attention(score, visibility=edges(index, self_loops=True), bias=bias)
            path = EdgesPath().run
            context = attention.explain(*inputs).context if explained else path(attention, *inputs, at=at(inputs))
            (slope,) = torch.autograd.grad(context.square().sum(), inputs[:1], create_graph=True)
            second.append(torch.autograd.grad(slope.square().sum(), [*inputs, numbers]))
        for ours, exact in zip(*second, strict=True):
            torch.testing.assert_close(ours, exact, rtol=1e-4, atol=1e-5)


def test_dropout_drops_at_its_rate_from_the_seed_and_gradients_see_the_same_noise() -> None:
    nodes, heads, rate = 400, 2, 0.3
    index = torch.stack([torch.arange(nodes).repeat(20), torch.arange(nodes).repeat_interleave(20)])
    attention = Attention(Dot(), visibility=edges(index))
    zeros, value = torch.zeros(1, heads, nodes, 1), torch.ones(1, heads, nodes, 1, requires_grad=True)
    places = at([zeros, zeros])

    def run(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return EdgesPath().run(attention, zeros, zeros, value, at=places, dropout=rate)

    context = run(1)
    assert torch.equal(context, run(1))
    assert not torch.equal(context, run(2))
    assert not torch.equal(context[:, 0], context[:, 1])
    # 16,000 weights: the mean of what is kept deviates by √(0.3 · 0.7 / 16000) / 0.7 = 0.005.
    assert float(context.detach().mean()) == pytest.approx(1, abs=0.03)
    counts = context.detach() * 20 * (1 - rate)
    assert torch.allclose(counts, counts.round(), atol=1e-3)
    (grad,) = torch.autograd.grad(context.sum(), value)
    assert float(grad.sum()) == pytest.approx(float(context.detach().sum()), rel=1e-5)
    inputs = [torch.randn(1, heads, nodes, 3, requires_grad=True) for _ in range(3)]

    def slopes(create: bool) -> tuple[Tensor, ...]:
        torch.manual_seed(3)
        context = EdgesPath().run(attention, *inputs, at=places, dropout=rate)
        return torch.autograd.grad(context.square().sum(), inputs, create_graph=create)

    for by_kernel, by_definition in zip(slopes(False), slopes(True), strict=True):
        torch.testing.assert_close(by_kernel, by_definition.detach(), rtol=1e-4, atol=1e-5)


def test_second_derivatives_with_dropout_are_the_same_with_another_default_dtype() -> None:
    attention, answers = Attention(Dot(), visibility=edges([[0, 1, 2, 0], [1, 0, 1, 2]], self_loops=True)), []
    inputs = [torch.randn(1, 2, 3, 4, requires_grad=True) for _ in range(3)]
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(0)
        torch.set_default_dtype(dtype)
        try:
            context = EdgesPath().run(attention, *inputs, at=at(inputs), dropout=0.4)
            answers.append(torch.autograd.grad(context.square().sum(), inputs, create_graph=True))
        finally:
            torch.set_default_dtype(torch.float32)
    for one, other in zip(*answers, strict=True):
        assert torch.equal(one, other)


def test_a_node_that_looks_at_nothing_has_the_context_0_and_what_nobody_sees_may_be_nan() -> None:
    attention = Attention(GatConfig().build(query_dim=2, key_dim=2), visibility=edges([[0], [1]]))
    x = torch.randn(1, 1, 3, 2)
    x[0, 0, 2] = torch.nan
    x.requires_grad_()
    context = EdgesPath().run(attention, x[:, :, :2], x, x, at=Positions.of(2, 3))
    assert context[0, 0, 0].tolist() == [0, 0]
    assert torch.equal(context[0, 0, 1], x[0, 0, 0])
    gradients = torch.autograd.grad(context.sum(), [x, *attention.parameters()])
    assert all(bool(part.isfinite().all()) for part in gradients)


@pytest.mark.parametrize("dim", [3, 8, 11])
def test_where_sums_are_0_the_slope_is_that_of_torch(dim: int) -> None:
    torch.manual_seed(dim)
    attention = Attention(LeakySum(dim=dim, num_heads=2), visibility=edges([[0, 1, 2, 0], [1, 0, 1, 2]]))
    inputs = [torch.zeros(1, 2, 3, dim), torch.zeros(1, 2, 3, dim), torch.randn(1, 2, 3, 4)]
    inputs[0][:, :, 0], inputs[1][:, :, 1] = 1, -1
    case = (attention, inputs, None)
    for ours, exact in zip(*(outcome(case, explained=way, double=False) for way in (False, True)), strict=True):
        torch.testing.assert_close(ours, exact)


@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("bad", [torch.inf, torch.nan])
@pytest.mark.parametrize("config", [Dot(), GatConfig(), GatV2Config(hidden_dim=9)])
def test_what_is_not_a_number_in_the_definition_is_none_in_the_kernel(
    config: ScoreConfig, bad: float, rate: float
) -> None:
    torch.manual_seed(0)
    attention = Attention(built(config, 3, 1), visibility=edges([[0, 1, 2, 0], [1, 0, 1, 2]], self_loops=True))
    inputs = [torch.randn(1, 1, 3, 3).abs() for _ in range(3)]
    inputs[1][0, 0, 0, 1] = bad
    inputs = [part.requires_grad_() for part in inputs]
    lost = []
    for create in (False, True):  # gradients that have gradients are those of the definition
        torch.manual_seed(1)
        context = EdgesPath().run(attention, *inputs, at=at(inputs), dropout=rate)
        gradients = torch.autograd.grad(context.sum(), [*inputs, *attention.parameters()], create_graph=create)
        lost.append([part.isnan() for part in gradients])
    assert bool(lost[1][2].any()) or bad == torch.inf
    assert [part.tolist() for part in lost[0]] == [part.tolist() for part in lost[1]]


def test_threads_do_not_change_the_numbers() -> None:
    case = next(case for case in cases() if case[1][0].shape[2] == 131)
    threads = torch.get_num_threads()
    results = []
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            results.append(outcome(case, explained=False, double=False))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


@pytest.mark.parametrize("config", [Dot(), GatConfig(), LeakySum(dim=3, num_heads=2)], ids=repr)
def test_sums_over_many_edges_are_as_exact_as_over_few(config: ScoreConfig | LeakySum) -> None:
    torch.manual_seed(0)
    nodes = 100_000
    score = config if isinstance(config, LeakySum) else built(config, 3, 2)
    spokes = torch.stack([torch.arange(1, nodes), torch.zeros(nodes - 1, dtype=torch.long)])
    attention = Attention(score, visibility=edges(torch.cat([spokes, spokes.flip(0)], 1), self_loops=True))
    inputs = [torch.rand(1, 2, nodes, 3), torch.rand(1, 2, nodes, 3), 1 + torch.rand(1, 2, nodes, 4)]
    results = []
    for dtype in (torch.float32, torch.float64):
        weighing, parts = attention.to(dtype), [part.to(dtype).requires_grad_() for part in inputs]
        context = EdgesPath().run(weighing, *parts, at=at(parts))
        direction = 1 + torch.cos(torch.arange(context.numel(), dtype=dtype)).view(context.shape)
        vectors = [score.vector] if isinstance(score, LeakySum) else []
        gradients = torch.autograd.grad((context * direction).sum(), [*parts, *vectors])
        results.append([part.detach().double() for part in (context[:, :, 0], context, *gradients)])
    for single, double in zip(*results, strict=True):
        assert float((single - double).abs().max() / double.abs().max().clamp(min=1)) < 3e-6


def test_scores_beyond_the_range_of_exponentials_have_the_weights_of_the_definition() -> None:
    attention = Attention(Dot(), visibility=edges([[0, 1, 2, 0], [1, 0, 1, 2]], self_loops=True))
    query, key = torch.full((1, 1, 3, 1), 100.0), torch.tensor([3.0, 3.01, -4.0]).view(1, 1, 3, 1)
    case = (attention, [query, key, torch.randn(1, 1, 3, 4)], None)
    for ours, exact in zip(*(outcome(case, explained=way, double=False) for way in (False, True)), strict=True):
        torch.testing.assert_close(ours, exact)
