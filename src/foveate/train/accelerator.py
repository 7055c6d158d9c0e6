"""The device of a run: the CPU, or a GPU for each process, and kernels that give the same bits each time."""

import contextlib
import os
import re
from collections.abc import Iterator

import torch
from torch import nn
from torch.autograd.graph import increment_version

from foveate.errors import UsageError
from foveate.nn.transfer import device_of
from foveate.suggestion import counted

WORKSPACE = ":4096:8"
"""The setting of cuBLAS by which a product has the same bits each time."""
LOCAL = (("LOCAL_RANK", 0), ("LOCAL_WORLD_SIZE", 1))
"""The variables that number the processes of one machine, and their values for one process."""
NAME = re.compile(r"cpu|auto|cuda(:\d+)?")
"""The values of `train.device`."""


def require_name(name: str) -> None:
    """Raises ValueError for a text that names no device on which Foveate trains."""
    if not NAME.fullmatch(name):
        why = ": some sums need numbers of 64 bits, which the GPUs of a Mac lack" if name.startswith("mps") else ""
        raise ValueError(f"device must be cpu, cuda, a certain GPU such as cuda:1, or auto, got {name!r}{why}")


def local_place() -> tuple[int, int]:
    """The number of this process among those of its machine, and how many these are."""
    number, count = (int(os.environ.get(name, default)) for name, default in LOCAL)
    return number, count


def chosen_device(name: str | None, place: tuple[int, int] | None = None) -> torch.device | None:
    """The device that `train.device` chooses for a process, by its `local_place`; None for none, where the model stays
    where it is.

    >>> chosen_device("cpu"), chosen_device(None)
    (device(type='cpu'), None)

    Raises UsageError for a GPU that is not there, and for one GPU for several processes.
    """
    if name is None:
        return None
    try:
        require_name(name)
    except ValueError as error:
        raise UsageError(f"train.{error}.") from None
    number, count = local_place() if place is None else place
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise UsageError(f"train.device is {name}, but {_without_gpu()} Or train on the CPU, with train.device = cpu.")
    gpus, index = torch.cuda.device_count(), torch.device(name).index if name != "auto" else None
    if index is None:
        return own_device(number, count, gpus)
    if count > 1:
        raise UsageError(
            f"train.device is {name}, one GPU, and {count} processes need one each. Choose cuda, which gives each "
            "process its own."
        )
    if index >= gpus:
        there = " and ".join(filter(None, (", ".join(f"cuda:{one}" for one in range(gpus - 1)), f"cuda:{gpus - 1}")))
        raise UsageError(f"train.device is {name}, but this machine has {there}. Choose one of them, or cuda.")
    return torch.device("cuda", index)


def require_device(name: str | None, processes: int | None = None) -> None:
    """Raises UsageError as `chosen_device` does, also before the processes are started."""
    chosen_device(name, (0, processes) if processes else None)


def _without_gpu() -> str:
    """The reason why torch finds no GPU, and a remedy."""
    if torch.version.cuda is None and torch.version.hip is None:
        return f"this torch ({torch.__version__}) is made for the CPU alone. Install one for your GPU from pytorch.org."
    return (
        f"torch {torch.__version__} finds no GPU on this machine. Look at its driver (nvidia-smi) and at "
        "CUDA_VISIBLE_DEVICES."
    )


def described(device: torch.device) -> str:
    """A device with the name of its product, such as `cuda:0 (NVIDIA H100 80GB HBM3)`."""
    return f"{device} ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else "the CPU"


def _move(model: nn.Module, device: torch.device) -> None:
    model.to(device)
    for parameter in model.parameters():
        increment_version(parameter)  # which a move does not: state prepared from weights is of one device


@contextlib.contextmanager
def placed(model: nn.Module, device: torch.device | None, *, back: bool = True) -> Iterator[None]:
    """Within this context a model is on a device, which is torch's current one if it is a GPU. Afterwards it is where
    it was before, unless it shall not come `back`. Without a device, nothing happens.
    """
    before = device_of(model)
    if device is None:
        yield
        return
    with torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext():
        _move(model, device)
        try:
            yield
        finally:
            if back:
                _move(model, before)


def own_device(local_rank: int, local_size: int, gpus: int) -> torch.device:
    """The device of a process, by its number among the processes of its machine.

    >>> own_device(1, 2, 4), own_device(1, 2, 0)
    (device(type='cuda', index=1), device(type='cpu'))

    Raises UsageError for more processes than GPUs.
    """
    if not gpus:
        return torch.device("cpu")
    if local_size > gpus:
        raise UsageError(
            f"{counted(local_size, 'process')} were started on a machine with {counted(gpus, 'GPU')}, and each needs "
            f"one of its own. Start at most {gpus}, or hide the GPUs with CUDA_VISIBLE_DEVICES= to train on the CPU."
        )
    return torch.device("cuda", local_rank)


def misplaced(model: torch.device, own: torch.device) -> str:
    """The reason why a process cannot train a model on this device; empty if it can.

    >>> misplaced(torch.device("cuda:0"), torch.device("cuda:1"))
    "The model is on cuda:0, but this process's device is cuda:1. Build the task's model on `world.device`."
    """
    if model.type != "cuda" or (model.index or 0) == own.index:
        return ""
    return f"The model is on {model}, but this process's device is {own}. Build the task's model on `world.device`."


@contextlib.contextmanager
def repeatable(device: torch.device) -> Iterator[None]:
    """Within this context torch takes kernels of a GPU that give the same bits each time, and refuses others.

    Those of a CPU always do.
    """
    if device.type != "cuda":
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", WORKSPACE)
    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.backends.cudnn.benchmark = before[1]


def unrepeatable(error: BaseException) -> str:
    """The operation that torch refuses in the context of `repeatable`; empty for other errors."""
    words = str(error).splitlines()[0] if str(error) else ""
    if match := re.match(r"(\S+) does not have a deterministic implementation", words):
        return match[1]
    return "a product of cuBLAS" if "not deterministic because it uses CuBLAS" in words else ""
