"""A validation by all processes of a run: each computes some of the batches, and all have the same figures."""

from collections.abc import Callable
from typing import TypeVar

import torch

from foveate.nn.measurement import SharedValidation
from foveate.train.noise import noise_seed, reseed
from foveate.train.trainable import Trainable
from foveate.train.world import World

Answer = TypeVar("Answer")


def validation_figures(task: Trainable, world: World, device: torch.device, seed: int) -> dict[str, float]:
    """The task's figures, with the same bits in any world; where the task cannot share its batches, the first process
    computes all of them.

    The noise of a batch, for models that draw some, follows from the seed and its number.
    """

    def each(work: Callable[[int], Answer], count: int) -> list[Answer]:
        def alone(number: int) -> Answer:
            reseed(device, noise_seed(seed, number))
            return work(number)

        return world.each(alone, count, during="a validation")

    def whole() -> dict[str, float]:
        reseed(device, seed)
        return _plain(task.validate())

    if not isinstance(task, SharedValidation):
        return world.once(whole, during="a validation")
    figures = task.measured(each)
    return world.once(lambda: _plain(figures))  # whose exponentials may differ on other machines


def _plain(figures: dict[str, float]) -> dict[str, float]:
    return {name: float(value) for name, value in figures.items()}
