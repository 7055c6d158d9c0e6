"""Convolutions over narrow planes: the same numbers as torch's in float32, and no others' memory in bfloat16."""

import pytest
import torch
from torch.testing import assert_close

from foveate.nn.plane_convolution import PlaneConvolution


def poison() -> None:
    """Memory that is free again, full of NaN."""
    for _ in range(50):
        torch.full((1 << 15,), torch.nan, dtype=torch.bfloat16)


@pytest.mark.parametrize("autocast", [True, False])
@pytest.mark.parametrize("columns", [1, 2, 3, 5])
@pytest.mark.parametrize(("size", "stride"), [(3, 2), (7, 2), (1, 2), (3, 1)])
def test_a_narrow_plane_in_bfloat16_has_the_numbers_of_float32(
    columns: int, size: int, stride: int, autocast: bool
) -> None:
    torch.manual_seed(0)
    exact = PlaneConvolution(16, 16, size, stride=stride, padding=size // 2)
    rounded = PlaneConvolution(16, 16, size, stride=stride, padding=size // 2).bfloat16()
    rounded.load_state_dict(exact.state_dict())
    layer = exact if autocast else rounded
    for rows in (1, 2, 12):
        x = torch.randn(3, 16, rows, columns).bfloat16().float()
        wide, narrow = (value.clone().requires_grad_() for value in (x, x if autocast else x.bfloat16()))
        expected = exact(wide)
        slopes = torch.randn_like(expected)
        expected.backward(slopes)
        poison()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            output = layer(narrow)
        assert output.dtype is torch.bfloat16
        assert_close(output.float(), expected, atol=0.05, rtol=0.05)
        poison()
        output.backward(slopes.bfloat16())
        assert_close(narrow.grad.float(), wide.grad, atol=0.1, rtol=0.05)  # type: ignore[union-attr]
