"""Scales of 0, which libraries may take as leave to skip a product, and negative ones, which turn −∞ around."""

import pytest
import torch

from foveate.attention import Attention, Positions, ScaledDot, causal, everything
from foveate.attention.paths import PATHS, BandedPath, TiledPath
from foveate.attention.paths.path import Path


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("scale", [0.0, -0.7, -1.0])
@pytest.mark.parametrize("path", [*PATHS, BandedPath(tile=2), TiledPath(tile=2)], ids=lambda path: path.name)
def test_a_scale_may_be_zero_or_negative(path: Path, scale: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    for rule in (everything(), causal()):
        for bias in (None, lambda at: (at.query - at.key).abs() % 3 == 0):
            plain = None if bias is None else (lambda at, bias=bias: bias(at).float())
            attention = Attention(ScaledDot(scale=scale), visibility=rule, bias=plain)
            for _ in range(6):
                leaves = [torch.randn(3, 2, 7, 48).to(dtype).requires_grad_() for _ in range(3)]
                at = Positions.of(7, 7)
                if path.refuses(attention, *leaves[:2], at):
                    continue
                torch.full((3, 2, 7, 48), torch.nan).to(dtype)  # what freed memory may hold
                context = path.run(attention, *leaves, at=at, key_features=None, dropout=0.0)
                exact = attention.explain(*(part.double() for part in leaves), at=at).context
                torch.testing.assert_close(context.double(), exact, atol=6e-2, rtol=0)
                assert all(grad.isfinite().all() for grad in torch.autograd.grad(context.sum(), leaves))
