"""Attention over edges is attention under the graph's dense mask, with weights in the caller's order."""

import random
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from foveate.attention import (
    AdditiveConfig,
    Alibi,
    Attention,
    CosineConfig,
    Dot,
    GeneralConfig,
    Positions,
    ScaledDot,
    causal,
    edges,
    everything,
    padding,
    predicate,
    random_blocks,
    same_segment,
    window,
)
from foveate.attention.normaliser import Entmax, Hard, Normaliser, ReLU, Sigmoid, Softmax, Sparsemax
from foveate.attention.paths.edges import EdgesPath, edge_weights
from foveate.attention.score import GatConfig, GATScore, GatV2Config

SCORES = (
    ScaledDot(),
    GeneralConfig(),
    AdditiveConfig(hidden_dim=3),
    GatConfig(),
    GatV2Config(hidden_dim=5),
    CosineConfig(beta=2.0),
)
NORMALISERS = (
    Softmax(),
    Softmax(temperature=0.5),
    ReLU(),
    Sigmoid(bias=-1.0),
    Sparsemax(),
    Entmax(),
    Hard(mode="straight_through"),
)


def case(seed: int) -> tuple[Attention, list[Tensor], Positions, Tensor]:
    rng, _ = random.Random(seed), torch.manual_seed(seed)
    batch, heads, keys = rng.randint(1, 3), rng.choice([2, 4]), rng.randint(1, 9)
    queries = rng.choice([keys, rng.randint(1, 9)])
    start = rng.choice([0, 2])
    graph = torch.randint(0, 10, (2, rng.choice([0, 1, 20])))
    rest = rng.choice([everything(), padding(), causal() & padding(), window(left=2, right=1), same_segment()])
    rule = edges(graph, self_loops=rng.choice([True, False])) & rest
    lengths = torch.tensor([rng.randint(0, keys) for _ in range(batch)])
    at = Positions.of(queries, keys, query_start=start, key_lengths=rng.choice([None, lengths]))
    segments = torch.randint(0, 2, (batch, keys + queries))
    at = replace(at, query_segment=segments[:, None, :queries, None], key_segment=segments[:, None, None, queries:])
    score = SCORES[seed % 6].build(query_dim=4, key_dim=4, num_heads=rng.choice([1, heads]))
    bias, reweight = (
        rng.choice([None, Alibi(heads)]),
        rng.choice([None, lambda at: -((0.3 * (at.query - at.key)) ** 2)]),
    )
    normaliser = NORMALISERS[seed % 7]
    attention = Attention(score, visibility=rule, bias=bias, reweight=reweight, normaliser=normaliser).double()
    inputs = [torch.randn(batch, heads, queries, 4), *(torch.randn(batch, 2, keys, 4) for _ in range(2))]
    return attention, [tensor.double() for tensor in inputs], at, graph


def outcome(attention: Attention, inputs: list[Tensor], at: Positions, path: EdgesPath | None) -> list[Tensor]:
    inputs = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    context = attention.explain(*inputs, at=at).context if path is None else path.run(attention, *inputs, at=at)
    weights = list(attention.parameters())
    direction = torch.cos(torch.arange(context.numel()).double()).reshape(context.shape)
    gradients = torch.autograd.grad((context * direction).sum(), inputs + weights, allow_unused=True)
    zeros = (torch.zeros_like(tensor) for tensor in inputs + weights)
    return [context] + [zero if g is None else g for g, zero in zip(gradients, zeros, strict=True)]


def test_edges_are_the_dense_mask_with_gradients() -> None:
    for seed in range(150):
        attention, inputs, at, _ = case(seed)
        assert not EdgesPath().refuses(attention, inputs[0], inputs[1], at)
        for got, exact in zip(
            outcome(attention, inputs, at, EdgesPath()), outcome(attention, inputs, at, None), strict=True
        ):
            torch.testing.assert_close(got, exact, atol=1e-12, rtol=0, msg=lambda m, s=seed: f"seed {s}: {m}")


def test_weights_come_in_the_callers_order_and_self_loops_after_them() -> None:
    for seed in range(60):
        attention, (query, key, value), at, graph = case(seed)
        dense = attention.explain(query, key, value, at=at).weights
        result = edge_weights(attention, query, key, at=at)
        assert torch.equal(result.edges[:, : graph.shape[1]], graph)
        assert not result.added[: graph.shape[1]].any()
        assert result.added[graph.shape[1] :].all()
        assert (result.edges[0, result.added] == result.edges[1, result.added]).all()
        first = int(at.query[0, 0, 0, 0])
        for column, (source, target) in enumerate(result.edges.T.tolist()):
            row = target - first
            inside = 0 <= row < dense.shape[2] and source < dense.shape[3]
            exact = dense[:, :, row, source] if inside else torch.zeros(dense.shape[:2]).double()
            torch.testing.assert_close(result.weights[:, :, column], exact, atol=1e-13, rtol=0)


