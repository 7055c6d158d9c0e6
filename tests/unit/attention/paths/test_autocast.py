"""Autocast may hand a path queries of one number type and keys of another."""

import pytest
import torch

from foveate.attention import (
    AdditiveConfig,
    Alibi,
    Attention,
    CosineConfig,
    Dot,
    GatV2Config,
    GeneralConfig,
    Positions,
    Sigmoid,
    Softmax,
    Sparsemax,
    causal,
    edges,
    padding,
    window,
)
from foveate.attention.paths import PATHS, ChunkedPath, EdgesPath, MaterialisedPath, pairwise
from foveate.attention.paths.path import Path

FLOAT, HALF = torch.float32, torch.bfloat16


@pytest.mark.parametrize("dtypes", [(FLOAT,) * 3, (FLOAT, HALF, HALF), (HALF, FLOAT, FLOAT), (HALF,) * 3], ids=str)
@pytest.mark.parametrize("bias", [None, Alibi(2)], ids=["plain", "bias"])
@pytest.mark.parametrize("rule", [padding(), causal() & padding(), window(left=3, right=0)], ids=str)
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_every_path_trains_under_autocast(path: Path, rule: object, bias: object, dtypes: tuple) -> None:
    torch.manual_seed(0)
    exact = [torch.randn(2, 2, 9, 8, requires_grad=True) for _ in range(3)]
    leaves = [tensor.detach().to(dtype).requires_grad_() for tensor, dtype in zip(exact, dtypes, strict=True)]
    attention, at = Attention(visibility=rule, bias=bias), Positions.of(9, 9, key_lengths=torch.tensor([9, 5]))
    if not path.refuses(attention, *leaves[:2], at):
        with torch.autocast("cpu", HALF):
            context = path.run(attention, *leaves, at=at, key_features=None, dropout=0.0)
        context.float().square().sum().backward()
        reference = attention.explain(*exact, at=at).context
        reference.square().sum().backward()
        assert torch.allclose(context.float(), reference, atol=0.05)
        for ours, theirs in zip(leaves, exact, strict=True):
            assert ours.grad.dtype == ours.dtype
            assert torch.allclose(ours.grad.float(), theirs.grad, atol=0.15, rtol=0.1)


@pytest.mark.parametrize("config", [AdditiveConfig(), GatV2Config()], ids=["additive", "gat_v2"])
def test_kernels_may_first_be_asked_for_under_autocast_with_another_default_dtype(config: object) -> None:
    attention = Attention(config.build(query_dim=8, key_dim=8))
    x = torch.randn(1, 2, 40, 8)
    expected = attention.explain(x, x, x).context
    pairwise.unavailable.cache_clear()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.autocast("cpu", HALF):
            context = attention.run(x, x, x)
        assert pairwise.unavailable() in ("", "no native kernels: FOVEATE_NATIVE=0")
    finally:
        torch.set_default_dtype(FLOAT)
    assert torch.allclose(context.float(), expected, atol=0.05)


@pytest.mark.parametrize("dtypes", [(FLOAT,) * 3, (FLOAT, FLOAT, HALF), (HALF, FLOAT, FLOAT), (HALF,) * 3], ids=str)
@pytest.mark.parametrize("config", [Dot(), GeneralConfig(), AdditiveConfig(hidden_dim=4), CosineConfig()], ids=repr)
@pytest.mark.parametrize("normaliser", [Softmax(), Sigmoid(), Sparsemax()], ids=repr)
def test_graphs_answer_autocast_in_the_type_of_explain(config: object, normaliser: object, dtypes: tuple) -> None:
    torch.manual_seed(0)
    graph = edges(torch.randint(0, 30, (2, 70))) & padding()
    attention = Attention(config.build(query_dim=8, key_dim=8), visibility=graph, normaliser=normaliser)
    leaves = [torch.randn(2, 1, 30, 8).to(dtype).requires_grad_() for dtype in dtypes]
    at = Positions.of(30, 30, key_lengths=torch.tensor([30, 20]))
    with torch.autocast("cpu", HALF):
        exact = attention.explain(*leaves, at=at).context
        for path in (EdgesPath(), MaterialisedPath(), ChunkedPath()):
            context = path.run(attention, *leaves, at=at, key_features=None, dropout=0.0)
            assert context.dtype == exact.dtype == HALF
            assert torch.allclose(context.float(), exact.float(), atol=0.08)
    gradients = torch.autograd.grad(context.float().square().sum(), leaves)
    assert [gradient.dtype for gradient in gradients] == list(dtypes)
