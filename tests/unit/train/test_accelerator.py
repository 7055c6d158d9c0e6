import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from foveate.errors import UsageError
from foveate.train import Loss, TrainConfig, fit
from foveate.train.accelerator import chosen_device, own_device, placed, repeatable, require_device


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two GPUs, as far as torch says."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


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


@pytest.mark.usefixtures("gpus")
def test_a_name_chooses_a_gpu_and_each_process_gets_its_own() -> None:
    chosen = {name: str(chosen_device(name)) for name in ("cpu", "cuda", "cuda:1", "auto")}
    assert chosen == {"cpu": "cpu", "cuda": "cuda:0", "cuda:1": "cuda:1", "auto": "cuda:0"}
    assert [str(chosen_device(name, (1, 2))) for name in ("cuda", "auto", "cpu")] == ["cuda:1", "cuda:1", "cpu"]
    assert chosen_device(None) is None


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(
    ("name", "processes", "problem"),
    [
        ("cuda:2", None, r"train.device is cuda:2, but this machine has cuda:0 and cuda:1\. Choose one of them"),
        ("cuda:1", 2, r"cuda:1, one GPU, and 2 processes need one each\. Choose cuda"),
        ("cuda", 3, r"3 processes were started on a machine with 2 GPUs.*Start at most 2"),
        ("gpu", None, r"train\.device must be cpu, cuda, a certain GPU such as cuda:1, or auto, got 'gpu'"),
        ("mps", None, r"numbers of 64 bits, which the GPUs of a Mac lack"),
    ],
)
def test_a_device_that_is_not_there_is_refused_with_those_that_are(
    name: str, processes: int | None, problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        require_device(name, processes)


def test_a_machine_without_a_gpu_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert chosen_device("auto") == torch.device("cpu")
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(UsageError, match=r"is made for the CPU alone.*train\.device = cpu"):
        chosen_device("cuda")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with pytest.raises(UsageError, match="finds no GPU on this machine"):
        chosen_device("cuda")


def test_a_model_comes_back_from_its_device_also_after_an_error() -> None:
    model = nn.Linear(2, 2)

    def fail() -> None:
        with placed(model, torch.device("cpu")):
            raise KeyboardInterrupt

    version = model.weight._version
    with pytest.raises(KeyboardInterrupt):
        fail()
    assert model.weight.device.type == "cpu"
    assert model.weight._version > version, "state prepared from the weights is made anew"