def test_graph_attention_networks_by_their_formula() -> None:
    torch.manual_seed(0)
    nodes, heads, dim = 6, 2, 4
    projected = torch.randn(1, heads, nodes, dim)
    graph = torch.tensor([[0, 1, 2, 3, 4, 5, 1], [1, 2, 3, 4, 5, 0, 4]])
    score = GATScore(dim=dim, num_heads=heads)
    attention = Attention(score, visibility=edges(graph, self_loops=True))
    context = EdgesPath().run(attention, projected, projected, projected, at=Positions.of(nodes, nodes))
    for head in range(heads):
        joined_vector = torch.cat([score.query_vector[head, :, 0], score.key_vector[head, :, 0]])
        for node in range(nodes):
            neighbours = [*graph[0, graph[1] == node].tolist(), node]
            pairs = torch.stack([torch.cat([projected[0, head, node], projected[0, head, j]]) for j in neighbours])
            weights = leaky_relu(pairs @ joined_vector, 0.2).softmax(0)
            torch.testing.assert_close(context[0, head, node], weights @ projected[0, head, neighbours])


def test_the_second_kind_of_graph_attention_by_its_formula() -> None:
    torch.manual_seed(0)
    nodes, heads, dim, hidden = 6, 2, 4, 3
    nodes_of = torch.randn(1, heads, nodes, dim)
    graph = torch.tensor([[0, 1, 2, 3, 4, 5, 1], [1, 2, 3, 4, 5, 0, 4]])
    score = GatV2Config(hidden_dim=hidden).build(query_dim=dim, key_dim=dim, num_heads=heads)
    attention, at = Attention(score, visibility=edges(graph, self_loops=True)), Positions.of(nodes, nodes)
    contexts = [EdgesPath().run(attention, nodes_of, nodes_of, nodes_of, at=at)]
    contexts.append(attention.explain(nodes_of, nodes_of, nodes_of, at=at).context)
    for head in range(heads):
        matrix = torch.cat([score.query_weight[head], score.key_weight[head]]).T  # the paper's W over [h_i ‖ h_j]
        for node in range(nodes):
            neighbours = [*graph[0, graph[1] == node].tolist(), node]
            scores = []
            for neighbour in neighbours:
                inside = matrix @ torch.cat([nodes_of[0, head, node], nodes_of[0, head, neighbour]])
                scores.append(score.vector[head] @ torch.where(inside > 0, inside, 0.2 * inside))
            weights = torch.stack(scores).softmax(0)
            for context in contexts:
                torch.testing.assert_close(context[0, head, node], weights @ nodes_of[0, head, neighbours])


def test_edges_of_a_complete_graph_are_full_attention() -> None:
    complete = torch.cartesian_prod(torch.arange(5), torch.arange(5)).T
    x = torch.randn(2, 1, 5, 4)
    got = EdgesPath().run(Attention(visibility=edges(complete)), x, x, x, at=Positions.of(5, 5))
    torch.testing.assert_close(got, Attention().explain(x, x, x).context)


@pytest.mark.parametrize("normaliser", NORMALISERS, ids=repr)
def test_nodes_of_very_different_degrees(normaliser: Normaliser) -> None:
    torch.manual_seed(0)
    nodes = 70
    hub = torch.stack([torch.arange(nodes), torch.full((nodes,), 3)])
    graph = edges(torch.cat([hub, hub.flip(0), torch.randint(0, nodes - 5, (2, 150))], 1)) & padding()
    attention = Attention(visibility=graph, normaliser=normaliser).double()
    x = torch.randn(2, 2, nodes, 4, dtype=torch.float64)
    at = Positions.of(nodes, nodes, key_lengths=torch.tensor([nodes, 40]))
    for got, exact in zip(
        outcome(attention, [x, x, x], at, EdgesPath()), outcome(attention, [x, x, x], at, None), strict=True
    ):
        torch.testing.assert_close(got, exact, atol=1e-12, rtol=0)


def test_a_node_without_edges_gets_zero_and_garbage_without_edges_stays() -> None:
    x = torch.randn(1, 1, 3, 2)
    key = x.clone()
    key[:, :, 2] = float("nan")
    key.requires_grad_()
    attention = Attention(Dot(), visibility=edges([[0, 1], [1, 0]]))
    context = EdgesPath().run(attention, x, key, key, at=Positions.of(3, 3))
    assert (context[0, 0, 2] == 0).all()
    context.sum().backward()
    assert context.isfinite().all()
    assert key.grad is not None
    assert key.grad.isfinite().all()


def test_padding_that_differs_between_examples_hides_edges_and_what_they_bring() -> None:
    at = Positions.of(3, 3, key_lengths=torch.tensor([2, 3]))
    x = torch.randn(2, 1, 3, 2)
    dirty = x.clone()
    dirty[0, :, 2] = float("nan")
    attention = Attention(visibility=edges([[0, 1, 2], [1, 2, 0]], self_loops=True) & padding())
    clean = EdgesPath().run(attention, x, x, x, at=at)
    assert torch.equal(EdgesPath().run(attention, x, dirty, dirty, at=at), clean)


