"""Means over sequences and graphs."""

import pytest
import torch

from foveate.nn.packing import Packing
from foveate.nn.pooling import MeanPooling
from foveate.nn.readout import MeanReadout


@pytest.mark.parametrize("mean", [MeanPooling(), MeanReadout()], ids=lambda mean: type(mean).__name__)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_mean_over_many_vectors_neither_overflows_nor_is_rounded_twice(
    mean: torch.nn.Module, dtype: torch.dtype
) -> None:
    packing = Packing(torch.tensor([3000, 2, 0]), 3000)
    pooled = mean(torch.full((3002, 4), 50.0, dtype=dtype), packing=packing)
    assert pooled.dtype is dtype
    assert pooled[:, 0].tolist() == [50, 50, 0]
