"""Laws of models over whole graphs: the order of nodes and other graphs do not matter; read-out weights sum to 1."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from foveate.attention import AdditiveConfig, Attention, AttentionConfig, GatV2Config, Positions, record, window
from foveate.attention.bias import AlibiConfig
from foveate.attention.paths import PATHS
from foveate.data.graph import Graph
from foveate.data.graph_batch import GraphBatch
from foveate.data.graph_place import APART, GraphPlaceConfig, LaplacianConfig, RandomWalkConfig, distances
from foveate.data.whole_graph import PlacedGraph, WholeGraphBatch
from foveate.models.graph_encoder import GraphAttentionConfig, GraphConvolutionConfig, NodeMLPConfig
from foveate.models.graph_predictor import GraphPredictor, GraphPredictorConfig
from foveate.models.graph_transformer import GraphTransformerConfig, Within
from foveate.nn.readout import AttentionReadoutConfig, MeanReadoutConfig, SumReadoutConfig
from foveate.nn.transformer_block import BlockConfig

WIDTH, EDGE_WIDTH = 4, 3


def transformer(attention: AttentionConfig = AttentionConfig(), **settings: Any) -> GraphTransformerConfig:
    block = BlockConfig(model_dim=16, num_heads=4, feedforward_dim=24, norm="pre", encoder_attention=attention)
    return GraphTransformerConfig(block=block, num_layers=2, **settings)


CONFIGS = [
    GraphPredictorConfig(encoder=transformer(), hidden_dim=16),
    GraphPredictorConfig(encoder=transformer(reach=1, place=None), readout=SumReadoutConfig(), hidden_dim=16),
    GraphPredictorConfig(
        encoder=transformer(AttentionConfig(score=GatV2Config()), reach=2, max_distance=1),
        readout=AttentionReadoutConfig(num_heads=2, total=False),
        hidden_dim=16,
    ),
    GraphPredictorConfig(
        encoder=transformer(AttentionConfig(score=AdditiveConfig())), readout=MeanReadoutConfig(), hidden_dim=16
    ),
    GraphPredictorConfig(encoder=GraphAttentionConfig(), hidden_dim=16),
    GraphPredictorConfig(encoder=GraphConvolutionConfig(), readout=SumReadoutConfig(), hidden_dim=16),
    GraphPredictorConfig(encoder=NodeMLPConfig(), hidden_dim=16),
]
GRAPHS = st.tuples(st.integers(1, 9), st.integers(0, 2**16))
"""Number of nodes, and a seed."""


def drawn(kind: tuple[int, int]) -> Graph:
    """A graph, which may have several parts."""
    nodes, seed = kind
    generator = np.random.default_rng(seed)
    pairs = [(i, j) for i in range(nodes) for j in range(i + 1, nodes) if generator.random() < 0.3]
    return Graph(
        features=generator.normal(size=(nodes, WIDTH)),
        edges=np.array(pairs, np.int64).reshape(-1, 2).T,
        edge_features=generator.normal(size=(len(pairs), EDGE_WIDTH)).astype(np.float32),
    )


def model(config: GraphPredictorConfig) -> GraphPredictor:
    """A model in which distances and edges matter from the start."""
    torch.manual_seed(0)
    module = config.build(WIDTH, 2, edge_dim=EDGE_WIDTH).eval()
    for name, weight in module.named_parameters():
        if name == "encoder.pair.weight":
            torch.nn.init.normal_(weight)
    return module


def answers(module: torch.nn.Module, place: GraphPlaceConfig | None, *graphs: Graph) -> Tensor:
    with torch.no_grad():
        result: Tensor = module(WholeGraphBatch.of_placed([PlacedGraph(graph, place) for graph in graphs]))
    return result


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("config", CONFIGS, ids=range(len(CONFIGS)))
@settings(max_examples=4, deadline=None)
@given(kinds=st.tuples(GRAPHS, GRAPHS), seed=st.integers(0, 99))
def test_the_order_of_nodes_and_other_graphs_do_not_matter(config: GraphPredictorConfig, kinds: Any, seed: int) -> None:
    module, (graph, other) = model(config), map(drawn, kinds)
    alone = answers(module, config.place, graph)
    order = np.random.default_rng(seed).permutation(len(graph))
    close(answers(module, config.place, graph.permuted(order)), alone)
    close(answers(module, config.place, other, graph, other)[1:2], alone)


@settings(max_examples=4, deadline=None)
@given(kinds=st.tuples(GRAPHS, GRAPHS), seed=st.integers(0, 99))
def test_features_of_a_graph_change_its_answer_and_no_other(kinds: Any, seed: int) -> None:
    generator = np.random.default_rng(seed)
    (one, other), config = map(drawn, kinds), CONFIGS[0]
    torch.manual_seed(0)
    module = config.build(WIDTH, 2, edge_dim=EDGE_WIDTH, graph_dim=3).eval()
    features = generator.normal(size=(3, 3)).astype(np.float32)

    def batch(*pairs: tuple[Graph, np.ndarray]) -> WholeGraphBatch:
        return WholeGraphBatch.of_placed([PlacedGraph(graph, config.place, row) for graph, row in pairs])

    before = module(batch((one, features[0]), (other, features[1]))).detach()
    after = module(batch((one, features[0]), (other, features[2]))).detach()
    order = generator.permutation(len(one))
    close(module(batch((one.permuted(order), features[0]))).detach(), before[:1])
    close(after[0], before[0])
    assert (after[1] - before[1]).abs().max() > 1e-4
    module(batch((one, features[0]), (other, features[1]))).square().sum().backward()
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in module.graph.parameters())
    with pytest.raises(ValueError, match="reads features of whole graphs"):
        answers(module, config.place, one)


@settings(max_examples=8, deadline=None)
@given(kinds=st.lists(GRAPHS, min_size=1, max_size=3))
def test_weights_of_the_read_out_sum_to_one_over_the_nodes_of_each_graph(kinds: Any) -> None:
    module, graphs = model(CONFIGS[0]), [drawn(kind) for kind in kinds]
    with record(module) as recording:
        answers(module, CONFIGS[0].place, *graphs)
    weights = recording["readout.attention"].weights()
    for row, graph in zip(weights, graphs, strict=True):
        close(row[..., : len(graph)].sum(-1), torch.ones(row.shape[:2]))
        assert not row[..., len(graph) :].any()


@settings(max_examples=8, deadline=None)
@given(kind=GRAPHS, reach=st.integers(1, 4))
def test_an_atom_looks_as_far_as_the_reach_and_no_farther(kind: Any, reach: int) -> None:
    graph, config = drawn(kind), GraphPredictorConfig(encoder=transformer(reach=reach), hidden_dim=16)
    with record(module := model(config)) as recording:
        answers(module, config.place, graph)
    weights = recording["encoder.blocks.0.attention.attention"].weights()[0]
    near = torch.from_numpy(distances(graph)) <= reach
    assert ((weights > 0) == near).all()


def test_every_path_gives_the_same_answers_and_gradients_with_edges_and_distances_as_a_bias() -> None:
    graphs = [drawn((nodes, nodes)) for nodes in (1, 5, 9)]
    batch = WholeGraphBatch.of_placed([PlacedGraph(graph, RandomWalkConfig()) for graph in graphs])
    for config in (CONFIGS[0], GraphPredictorConfig(encoder=transformer(reach=1), hidden_dim=16)):
        results = []
        for chosen in (PATHS, [path for path in PATHS if path.name == "materialised"]):
            module = model(config)
            for part in module.modules():
                if isinstance(part, Attention):
                    part.paths = tuple(chosen)
            output = module(batch)
            output.square().sum().backward()
            results.append([output.detach(), *(weight.grad for weight in module.parameters())])
        assert results[0][1] is not None
        for one, other in zip(*results, strict=True):
            torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
        gradient = module.encoder.pair.weight.grad  # type: ignore[union-attr]
        assert isinstance(gradient, Tensor)
        assert gradient.abs().sum(0).count_nonzero() >= 2 + EDGE_WIDTH  # distances 0 and 1 at least


@settings(max_examples=8, deadline=None)
@given(kind=GRAPHS)
def test_distances_are_those_of_breadth_first_search(kind: Any) -> None:
    graph = drawn(kind)
    source, target = graph.messages()
    neighbours = {node: source[target == node].tolist() for node in range(len(graph))}
    for start in range(len(graph)):
        reached, ring = {start: 0}, [start]
        while ring:
            ring = [node for here in ring for node in neighbours[here] if node not in reached or reached[node] == -1]
            ring = list(dict.fromkeys(ring))
            reached |= dict.fromkeys(ring, max(reached.values()) + 1)
        expected = [reached.get(node, APART) for node in range(len(graph))]
        assert distances(graph)[start].tolist() == expected


@settings(max_examples=8, deadline=None)
@given(kind=GRAPHS, seed=st.integers(0, 99))
def test_places_by_random_walks_go_with_their_nodes_and_eigenvectors_solve_their_equation(kind: Any, seed: int) -> None:
    graph = drawn(kind)
    order = np.random.default_rng(seed).permutation(len(graph))
    walks = RandomWalkConfig(steps=5)
    assert np.allclose(walks.vectors(graph.permuted(order)), walks.vectors(graph)[order], atol=1e-6)
    vectors = LaplacianConfig(count=3).vectors(graph)
    adjacent = (distances(graph) == 1).astype(float)
    scale = 1 / np.sqrt(np.maximum(adjacent.sum(0), 1))
    image = vectors - scale[:, None] * (adjacent @ (scale[:, None] * vectors))
    eigenvalues = (vectors * image).sum(0)
    assert np.allclose(image, vectors * eigenvalues, atol=1e-5)
    drawn_signs = LaplacianConfig(count=3).varied(vectors, np.random.default_rng(seed))
    assert np.allclose(np.abs(drawn_signs), np.abs(vectors))
    assert np.allclose((drawn_signs**2).sum(0), [1] * min(3, len(graph) - 1) + [0] * max(4 - len(graph), 0), atol=1e-5)


def test_signs_of_eigenvectors_are_drawn_only_with_a_generator() -> None:
    graph, place = drawn((9, 1)), LaplacianConfig(count=4)
    placed = [PlacedGraph(graph, place)]
    plain = WholeGraphBatch.of_placed(placed).places
    several = [WholeGraphBatch.of_placed(placed, generator=np.random.default_rng(seed)).places for seed in range(8)]
    assert plain is not None
    assert any(not torch.equal(plain, other) for other in several if other is not None)
    assert all(torch.equal(plain.abs(), other.abs()) for other in several if other is not None)


def test_a_model_says_what_a_batch_lacks() -> None:
    module = model(CONFIGS[0])
    with pytest.raises(ValueError, match="reads the distances of nodes"):
        module.encoder(GraphBatch.of([drawn((3, 0))]))
    with pytest.raises(ValueError, match="Give them to PlacedGraph"):
        answers(module, None, drawn((3, 0)))
    with pytest.raises(ValueError, match="nodes have no places in a row"):
        GraphTransformerConfig(block=BlockConfig(encoder_attention=AttentionConfig(bias=AlibiConfig())))
    with pytest.raises(ValueError, match="set reach to hide nodes"):
        transformer(AttentionConfig(visibility=window(left=1, right=1)))
    assert repr(Within(torch.zeros(1, 2, 2, dtype=torch.int64), 3)) == "within(3 edges)"


def test_a_batch_moves_to_a_device_with_all_its_parts() -> None:
    graphs = [
        Graph(
            features=np.ones((count, 2), np.float32),
            edges=np.array([[0], [1]]),
            edge_features=np.ones((1, 1), np.float32),
            labels=np.zeros(count, np.int64),
            classes=("a",),
        )
        for count in (2, 3)
    ]
    placed = [PlacedGraph(graph, RandomWalkConfig(steps=2), np.ones(3, np.float32)) for graph in graphs]
    batch = WholeGraphBatch.of_placed(placed).to("meta")
    parts = {field.name: getattr(batch, field.name) for field in fields(batch)}
    assert {name: part.device.type for name, part in parts.items() if part is not None} == {
        name: "meta" for name in parts if name != "degrees"
    }


def test_the_largest_reach_ends_before_longer_ways_and_before_nodes_without_a_way() -> None:
    path = Graph(features=np.ones((261, 1)), edges=np.stack([np.arange(259), np.arange(1, 260)]))
    with pytest.raises(ValueError, match="reach must be less than 254, or none for the whole graph, got 254"):
        transformer(reach=254)
    reach = transformer(reach=253).reach
    assert reach is not None
    sees = Within(torch.from_numpy(distances(path))[None], reach)(Positions.of(261, 261))[0, 0]
    place = torch.arange(261)
    apart = (place[:, None] - place).abs()
    apart[260, :260] = apart[:260, 260] = 1_000
    assert torch.equal(sees, apart <= 253)