def test_refusals() -> None:
    x, at = torch.randn(1, 1, 3, 2), Positions.of(3, 3)
    graph, path = edges([[0, 1], [1, 2]]), EdgesPath()

    def reason(attention: Attention, at: Positions = at) -> str:
        return "; ".join(path.refuses(attention, x, x, at))

    assert reason(Attention(visibility=causal())) == "causal() is not a graph"
    assert "single pairs" in reason(Attention(visibility=graph & random_blocks(block=1, count=1)))
    assert "single pairs" in reason(Attention(visibility=graph & predicate(lambda at: at.key > 0)))
    assert "in pairs" in reason(Attention(lambda query, key: query @ key.mT, visibility=graph))
    drawn = Attention(visibility=graph, normaliser=Hard(mode="sample"))
    assert "draws for all queries at once" in reason(drawn)
    assert not reason(drawn.eval())
    shifted = Positions.of(3, 3, key_lengths=torch.tensor([2]), side="left")
    assert (
        reason(Attention(visibility=graph), replace(shifted, key=shifted.key * 2))
        == "nodes do not stand one after the other"
    )
    with pytest.raises(ValueError, match="no edges to weigh"):
        edge_weights(Attention(visibility=causal()), x, x)
    with pytest.raises(ValueError, match="cannot be weighed one by one"):
        edge_weights(drawn.train(), x, x)


class ByExample(torch.nn.Module):
    """A trained number for each example, head, query and key, as a user writes it."""

    def __init__(self, batch: int, heads: int, nodes: int) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(batch, heads, nodes, nodes))

    def forward(self, at: Positions) -> Tensor:
        batch, heads = (torch.arange(size, device=at.device) for size in self.table.shape[:2])
        return self.table[batch[:, None, None, None], heads[:, None, None], at.query, at.key]


class ByRows(ByExample):
    """The same, written for the places that all examples share."""

    def forward(self, at: Positions) -> Tensor:
        return self.table[:, :, at.query[0, 0, :, 0]][..., at.key[0, 0, 0]]


@pytest.mark.parametrize("bias", [ByExample, ByRows])
@pytest.mark.parametrize("part", ["bias", "reweight"])
@pytest.mark.parametrize("number", [0, 1, 2, 3, 5, 70, 400])
def test_a_bias_that_tells_examples_apart_is_that_of_each_edge_however_many_there_are(
    bias: type[ByExample], part: str, number: int
) -> None:
    torch.manual_seed(number)
    nodes = 90
    for batch, heads in ((1, 1), (2, 1), (3, 2)):
        index = torch.randint(0, nodes, (2, number))
        index[1, : number // 4] = 7  # a hub
        tensors: dict[str, torch.nn.Module] = {part: bias(batch, heads, nodes)}
        attention = Attention(Dot(), visibility=edges(index) & padding(), normaliser=Sigmoid(), **tensors).double()
        lengths = torch.randint(1, nodes, (batch,))
        for at in (Positions.of(nodes, nodes), Positions.of(nodes, nodes, key_lengths=lengths)):
            inputs = [torch.randn(batch, heads, nodes, 4).double() for _ in range(3)]
            for got, exact in zip(
                outcome(attention, inputs, at, EdgesPath()), outcome(attention, inputs, at, None), strict=True
            ):
                torch.testing.assert_close(got, exact, atol=1e-12, rtol=0)
            dense = attention.explain(*inputs, at=at).weights
            result = edge_weights(attention, inputs[0], inputs[1], at=at)
            torch.testing.assert_close(result.weights, dense[:, :, index[1], index[0]], atol=1e-12, rtol=0)


def test_a_bias_that_judges_pairs_is_asked_once_and_one_that_does_not_about_few_more_pairs_than_there_are() -> None:
    nodes, calls = 4096, []

    class Counted:
        by_pair = False

        def __call__(self, at: Positions) -> Tensor:
            calls.append(at.query.shape[0] * at.query.shape[2] * at.key.shape[3])
            return -0.1 * (at.query - at.key).abs().double()

    near = (torch.arange(nodes).repeat_interleave(4) + torch.tensor([-2, -1, 0, 1]).repeat(nodes)).clamp(0, nodes - 1)
    index = torch.stack([near, torch.arange(nodes).repeat_interleave(4)])
    attention, x = Attention(Dot(), visibility=edges(index), bias=Counted()), torch.randn(1, 1, nodes, 4).double()
    at = Positions.of(nodes, nodes)
    context = EdgesPath().run(attention, x, x, x, at=at)
    assert sum(calls) < 80 * index.shape[1]
    calls.clear()
    Counted.by_pair = True
    torch.testing.assert_close(EdgesPath().run(attention, x, x, x, at=at), context)
    assert len(calls) == 1
