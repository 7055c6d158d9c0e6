"""Neighbour sampling: what is drawn, and that all neighbours give the answers of the whole graph."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from foveate.attention import AdditiveConfig, GatConfig, GatV2Config
from foveate.data.graph import Graph
from foveate.data.graph_batch import GraphBatch
from foveate.data.neighbour_sample import NeighbourSampler
from foveate.data.sparse_row import SparseRows
from foveate.models.graph_encoder import (
    GraphAttentionConfig,
    GraphConvolutionConfig,
    GraphEncoderConfig,
    NodeMLPConfig,
)

NODES, WIDTH = 40, 5


def graph(*, directed: bool, sparse: bool, between: bool = False) -> Graph:
    """A random graph with a hub, self-loops and an isolated node."""
    draw = np.random.default_rng(0)
    pairs = draw.integers(0, NODES - 1, (60, 2)) if directed else np.sort(draw.integers(0, NODES - 1, (60, 2)), 1)
    hub = (
        np.stack([np.arange(1, 30), np.zeros(29, int)], 1)
        if directed
        else np.stack([np.zeros(29, int), np.arange(1, 30)], 1)
    )
    edges = np.unique(np.concatenate([pairs, hub]), axis=0).T
    numbers = draw.normal(size=(NODES, WIDTH)).astype(np.float32)
    rows = [{column: float(value) for column, value in enumerate(row) if value > 0} for row in numbers]
    return Graph(
        features=SparseRows.of(rows, width=WIDTH) if sparse else numbers,
        edges=edges,
        directed=directed,
        edge_features=draw.normal(size=(edges.shape[1], 2)).astype(np.float32) if between else None,
        labels=np.arange(NODES) % 3,
        classes=("a", "b", "c"),
    )


@pytest.mark.parametrize(
    "config",
    [
        GraphAttentionConfig(score=GatConfig(), num_heads=2),
        GraphAttentionConfig(score=GatV2Config(), num_heads=2, num_layers=3, self_loops=False),
        GraphAttentionConfig(score=AdditiveConfig(), num_layers=1),
        GraphConvolutionConfig(),
        GraphConvolutionConfig(num_layers=3),
        NodeMLPConfig(),
    ],
    ids=repr,
)
@pytest.mark.parametrize(("directed", "sparse", "between"), [(False, True, False), (True, False, True)])
def test_all_neighbours_give_the_answers_and_gradients_of_the_whole_graph(
    config: GraphEncoderConfig, directed: bool, sparse: bool, between: bool
) -> None:
    whole = graph(directed=directed, sparse=sparse, between=between)
    torch.manual_seed(0)
    model = config.build(WIDTH, 3, edge_dim=whole.edge_width).eval()
    targets = np.array([17, 0, 39, 5])
    fan_out = (int(np.bincount(whole.messages()[1]).max()),) * config.num_layers
    batch = NeighbourSampler(whole, fan_out).sample(targets, np.random.default_rng(3))
    answers = model(batch.graph)[batch.targets]
    expected = model(GraphBatch.of([whole]))[torch.from_numpy(targets)]
    torch.testing.assert_close(answers, expected, atol=1e-6, rtol=1e-5)
    weights = [*model.parameters()]
    ours, theirs = (
        torch.autograd.grad(part.square().sum(), weights, allow_unused=True) for part in (answers, expected)
    )
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
    assert batch.labels.tolist() == (targets % 3).tolist()


def test_a_fan_out_limits_the_edges_of_each_node_and_draws_each_once() -> None:
    whole = graph(directed=False, sparse=False)
    pairs = set(map(tuple, whole.messages().T.tolist()))
    for seed in range(20):
        batch = NeighbourSampler(whole, (3, 2)).sample(np.array([0, 4]), np.random.default_rng(seed))
        features = whole.features
        assert isinstance(features, np.ndarray)
        assert isinstance(batch.graph.features, torch.Tensor)
        numbers = [int((features == row).all(1).argmax()) for row in batch.graph.features.numpy()]
        drawn = [(numbers[source], numbers[target]) for source, target in batch.graph.edges.T.tolist()]
        assert len(set(drawn)) == len(drawn)
        assert set(drawn) <= pairs
        counts = {number: sum(target == number for _, target in drawn) for number in numbers}
        assert counts[0] == 3
        assert max(counts.values()) <= 3
        assert all(count <= 2 for number, count in counts.items() if number not in (0, 4))


def test_a_sample_is_a_function_of_its_generator_and_samples_differ() -> None:
    sampler = NeighbourSampler(graph(directed=False, sparse=True), (3, 2))
    samples = [sampler.sample(np.array([0, 4]), np.random.default_rng(seed)).graph.edges for seed in (1, 1, 2)]
    assert torch.equal(samples[0], samples[1])
    assert not torch.equal(samples[0], samples[2])


def test_edges_are_drawn_evenly_and_convolutions_expect_the_sum_over_all() -> None:
    star = Graph(
        features=np.eye(9, dtype=np.float32),
        edges=np.array([[0] * 8, range(1, 9)]),
        labels=np.zeros(9, int),
        classes=("a",),
    )
    sampler, generator = NeighbourSampler(star, (2,)), np.random.default_rng(0)
    torch.manual_seed(0)
    model = GraphConvolutionConfig(num_layers=1).build(9, 4).eval()
    counts, total, rounds = np.zeros(9), torch.zeros(4), 600
    for _ in range(rounds):
        batch = sampler.sample(np.array([0]), generator)
        assert isinstance(batch.graph.features, torch.Tensor)
        counts += batch.graph.features.sum(0).numpy()
        with torch.no_grad():
            total += model(batch.graph)[batch.targets][0]
    assert np.abs(counts[1:] / rounds - 2 / 8).max() < 0.06
    expected = model(GraphBatch.of([replace(star)]))[0]
    torch.testing.assert_close(total / rounds, expected.detach(), atol=0.05, rtol=0)
