"""Autocast may hand a path queries of one number type and keys of another."""

import pytest
import torch

from foveate.attention import Alibi, Attention, Positions, causal, padding, window
from foveate.attention.paths import PATHS
from foveate.attention.paths.path import Path

FLOAT, HALF = torch.float32, torch.bfloat16


@pytest.mark.parametrize("dtypes", [(FLOAT,) * 3, (FLOAT, HALF, HALF), (HALF, FLOAT, FLOAT), (HALF,) * 3], ids=str)
@pytest.mark.parametrize("bias", [None, Alibi(2)], ids=["plain", "bias"])
@pytest.mark.parametrize("rule", [padding(), causal() & padding(), window(left=3, right=0)], ids=str)
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_every_path_trains_under_autocast(path: Path, rule: object, bias: object, dtypes: tuple) -> None:
    torch.manual_seed(0)
    exact = [torch.randn(2, 2, 9, 8, requires_grad=True) for _ in range(3)]
    given = [tensor.detach().to(dtype).requires_grad_() for tensor, dtype in zip(exact, dtypes, strict=True)]
    attention, at = Attention(visibility=rule, bias=bias), Positions.of(9, 9, key_lengths=torch.tensor([9, 5]))
    if not path.refuses(attention, *given[:2], at):
        with torch.autocast("cpu", HALF):
            context = path.run(attention, *given, at=at, key_features=None, dropout=0.0)
        context.float().square().sum().backward()
        reference = attention.explain(*exact, at=at).context
        reference.square().sum().backward()
        assert torch.allclose(context.float(), reference, atol=0.05)
        for ours, theirs in zip(given, exact, strict=True):
            assert ours.grad.dtype == ours.dtype
            assert torch.allclose(ours.grad.float(), theirs.grad, atol=0.15, rtol=0.1)
