"""Laws of models over nodes: the order, isolated nodes, nodes out of reach and other graphs do not matter."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from foveate.attention import AdditiveConfig, Attention, GatConfig, GatV2Config, ScaledDot
from foveate.attention.paths import edges as edges_module
from foveate.attention.paths.edges import EdgesPath
from foveate.attention.paths.path import Inputs
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
    """A model whose attention must run along edges, though dense products are faster for a few nodes."""
    torch.manual_seed(0)
    module = config.build(WIDTH, 3).eval()
    for attention in attentions(module):
        attention.paths = (EdgesPath(),)
    return module


def attentions(module: torch.nn.Module) -> list[Attention]:
    return [part for part in module.modules() if isinstance(part, Attention)]


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """How often the path over edges runs, and its kernel."""
    counts, path, kernel = Counter[str](), EdgesPath.context, edges_module.neighbour_context

    def context(self: EdgesPath, inputs: Inputs) -> Tensor:
        counts["edges"] += 1
        return path(self, inputs)

    def native(*parts: Any, **others: Any) -> Tensor:
        counts["kernel"] += 1
        return kernel(*parts, **others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EdgesPath, "context", context)
        patch.setattr(edges_module, "neighbour_context", native)
        yield counts


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
    order = np.random.default_rng(seed).permutation(len(graph))
    dense = graph.features.dense() if isinstance(graph.features, SparseRows) else graph.features
    larger = replace(graph, features=np.concatenate([dense, np.full((1, WIDTH), 1e4, np.float32)]))
    with counted() as runs:
        alone = answers(module, graph)
        close(answers(module, graph.permuted(order)), alone[torch.from_numpy(order)])
        close(answers(module, other, graph, other)[len(other) :][: len(graph)], alone)
        close(answers(module, larger)[:-1], alone)
    assert runs["kernel"] == runs["edges"] == 4 * len(attentions(module))


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
    with counted() as runs:
        result = output(features)
    assert runs["kernel"] == runs["edges"] == len(attentions(module))
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

        inputs = tuple(part.detach().double().requires_grad_() for part in (batch.features, *weights))
        with counted() as runs:
            assert torch.autograd.gradcheck(output, inputs)
        assert runs["edges"] > len(attentions(module)) > 0
        assert not runs["kernel"]
        exact = torch.autograd.grad(output(*inputs).square().sum(), inputs)
        single = tuple(part.detach().float().requires_grad_() for part in inputs)
        with counted() as runs:
            by_kernel = torch.autograd.grad(output(*single).square().sum(), single)
        assert runs["kernel"] == runs["edges"] == len(attentions(module))
        for ours, true in zip(by_kernel, exact, strict=True):
            torch.testing.assert_close(ours, true.float(), rtol=1e-4, atol=1e-5)
