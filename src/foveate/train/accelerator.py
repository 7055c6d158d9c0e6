"""The GPUs of a run: one for each process, and kernels that give the same bits each time."""

import contextlib
import os
import re
from collections.abc import Iterator

import torch

from foveate.errors import UsageError
from foveate.suggestion import counted

WORKSPACE = ":4096:8"
"""The setting of cuBLAS by which a product has the same bits each time."""


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
