"""Estimates the duration of training by timing a few steps in advance, without changing the model."""

import contextlib
import time
from collections.abc import Iterator

import torch
from torch import nn

from foveate.errors import DataError
from foveate.train.accelerator import chosen_device, placed
from foveate.train.recipe import TrainConfig
from foveate.train.trainable import Trainable
from foveate.train.update import Updater

TIMED, ENOUGH = 3, 2.0
"""The maximum number of timed steps, and the seconds after which no further step starts."""
FORWARD = 0.35
"""The share of a step's time that its forward pass takes, which is the cost of a batch of validation."""


def step_seconds(task: Trainable, config: TrainConfig) -> float | None:
    """Mean seconds of an update, timed on batches from all parts of the first epoch; None if an update fails.

    The weights, buffers and random generators are restored to the bit, and the optimiser is separate, so that later
    training is not affected.
    """
    with placed(task.model, chosen_device(config.device)), _unchanged(task.model):
        task.model.train()
        updater = Updater(task, config)
        epoch = max(task.steps_per_epoch // config.accumulate, 1)
        try:
            updater(1, [])  # the first update compiles, plans and allocates
            start, count = time.perf_counter(), 0
            while count < TIMED and (not count or time.perf_counter() - start < ENOUGH):
                updater(1 + (2 * count + 1) * epoch // (2 * TIMED), [])
                count += 1
            return (time.perf_counter() - start) / count
        except DataError:
            return None  # the loss is not finite; training will report it


def total_seconds(task: Trainable, config: TrainConfig, step: float, done: int = 0) -> float:
    """Seconds until the end of training if an update takes `step` seconds, including validations if the task counts
    them.
    """
    rest = max(config.steps - done, 0)
    batches: int = getattr(task, "validation_batches", 0)
    return step * (rest + FORWARD * batches * (rest / config.validate_every) / config.accumulate)


@contextlib.contextmanager
def _unchanged(model: nn.Module) -> Iterator[None]:
    """Restore weights, buffers, gradients, the mode and the random generators on exit."""
    tensors = [*model.parameters(), *model.buffers()]
    copies, training = [tensor.detach().clone() for tensor in tensors], model.training
    devices = {tensor.device.index or 0 for tensor in tensors if tensor.device.type == "cuda"}
    with torch.random.fork_rng(devices=sorted(devices)):
        try:
            yield
        finally:
            with torch.no_grad():
                for tensor, before in zip(tensors, copies, strict=True):
                    tensor.copy_(before)
            model.zero_grad(set_to_none=True)
            model.train(training)
