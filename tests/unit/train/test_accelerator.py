import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from foveate.errors import UsageError
from foveate.train import Loss, TrainConfig, fit
from foveate.train.accelerator import own_device, repeatable


@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


class Scattered:
    """A task with an operation whose order of writes is open."""

    steps_per_epoch = 1

    def __init__(self) -> None:
        self.model = nn.Linear(2, 2)

    def batch(self, step: int) -> Tensor:
        return torch.ones(3, 2)

    def loss(self, batch: Tensor) -> Loss:
        rows = self.model(batch)
        places = torch.zeros(6, dtype=torch.int64)
        return Loss(torch.zeros(6).put_(places, rows.flatten()).sum(), 1)

    def validate(self) -> dict[str, float]:
        return {"loss": 0.0}

    def describe(self, batch: Tensor) -> str:
        return "ones"


def test_each_process_of_a_machine_has_a_gpu_of_its_own_or_is_refused() -> None:
    assert [own_device(rank, 2, 2).index for rank in range(2)] == [0, 1]
    with pytest.raises(UsageError, match=r"3 processes were started on a machine with 2 GPUs.*Start at most 2"):
        own_device(0, 3, 2)


def test_exact_sums_on_a_gpu_take_repeatable_kernels_until_the_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    with repeatable(torch.device("cuda")):
        assert torch.are_deterministic_algorithms_enabled()
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert not torch.are_deterministic_algorithms_enabled()
    with repeatable(torch.device("cpu")):
        assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.usefixtures("deterministic")
def test_an_operation_without_a_repeatable_kernel_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r'reduction = "exact" needs the same bits.* for put_'):
        fit(Scattered(), TrainConfig(steps=1, accumulate=2, reduction="exact"), tmp_path)
