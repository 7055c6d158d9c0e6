"""How long training will take, from steps that are made before it and leave nothing behind."""

import contextlib
import time
from collections.abc import Iterator

import torch
from torch import nn

from foveate.errors import DataError
from foveate.train.recipe import TrainConfig
from foveate.train.task import Trainable
from foveate.train.update import Updater

TIMED, ENOUGH = 3, 2.0
"""Steps that are timed at most, and the seconds after which there is no further one."""
FORWARD = 0.35
"""The part of a step's time that its forward pass takes: what a batch of validation costs."""


def step_seconds(task: Trainable, config: TrainConfig) -> float | None:
    """Seconds of an update, by some of them on batches from all of the first epoch; None where one cannot be made.

    The weights, buffers and random generators are put back to the bit, and the optimiser is one of its own: what is
    trained afterwards does not know of it.
    """
    with _unchanged(task.model):
        task.model.train()
        updater = Updater(task, config)
        epoch = max(task.steps_per_epoch // config.accumulate, 1)
        try:
            updater(1, [])  # the first one compiles, plans and allocates
            started, made = time.perf_counter(), 0
            while made < TIMED and (not made or time.perf_counter() - started < ENOUGH):
                updater(1 + (2 * made + 1) * epoch // (2 * TIMED), [])
                made += 1
            return (time.perf_counter() - started) / made
        except DataError:
            return None  # a loss that is not finite: training says more about it


def total_seconds(task: Trainable, config: TrainConfig, step: float, done: int = 0) -> float:
    """Seconds of all that is left, where a step takes so long: updates, and validations where the task counts them."""
    left = max(config.steps - done, 0)
    batches: int = getattr(task, "validation_batches", 0)
    return step * (left + FORWARD * batches * (left / config.validate_every) / config.accumulate)


@contextlib.contextmanager
def _unchanged(model: nn.Module) -> Iterator[None]:
    """Afterwards weights, buffers, gradients, the mode and the random generators are what they were."""
    tensors = [*model.parameters(), *model.buffers()]
    kept, training = [tensor.detach().clone() for tensor in tensors], model.training
    devices = {tensor.device.index or 0 for tensor in tensors if tensor.device.type == "cuda"}
    with torch.random.fork_rng(devices=sorted(devices)):
        try:
            yield
        finally:
            with torch.no_grad():
                for tensor, before in zip(tensors, kept, strict=True):
                    tensor.copy_(before)
            model.zero_grad(set_to_none=True)
            model.train(training)
