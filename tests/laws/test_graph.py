"""Laws of models over nodes: the order, isolated nodes, nodes out of reach and other graphs do not matter."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from foveate.attention import AdditiveConfig, GatConfig, GatV2Config, ScaledDot
from foveate.data.graph import Graph
from foveate.data.graph_batch import GraphBatch
from foveate.data.sparse_row import SparseRows
from foveate.models.graph_encoder import (
    GraphAttentionConfig,
    GraphConvolutionConfig,
    GraphEncoderConfig,
    NodeMLPConfig,
)

WIDTH = 4
CONFIGS: list[GraphEncoderConfig] = [
    GraphAttentionConfig(),
    GraphAttentionConfig(score=GatV2Config(), num_heads=2, output_heads=2),
    GraphAttentionConfig(score=ScaledDot(), num_layers=1, self_loops=False),
    GraphAttentionConfig(score=AdditiveConfig(), num_layers=3, num_heads=1),
    GraphConvolutionConfig(),
    NodeMLPConfig(),
]


KINDS = st.tuples(st.integers(2, 9), st.booleans(), st.booleans(), st.integers(0, 2**16))
"""Number of nodes, whether the graph is directed, whether its features are sparse, and a seed."""


def drawn(kind: tuple[int, bool, bool, int]) -> Graph:
    nodes, directed, sparse, seed = kind
    generator = np.random.default_rng(seed)
    pairs = [(i, j) for i in range(nodes) for j in range(nodes) if (directed or i <= j) and generator.random() < 0.3]
    features = generator.normal(size=(nodes, WIDTH)).astype(np.float32)
    if sparse:
        rows = [{c: float(v) for c, v in enumerate(row) if v > 0} for row in features]
        return Graph(features=SparseRows.of(rows, width=WIDTH), edges=edge_array(pairs), directed=directed)
    return Graph(features=features, edges=edge_array(pairs), directed=directed)


def edge_array(pairs: list[tuple[int, int]]) -> np.ndarray:
    return np.array(pairs, np.int64).reshape(-1, 2).T


def model(config: GraphEncoderConfig) -> torch.nn.Module:
    torch.manual_seed(0)
    return config.build(WIDTH, 3).eval()


def answers(module: torch.nn.Module, *graphs: Graph) -> Tensor:
    with torch.no_grad():
        result: Tensor = module(GraphBatch.of(graphs))
    return result


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("config", CONFIGS, ids=repr)
@settings(max_examples=8, deadline=None)
@given(kinds=st.tuples(KINDS, KINDS), seed=st.integers(0, 99))
def test_order_isolated_nodes_and_other_graphs_do_not_matter(config: GraphEncoderConfig, kinds: Any, seed: int) -> None:
    module, (graph, other) = model(config), map(drawn, kinds)
    alone = answers(module, graph)
    order = np.random.default_rng(seed).permutation(len(graph))
    close(answers(module, graph.permuted(order)), alone[torch.from_numpy(order)])
    close(answers(module, other, graph, other)[len(other) :][: len(graph)], alone)
    dense = graph.features.dense() if isinstance(graph.features, SparseRows) else graph.features
    larger = replace(graph, features=np.concatenate([dense, np.full((1, WIDTH), 1e4, np.float32)]))
    close(answers(module, larger)[:-1], alone)


@pytest.mark.parametrize("config", CONFIGS, ids=repr)
@settings(max_examples=8, deadline=None)
@given(kind=KINDS)
def test_a_node_depends_on_its_neighbours_within_as_many_steps_as_there_are_layers(
    config: GraphEncoderConfig, kind: Any
) -> None:
    graph = drawn(kind)
    dense = graph.features.dense() if isinstance(graph.features, SparseRows) else graph.features
    batch, module = GraphBatch.of([replace(graph, features=dense)]), model(config)

    def output(features: Tensor) -> Tensor:
        result: Tensor = module(replace(batch, features=features))
        return result

    assert isinstance(batch.features, Tensor)
    rows = []
    features = batch.features.clone().requires_grad_()
    result = output(features)
    for node in range(len(graph)):
        (grad,) = torch.autograd.grad(result[node].sum() + 0 * features.sum(), features, retain_graph=True)
        rows.append(grad.abs().sum(1) > 0)
    step = torch.eye(len(graph))
    adjacent = torch.zeros(len(graph), len(graph))
    if not isinstance(config, NodeMLPConfig):
        adjacent[batch.edges[1], batch.edges[0]] = 1
    for _ in range(config.num_layers):
        step = ((adjacent + torch.eye(len(graph))) @ step > 0).float()
    assert not (torch.stack(rows) & (step == 0)).any()


def test_the_edge_path_has_the_gradients_of_finite_differences() -> None:
    torch.manual_seed(0)
    graph = Graph(features=np.random.default_rng(0).normal(size=(5, WIDTH)), edges=edge_array([(0, 1), (1, 2), (3, 3)]))
    batch = GraphBatch.of([graph])
    for score in (GatConfig(), GatV2Config(), ScaledDot()):
        config = GraphAttentionConfig(score=score, num_heads=2, head_dim=2)
        module = model(config).double()
        assert isinstance(batch.features, Tensor)
        names, weights = zip(*module.named_parameters(), strict=True)

        def output(features: Tensor, *weights: Tensor, names: Any = names, module: Any = module) -> Tensor:
            changed = dict(zip(names, weights, strict=True))
            result: Tensor = torch.func.functional_call(module, changed, replace(batch, features=features))
            return result

        weights = tuple(weight.detach().requires_grad_() for weight in weights)
        assert torch.autograd.gradcheck(output, (batch.features.double().requires_grad_(), *weights))
