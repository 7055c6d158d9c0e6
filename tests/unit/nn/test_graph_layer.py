"""Graph layers are their published formulas, written densely, and the numbers of PyTorch Geometric."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from foveate.attention import (
    AdditiveConfig,
    GatConfig,
    GatV2Config,
    LocationAwareConfig,
    ScaledDot,
    ScoreConfig,
    record,
)
from foveate.attention.score import GATScore
from foveate.attention.score.additive import LeakySum
from foveate.nn.graph_layer import EdgeBias, GraphAttention, GraphConvolution
from foveate.nn.neighbourhood import Neighbourhood
from foveate.nn.sparse_vector import SparseVectors

INDEX = torch.tensor([[0, 1, 1, 2, 3, 3], [1, 0, 2, 1, 1, 0]])
"""Node 3 is seen and sees nobody; node 4 is isolated."""


def numbers(*shape: int, start: float) -> Tensor:
    return torch.sin(torch.arange(torch.Size(shape).numel()).double() * 1.7 + start).reshape(shape).float()


def filled(score: ScoreConfig, *, mean: bool) -> GraphAttention:
    join = "mean" if mean else "concat"
    layer = GraphAttention(input_dim=3, head_dim=2, num_heads=2, score=score, join=join)  # type: ignore[arg-type]
    with torch.no_grad():
        layer.value.weight.copy_(numbers(4, 3, start=1))
        layer.bias.copy_(numbers(len(layer.bias), start=4))
        part = layer.attention.score
        if isinstance(part, GATScore):
            part.query_vector.copy_(numbers(2, 2, 1, start=2))
            part.key_vector.copy_(numbers(2, 2, 1, start=3))
        elif isinstance(part, LeakySum):
            layer.value.bias.copy_(numbers(4, start=5))
            layer.query.weight.copy_(numbers(4, 3, start=2))
            layer.query.bias.copy_(numbers(4, start=6))
            part.vector.copy_(numbers(2, 2, start=3))
    return layer


GAT = [
    *([-1.05396, -1.02909, 1.17919, 0.46715], [-1.30954, -0.56726, 1.79087, 1.03833]),
    *([-2.15801, -0.32626, 2.48954, 1.52741], [-1.23604, -1.5799, 0.59991, 1.12243]),
    [0.69922, -1.05822, -0.94098, -0.5641],
]
GAT_MEAN = [
    *([-0.76514, -0.71587], [-0.58709, -0.19936], [-0.66199, 0.16569], [-1.14582, -0.66363], [-0.94864, -1.24605]),
]
GAT_V2 = [
    *([-2.05265, -0.72864, 2.1499, -0.18161], [-2.46554, -0.58053, 2.75418, 0.59921]),
    *([-3.20749, -0.02887, 3.34414, 0.90234], [-2.19496, -1.17505, 1.45451, 0.49736]),
    [-0.2597, -0.65337, -0.08639, -1.18917],
]
GAT_V2_MEAN = [
    *([-0.77913, -0.89002], [-0.68344, -0.42555], [-0.75943, 0.00185], [-1.19798, -0.77374], [-1.0008, -1.35616]),
]


@pytest.mark.parametrize(
    ("score", "mean", "expected"),
    [
        (GatConfig(), False, GAT),
        (GatConfig(), True, GAT_MEAN),
        (GatV2Config(), False, GAT_V2),
        (GatV2Config(), True, GAT_V2_MEAN),
    ],
)
def test_layers_give_the_numbers_of_pytorch_geometric(
    score: ScoreConfig, mean: bool, expected: list[list[float]]
) -> None:
    """GATConv and GATv2Conv of PyTorch Geometric 2.8.1 with the same weights."""
    output = filled(score, mean=mean)(numbers(5, 3, start=0.3), Neighbourhood(INDEX, 5))
    torch.testing.assert_close(output, torch.tensor(expected), atol=2e-5, rtol=0)


def adjacency(self_loops: bool) -> Tensor:
    visible = torch.zeros(5, 5, dtype=torch.bool)
    visible[INDEX[1], INDEX[0]] = True
    return visible | torch.eye(5, dtype=torch.bool) if self_loops else visible


def test_gat_is_its_formula_written_densely() -> None:
    layer, x = filled(GatConfig(), mean=False), numbers(5, 3, start=0.3)
    h = (x @ layer.value.weight.T).view(5, 2, 2)
    score = layer.attention.score
    assert isinstance(score, GATScore)
    heads = []
    for head in range(2):
        a, b = score.query_vector[head, :, 0], score.key_vector[head, :, 0]
        e = leaky_relu((h[:, head] @ a)[:, None] + (h[:, head] @ b)[None, :], 0.2)
        alpha = e.masked_fill(~adjacency(True), -torch.inf).softmax(1)
        heads.append(alpha @ h[:, head])
    torch.testing.assert_close(layer(x, Neighbourhood(INDEX, 5)), torch.cat(heads, 1) + layer.bias)


@pytest.mark.parametrize("score", [ScaledDot(), AdditiveConfig(hidden_dim=3), GatConfig(), GatV2Config()])
@pytest.mark.parametrize("self_loops", [True, False])
def test_any_score_with_features_of_edges_is_the_dense_formula(score: ScoreConfig, self_loops: bool) -> None:
    torch.manual_seed(0)
    layer = GraphAttention(input_dim=3, head_dim=4, num_heads=2, score=score, edge_dim=2, self_loops=self_loops)
    x, features = torch.randn(5, 3), torch.randn(6, 2)
    q, k, v = (side(x).view(5, 2, 4).transpose(0, 1)[None] for side in (layer.query, layer.key, layer.value))
    assert layer.edge is not None
    bias = torch.zeros(2, 5, 5)
    bias[:, INDEX[1], INDEX[0]] = layer.edge(features).T
    scores = layer.attention.score(q, k)[0] + bias  # type: ignore[operator]
    alpha = scores.masked_fill(~adjacency(self_loops), -torch.inf).softmax(-1).nan_to_num(0)
    expected = (alpha @ v[0]).transpose(0, 1).flatten(1) + layer.bias
    result = layer(x, Neighbourhood(INDEX, 5, features))
    torch.testing.assert_close(result, expected)
    weights = [*layer.parameters()]
    direction = torch.cos(torch.arange(result.numel()).float()).view_as(result)
    ours, dense = (
        torch.autograd.grad((part * direction).sum(), weights, retain_graph=True, allow_unused=True)
        for part in (result, expected)
    )
    for one, other in zip(ours, dense, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_features_of_edges_that_are_missing_are_refused() -> None:
    layer = GraphAttention(input_dim=3, head_dim=4, num_heads=1, score=GatConfig(), edge_dim=2)
    with pytest.raises(ValueError, match="edges with 2 features, but the graph's edges have none"):
        layer(torch.zeros(5, 3), Neighbourhood(INDEX, 5))


def test_a_score_that_reads_places_is_refused() -> None:
    with pytest.raises(ValueError, match="LocationAware depends on places in a sequence, but nodes have none"):
        GraphAttention(input_dim=3, head_dim=4, num_heads=1, score=LocationAwareConfig())


def test_biases_of_edges_reach_the_pairs_and_their_gradients_come_back() -> None:
    values = torch.arange(1.0, 7.0).reshape(6, 1).requires_grad_()
    neighbourhood = Neighbourhood(INDEX, 5)
    matrix = EdgeBias(INDEX, values, 5)(neighbourhood.at)
    expected = torch.zeros(5, 5)
    expected[INDEX[1], INDEX[0]] = values.detach()[:, 0]
    assert torch.equal(matrix[0, 0], expected)
    (grad,) = torch.autograd.grad((matrix * matrix.detach()).sum(), values)
    assert torch.equal(grad, values)


def test_graph_convolution_is_its_formula_written_densely() -> None:
    torch.manual_seed(0)
    layer, x = GraphConvolution(3, 4), torch.randn(5, 3)
    a = adjacency(True).float()
    scale = a.sum(1).rsqrt()
    expected = scale[:, None] * a * scale @ layer.project(x) + layer.bias
    torch.testing.assert_close(layer(x, Neighbourhood(INDEX, 5)), expected)


@pytest.mark.parametrize("looks", [True, False])
def test_sums_over_the_many_edges_of_a_node_keep_the_small_parts_in_half_precision(looks: bool) -> None:
    spokes = torch.stack([torch.arange(1, 5001), torch.zeros(5000, dtype=torch.long)])
    neighbourhood = Neighbourhood(spokes if looks else spokes.flip(0), 5001)
    layer = GraphConvolution(1, 2)
    torch.nn.init.ones_(layer.project.weight)
    results = []
    for kind in ("exact", "autocast", "bfloat16"):
        layer = layer.bfloat16() if kind == "bfloat16" else layer
        x = torch.ones(5001, 1, dtype=layer.bias.dtype, requires_grad=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=kind == "autocast"):
            output = layer(x, neighbourhood)
        (grad,) = torch.autograd.grad(output.float().sum(), x)
        results.append((output.float(), grad.float()))
    for half in results[1:]:
        for part, exact in zip(half, results[0], strict=True):
            torch.testing.assert_close(part, exact, rtol=2**-7, atol=0)


def test_products_with_sparse_rows_keep_the_small_parts_in_half_precision() -> None:
    ones, first = torch.ones(5000), torch.zeros(5000, dtype=torch.long)
    matrix = torch.ones(2, 3, dtype=torch.bfloat16, requires_grad=True)
    column = SparseVectors(torch.arange(5001), first, ones, width=2)
    (grad,) = torch.autograd.grad(column.times(matrix).float().sum(), matrix)
    row = SparseVectors(torch.tensor([0, 5000]), first, ones, width=2)
    for half, exact in ((grad[0], 5000.0), (row.times(matrix)[0], 5000.0)):
        assert half.dtype == torch.bfloat16
        torch.testing.assert_close(half.float(), torch.full((3,), exact), rtol=2**-8, atol=0)


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_a_neighbourhood_that_was_evaluated_may_be_trained_on(mode: type[torch.inference_mode]) -> None:
    edges_of = {"input_dim": 3, "head_dim": 4, "num_heads": 2, "edge_dim": 2}
    for layer in (
        GraphConvolution(3, 4),
        GraphAttention(score=GatV2Config(), **edges_of),  # type: ignore[arg-type]
        GraphAttention(score=ScaledDot(), **edges_of),  # type: ignore[arg-type]
    ):
        neighbourhood, x = Neighbourhood(INDEX, 5, torch.randn(6, 2)), torch.randn(5, 3)
        with mode():
            layer(x, neighbourhood)
        again, fresh = (
            torch.autograd.grad(layer(x, one).square().sum(), [*layer.parameters()])
            for one in (neighbourhood, Neighbourhood(INDEX, 5, neighbourhood.features))
        )
        assert all(torch.equal(one, other) for one, other in zip(again, fresh, strict=True))
        assert not neighbourhood.at.query.is_inference()


@pytest.mark.parametrize("score", [GatConfig(), GatV2Config(), ScaledDot()])
def test_sparse_rows_give_the_numbers_of_dense_ones_with_gradients(score: ScoreConfig) -> None:
    torch.manual_seed(0)
    pointers, columns = torch.tensor([0, 2, 2, 3, 5, 6]), torch.tensor([0, 2, 1, 1, 2, 0])
    rows = SparseVectors(pointers, columns, torch.randn(6), width=3)
    layer = GraphAttention(input_dim=3, head_dim=4, num_heads=2, score=score)
    results = [layer(x, Neighbourhood(INDEX, 5)) for x in (rows, rows.dense())]
    torch.testing.assert_close(*results)
    ours, dense = (torch.autograd.grad(part.square().sum(), [*layer.parameters()]) for part in results)
    for one, other in zip(ours, dense, strict=True):
        torch.testing.assert_close(one, other)
    empty = SparseVectors(torch.tensor([0, 0, 0]), torch.zeros(0, dtype=torch.long), torch.zeros(0), width=3)
    assert torch.equal(empty.times(layer.value.weight.T), torch.zeros(2, 8))


def test_records_name_the_layer_and_show_the_weights_of_edges() -> None:
    layer, x = filled(GatConfig(), mean=False), numbers(5, 3, start=0.3)
    with record(layer) as recording:
        output = layer(x, Neighbourhood(INDEX, 5))
    entry = recording["attention"]
    assert entry.formula.visibility.graph is not None
    weights = entry.weights()[0]
    assert torch.equal(weights > 0, adjacency(True).expand(2, 5, 5))
    h = layer.value(x).view(5, 2, 2).transpose(0, 1)
    torch.testing.assert_close((weights @ h).transpose(0, 1).flatten(1) + layer.bias, output)


def test_a_width_that_a_graph_layer_would_not_use_is_refused() -> None:
    with pytest.raises(ValueError, match=r"gat_v2 of a graph layer is as wide as its heads, 2, and hidden_dim is 5"):
        GraphAttention(input_dim=3, head_dim=2, num_heads=2, score=GatV2Config(hidden_dim=5))
