"""One update of the weights: the gradients of some batches are checked, clipped and applied."""

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.utils import get_total_norm

from foveate.errors import DataError
from foveate.train.history import Validation
from foveate.train.noise import noise_seed, reseed
from foveate.train.optimiser import adamw
from foveate.train.recipe import TrainConfig
from foveate.train.trainable import Loss, Trainable


@dataclass(frozen=True, kw_only=True)
class Updated:
    """The figures of an update: the sum of the loss and its count, the gradient's norm before clipping, the rate."""

    losses: Sequence[Loss]
    total: float
    count: int
    norm: float
    learning_rate: float


class Updater:
    """gradient of Σ loss / Σ count → finite? → clip → AdamW

    Accumulated batches of any size therefore give exactly the update of one large batch.
    """

    def __init__(self, task: Trainable, config: TrainConfig) -> None:
        self.task = task
        self.config = config
        self.optimiser = adamw(
            task.model,
            learning_rate=config.learning_rate,
            weight_decay=config.weight_decay,
            betas=config.betas,
            eps=config.eps,
        )
        self.parameters = [parameter for group in self.optimiser.param_groups for parameter in group["params"]]
        self.device = self.parameters[0].device

    def __call__(self, step: int, history: Sequence[Validation]) -> Updated:
        """Make update number `step`, from 1. Raises DataError, without changing weights, for values that are not
        finite.
        """
        config = self.config
        rate = config.learning_rate * config.schedule.factor(step, config.steps, history)
        # Gradients are divided by an estimate of the update's count, which is corrected together with the clipping: at
        # most one pass over the gradients, and none for a single batch without clipping.
        batches: list[Any] = []
        losses: list[Loss] = []
        guess = 0
        for index in range((step - 1) * config.accumulate, step * config.accumulate):
            batches.append(self.task.batch(index))
            losses.append(self._loss(batches[-1], index))
            guess = guess or max(losses[0].count, 1) * config.accumulate
            losses[-1].total.backward(gradient=losses[-1].total.new_full((), 1 / guess))
        count = sum(loss.count for loss in losses)
        correction = guess / max(count, 1)
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        norm = float(get_total_norm(gradients, foreach=True)) * correction
        total = float(sum(loss.total.detach() for loss in losses))
        if not (math.isfinite(norm) and math.isfinite(total)):
            self.optimiser.zero_grad(set_to_none=True)
            raise self._not_finite(step, batches, losses, norm, rate)
        if config.clip_norm is not None and norm > config.clip_norm:
            correction *= config.clip_norm / norm
        self._apply(gradients, correction, rate)
        return Updated(losses=losses, total=total, count=count, norm=norm, learning_rate=rate)

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """The precision of the forward pass, in training and in validation."""
        if self.config.precision == "float32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def _loss(self, batch: Any, index: int) -> Loss:
        reseed(self.device, noise_seed(self.config.seed, index))
        with self.autocast():
            return self.task.loss(batch)

    def _apply(self, gradients: list[torch.Tensor], factor: float, rate: float) -> None:
        if factor != 1.0:
            torch._foreach_mul_(gradients, factor)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)

    def _not_finite(
        self, step: int, batches: Sequence[Any], losses: Sequence[Loss], norm: float, rate: float
    ) -> DataError:
        values = [float(loss.total.detach()) for loss in losses]
        guilty = [(value, batch) for value, batch in zip(values, batches, strict=True) if not math.isfinite(value)]
        what = f"the loss is {guilty[0][0]}" if guilty else f"the gradient's norm is {norm}"
        names = "; ".join(self.task.describe(batch) for batch in ([batch for _, batch in guilty] or batches))
        precision = ', precision = "float32"' if self.config.precision == "bfloat16" else ""
        return DataError(
            f"At step {step:,} {what}; the weights were not updated. The batch: {names}. "
            f"Look at these examples, or start again with a lower learning_rate (here {rate:.2g}), "
            f"more warm-up{precision} or a smaller clip_norm; resuming alone reaches the same batch again."
        )
