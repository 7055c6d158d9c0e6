"""Switches that are measured and not guessed."""

from collections.abc import Callable, Iterator

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


@pytest.mark.parametrize("threads", [1, 2])
def test_denormal_numbers_become_zero_in_every_thread_and_come_back(threads: int) -> None:
    before, tiny = torch.get_num_threads(), torch.full((500_000,), 1e-39)
    torch.set_num_threads(threads)
    try:
        for on in (True, False):
            machine.use(Tuning(flush_denormals=on))
            assert bool(((tiny * 0.5 == 0) == on).all())
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("slow", [True, False])
def test_denormal_numbers_are_made_zero_where_they_are_slow(monkeypatch: pytest.MonkeyPatch, slow: bool) -> None:
    raced = machine.race

    def race(*works: Callable[[], object]) -> list[float]:
        made = [work() for work in works]
        tiny = [isinstance(one, torch.Tensor) and 0 < float(one.abs().max()) < 1e-38 for one in made]
        return [1.0 + slow * is_tiny for is_tiny in tiny] if any(tiny) else raced(*works)

    monkeypatch.setattr(machine, "race", race)
    assert machine.tune().flush_denormals == slow


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
        "on; denormal numbers: kept; choice of attention paths: measured 1 path variants"
    )
    assert str(Tuning()).startswith("float32 products: torch's default; allocator: system default; packed weights in ")
