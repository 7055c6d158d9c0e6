"""Exponentials of logits in place: the definition for every width, and what is not a number stays so."""

import math

import pytest
import torch

from foveate.nn.exponential import VECTOR, exponentials_, kernels

WIDTHS = [1, 15, 16, 17, 31, 32, 45, 70]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("rows", [0, 1, 17])
def test_rows_become_exponentials_below_their_largest(rows: int, width: int) -> None:
    logits = 5 * torch.randn(rows, width, generator=torch.Generator().manual_seed(0))
    largest = logits.amax(-1)
    powers = (logits - largest[:, None]).double().exp()  # the difference is rounded once
    top, mass = exponentials_(logits)
    torch.testing.assert_close(top, largest, atol=0, rtol=0)
    torch.testing.assert_close(logits.double(), powers, atol=1e-30, rtol=1e-6)
    torch.testing.assert_close(mass.double(), powers.sum(-1), atol=0, rtol=1e-6)


@pytest.mark.parametrize("width", WIDTHS)
def test_bfloat16_is_rounded_once_by_the_kernel(width: int) -> None:
    once = width >= VECTOR and kernels() is not None
    logits = (5 * torch.randn(9, width, generator=torch.Generator().manual_seed(0))).bfloat16()
    exact = logits.double()
    top, mass = exponentials_(logits)
    powers = (exact - exact.amax(-1, keepdim=True)).exp()
    assert top.dtype == mass.dtype == torch.float32
    torch.testing.assert_close(logits.double(), powers, atol=1e-30, rtol=2**-8 if once else 2**-3)
    torch.testing.assert_close(mass.double(), powers.sum(-1), atol=0, rtol=1e-6 if once else 2**-3)


@pytest.mark.parametrize("width", WIDTHS[2:])
@pytest.mark.parametrize("place", [0, -1])
def test_a_row_with_nan_is_not_finite_and_others_do_not_notice(place: int, width: int) -> None:
    logits = torch.randn(3, width, generator=torch.Generator().manual_seed(0))
    alone = logits[[0, 2]].clone()
    logits[1, place] = math.nan
    _, mass = exponentials_(logits)
    assert mass.isnan().tolist() == [False, True, False]
    _, expected = exponentials_(alone)
    torch.testing.assert_close(mass[[0, 2]], expected, atol=0, rtol=0)


def test_impossible_tokens_have_no_mass() -> None:
    logits = torch.full((1, 33), -math.inf)
    logits[0, 5] = 2.0
    top, mass = exponentials_(logits)
    assert (float(top), float(mass)) == (2.0, 1.0)
    assert logits.nonzero().tolist() == [[0, 5]]


def test_other_layouts_and_types_are_left_to_torch() -> None:
    logits = torch.randn(40, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).mT
    exact = logits.clone()
    top, mass = exponentials_(logits)
    torch.testing.assert_close(logits, (exact - exact.amax(-1, keepdim=True)).exp())
    torch.testing.assert_close(top + mass.log(), exact.logsumexp(-1))
