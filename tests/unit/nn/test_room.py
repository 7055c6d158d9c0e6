"""Models that have no room are refused before they are built."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from foveate.errors import DataError, UsageError
from foveate.nn import room
from foveate.nn.room import SPARE, within_file, within_machine, within_tensors

MAKERS: list[Callable[[], torch.Tensor]] = [
    *(lambda: torch.empty(2, 3), lambda: torch.empty((2, 3)), lambda: torch.zeros(size=(4,)), lambda: torch.ones(())),
    *(lambda: torch.rand([5]), lambda: torch.randn(torch.Size([2, 2])), lambda: torch.full((3, 2), 1.0)),
    *(lambda: torch.eye(3), lambda: torch.eye(3, 4), lambda: torch.arange(7), lambda: torch.arange(2, 9)),
    *(lambda: torch.arange(0, 10, 3), lambda: torch.arange(0.5, 2.0, 0.5), lambda: torch.arange(5, 0, -2)),
    *(lambda: torch.arange(end=6), lambda: torch.arange(start=1, end=6, step=2)),
]


@pytest.mark.parametrize("make", MAKERS)
def test_what_is_counted_is_what_torch_makes(make: Callable[[], torch.Tensor]) -> None:
    counter = room._Room(100)
    with counter:
        tensor = make()
    assert 100 - counter.numbers == tensor.numel()


LARGE: list[Callable[[], Any]] = [
    *(lambda: nn.Linear(2**40, 2**40), lambda: nn.Embedding(2**62, 2**62), lambda: nn.LayerNorm(2**50)),
    *(lambda: nn.GRU(2**40, 8), lambda: torch.randn(2**45), lambda: torch.ones(2**30, 2**30)),
    *(lambda: torch.arange(2**50), lambda: torch.full((2**50,), 0.0), lambda: torch.eye(2**30)),
    lambda: [nn.Linear(8, 8) for _ in range(10**9)],
]


@pytest.mark.parametrize("build", LARGE)
def test_a_model_beyond_its_file_is_refused_before_it_is_built(build: Callable[[], Any]) -> None:
    weights = {"a": torch.zeros(3, 4), "b": torch.zeros(())}
    with pytest.raises(DataError) as refusal, within_tensors(weights, config="c.json", file="w.safetensors"):
        build()
    assert str(refusal.value).startswith("c.json asks for a model with a part of ")
    assert "far more than w.safetensors holds: 13 numbers in 2 tensors." in str(refusal.value)


@pytest.mark.parametrize("build", LARGE[:-1])
def test_a_model_beyond_the_machine_is_refused_before_it_is_built(build: Callable[[], Any]) -> None:
    with (
        pytest.raises(UsageError, match=r"weights alone need more than the [\d.,]+ GB of available memory"),
        within_machine(),
    ):
        build()


def test_a_model_as_large_as_its_file_is_built_with_tied_weights_and_tables() -> None:
    with within_file(8 * 10**6, 1, config="c", file="f"):
        tied = nn.Linear(8, 10**6)
        tied.weight = nn.Embedding(10**6, 8).weight
    with within_file(0, 0, config="c", file="f"):
        torch.zeros(SPARE)


def test_the_bounds_of_a_file_hold_within_those_of_the_machine_and_end_with_the_block() -> None:
    with pytest.raises(DataError), within_machine(), within_file(1, 1, config="c", file="f"), within_machine():
        torch.empty(SPARE + 5)
    assert not room._counting.get()
    assert torch.empty(SPARE + 5).numel() == SPARE + 5


def test_memory_is_what_the_machine_the_container_or_the_shell_leaves(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = room.memory_bytes()
    (tmp_path / "max").write_text("max\n")
    (tmp_path / "few").write_text("1000000\n")
    monkeypatch.setattr(room, "GROUPS", (tmp_path / "max", tmp_path / "absent"))
    assert room.memory_bytes() >= whole > 0
    monkeypatch.setattr(room, "GROUPS", (tmp_path / "few",))
    assert room.memory_bytes() == 10**6
    with pytest.raises(UsageError, match=r"a part of 1,000 × 1,000 numbers.*0\.0 GB"), within_machine():
        nn.Linear(1000, 1000)
