"""Switches that are measured and not guessed."""

from collections.abc import Iterator

import pytest
import torch

from foveate import machine
from foveate.machine import Tuning


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = machine.use(Tuning())
    yield
    machine.use(before)


def test_the_default_is_torch_as_it_comes() -> None:
    assert machine.current() == Tuning(onednn_matmul=False, allocator=False)


def test_use_returns_what_was_in_force_and_putting_that_back_restores_it() -> None:
    mine = Tuning(onednn_matmul=True, packed_rows=8)
    before = machine.use(mine)
    assert machine.current() == mine
    assert machine.use(before) == mine
    assert machine.current() == before
    assert torch.backends.mkldnn.matmul.fp32_precision == "none"


def test_tuning_measures_puts_in_force_and_keeps_float32_exact() -> None:
    tuning = machine.tune()
    assert machine.current() == tuning
    assert tuning.packed_rows in (0, 1, 8, 32)
    a, b = torch.randn(200, 300), torch.randn(300, 100)
    exact = a.double() @ b.double()
    assert ((a @ b).double() - exact).abs().max() <= 1e-5 * exact.abs().max()


def test_tuning_draws_no_random_numbers_of_ours() -> None:
    """How many it draws depends on the clock: a model initialised afterwards would, too."""
    torch.manual_seed(5)
    expected = torch.randn(3)
    torch.manual_seed(5)
    machine.tune()
    assert torch.equal(torch.randn(3), expected)


def test_a_tuning_says_what_is_on() -> None:
    on = Tuning(onednn_matmul=True, allocator=True, packed_rows=8, rates={"sdpa float32 training": (1.0,)})
    assert str(on) == (
        "float32 products: oneDNN; allocator: large tensors keep their pages; packed weights in inference: from 8 rows "
        "on; choice of attention paths: measured 1 path variants"
    )
    assert str(Tuning()).startswith("float32 products: torch's default; allocator: system default; packed weights in ")
