"""How much memory a training step needs: the most bytes of tensors that are alive at once."""

import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from foveate.train import TrainConfig
from foveate.train.trainable import Trainable
from foveate.train.update import Updater

LOOK = 64
"""Batches among which the largest is looked for."""


class _Alive(TorchDispatchMode):
    """Counts the bytes of every tensor that an operation makes, until its last user lets go of it."""

    def __init__(self, known: Iterator[Tensor]) -> None:
        super().__init__()
        self.now = self.most = 0
        self.sizes: dict[int, int] = {}
        for tensor in known:
            self._add(tensor)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self._add(leaf)
        return result

    def _add(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.sizes:
            return
        self.sizes[key] = storage.nbytes()
        self.now += storage.nbytes()
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self._remove, key)

    def _remove(self, key: int) -> None:
        self.now -= self.sizes.pop(key, 0)


def step_bytes(task: Trainable, config: TrainConfig) -> int:
    """Bytes of weights, gradients, moments and activations at the fullest moment of a training step.

    The step is made with the largest of the first batches; what kernels allocate inside themselves is not seen. The
    figure depends on no machine and on no other process, as the memory of a process would. The model is changed by
    the step: give one that is not needed any more.
    """
    numbers = range(min(LOOK, task.steps_per_epoch))
    largest = max(numbers, key=lambda number: _elements(task.batch(number)))
    updater = Updater(task, config)
    updater(largest // config.accumulate + 1, [])  # the moments are made by the first update
    with _Alive(_held(task, updater)) as alive:
        updater(largest // config.accumulate + 1, [])
    return alive.most


def _held(task: Trainable, updater: Updater) -> Iterator[Tensor]:
    yield from task.model.parameters()
    yield from task.model.buffers()
    for state in updater.optimiser.state.values():
        yield from (value for value in state.values() if isinstance(value, Tensor))


def _elements(batch: Any) -> int:
    """Numbers in a batch: in its tensors, and in those of its parts."""
    if isinstance(batch, torch.Tensor):
        return batch.numel()
    parts = vars(batch).values() if hasattr(batch, "__dict__") else ()
    return sum(_elements(part) for part in parts)
