"""One update of the weights: the gradients of some batches are checked, clipped and applied."""

import contextlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from foveate.errors import DataError, UsageError
from foveate.nn.transfer import beside
from foveate.train.accelerator import unrepeatable
from foveate.train.history import Validation
from foveate.train.noise import noise_seed, reseed
from foveate.train.optimiser import adamw
from foveate.train.recipe import TrainConfig
from foveate.train.replica import Replica
from foveate.train.tally import Report, Table
from foveate.train.trainable import Loss, Trainable
from foveate.train.world import ALONE, World


@dataclass(frozen=True, kw_only=True)
class Updated:
    """The figures of an update: the sum of the loss and its count, the gradient's norm before clipping, the rate.

    `stop` says whether any process was asked to stop, and `seconds` is the clock of the first one.
    """

    losses: Sequence[Loss]
    total: float
    count: int
    norm: float
    learning_rate: float
    stop: bool
    seconds: float


class Updater:
    """gradient of Σ loss / Σ count → finite? → clip → AdamW

    Accumulated batches of any size therefore give exactly the update of one large batch. Of the batches of an update,
    rank r of a world of n computes every n-th one, from number r: order and noise are the same in every world.
    """

    def __init__(self, task: Trainable, config: TrainConfig, world: World = ALONE) -> None:
        self.task = task
        self.config = config
        self.world = world
        self.weights = _held(task, config, world)
        self.optimiser = adamw(
            self.weights.named(),
            learning_rate=config.learning_rate,
            weight_decay=config.weight_decay,
            betas=config.betas,
            eps=config.eps,
        )
        self.parameters = [parameter for group in self.optimiser.param_groups for parameter in group["params"]]
        self.device = self.parameters[0].device
        self.sum = self.weights.summation(self.parameters, config.reduction, config.accumulate)
        self._unit = 0.0
        self._table: Table | None = None

    def __call__(
        self, step: int, history: Sequence[Validation], *, stop: bool = False, seconds: float = 0.0
    ) -> Updated:
        """Make update number `step`, from 1. Raises DataError, without changing weights, for values that are not
        finite.
        """
        config = self.config
        rate = config.learning_rate * config.schedule.factor(step, config.steps, history)
        # Gradients are divided by an estimate of the update's count, which is corrected together with the clipping: at
        # most one pass over the gradients, and none for a single batch without clipping.
        batches: dict[int, Any] = {}
        losses: list[Loss] = []
        peaks: list[float] = []
        guess = 0.0 if self._is_plain else self.unit
        first = (step - 1) * config.accumulate
        own = range(first + self.world.rank, first + config.accumulate, self.world.size)
        rounds = -(-config.accumulate // self.world.size) if self.sum.in_step else len(own)
        for number in range(rounds):
            # A rank in step with the others repeats a batch where it has none, and adds nothing.
            index = own[number] if number < len(own) else own[0]
            batch = batches[index] if index in batches else self._batch(index)
            self.sum.begin(last=number == rounds - 1)
            with self._in_words():
                loss = self._loss(batch, index)
                guess = guess or max(loss.count, 1) * config.accumulate
                loss.total.backward(gradient=loss.total.new_full((), 1 / guess if number < len(own) else 0.0))
            peak = self.sum.add()
            if number < len(own):
                batches[index] = batch
                losses.append(loss)
                peaks.append(peak)
        if self.device.type == "cuda" and self.world.size > 1:
            with self.world.meeting():  # so that the watch sees who waits for the kernels of others
                torch.cuda.synchronize(self.device)
        report = Report(losses=losses, peaks=peaks, stop=stop, seconds=seconds)
        if self.world.size > 1:
            self._table = self._table or Table(config.accumulate, losses[0], self.world)
            report = self._table.agreed(report)
        count = sum(loss.count for loss in report.losses)
        correction = guess / max(count, 1)
        total = float(sum(loss.total.detach() for loss in report.losses))
        norm = math.nan
        if math.isfinite(total) and all(peak < self.sum.largest for peak in report.peaks):
            gradients = self.sum.finish()
            norm = self.sum.norm(gradients) * correction
        if not (math.isfinite(norm) and math.isfinite(total)):
            self.optimiser.zero_grad(set_to_none=True)
            raise self._not_finite(step, batches, report, norm, rate)
        if config.clip_norm is not None and norm > config.clip_norm:
            correction *= config.clip_norm / norm
        self._apply(gradients, correction, rate)
        return Updated(
            losses=report.losses,
            total=total,
            count=count,
            norm=norm,
            learning_rate=rate,
            stop=report.stop,
            seconds=report.seconds,
        )

    @property
    def unit(self) -> float:
        """The estimate of an update's count for all updates and ranks: from the first batch, a power of two, by which
        floating-point numbers are divided without rounding.
        """
        if not self._unit:
            buffers = {name: buffer.clone() for name, buffer in self.task.model.named_buffers()}
            with torch.no_grad(), self._in_words():
                count = self._loss(self._batch(0), 0).count
                for name, buffer in self.task.model.named_buffers():
                    if name in buffers and buffer.shape == buffers[name].shape:  # tables of positions may have grown
                        buffer.copy_(buffers[name])
            self._unit = 2.0 ** math.ceil(math.log2(max(count, 1) * self.config.accumulate))
        return self._unit

    @property
    def _is_plain(self) -> bool:
        """Whether autograd alone adds up the gradients."""
        return self.world.size == 1 and math.isinf(self.sum.largest)

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """The precision of the forward pass, in training and in validation."""
        if self.config.precision == "float32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    @contextlib.contextmanager
    def _in_words(self) -> Iterator[None]:
        """Turns torch's refusals of a model into a UsageError."""
        try:
            yield
        except RuntimeError as error:
            if operation := unrepeatable(error):
                words = (
                    f'train.reduction = "exact" needs the same bits each time, and torch has no such kernel on '
                    f'{self.device.type} for {operation}. Choose train.reduction = "fast", or train on the CPU.'
                )
            elif any(word in str(error) for word in ("DTensor", "DeviceMesh")):
                words = (
                    f"{_name(self.task.model)} reads weights outside of its blocks and methods, where they are "
                    f'in parts (train.sharding = "{self.config.sharding}"). Train it with train.sharding = "replicate".'
                )
            else:
                raise
            raise UsageError(words) from error  # not shared: the others may have no such batch

    def _batch(self, index: int) -> Any:
        """A batch on the model's device."""
        return beside(self.task.model, self.task.batch(index))

    def _loss(self, batch: Any, index: int) -> Loss:
        reseed(self.device, noise_seed(self.config.seed, index))
        with self.autocast():
            return self.task.loss(batch)

    def _apply(self, gradients: list[Tensor], factor: float, rate: float) -> None:
        if factor != 1.0:
            torch._foreach_mul_(gradients, factor)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)

    def _not_finite(self, step: int, batches: Mapping[int, Any], report: Report, norm: float, rate: float) -> DataError:
        first = (step - 1) * self.config.accumulate
        values = {first + place: float(loss.total.detach()) for place, loss in enumerate(report.losses)}
        guilty = [index for index, value in values.items() if not math.isfinite(value)]
        large = [first + place for place, peak in enumerate(report.peaks) if not peak < self.sum.largest]
        what = f"the gradient's norm is {norm}"
        if guilty:
            what = f"the loss is {values[guilty[0]]}"
        elif large:
            peak = report.peaks[large[0] - first]
            what = f"the gradient has the entry {peak:.3g}"
            if math.isfinite(peak):
                what += f', and train.reduction = "exact" adds entries below {self.sum.largest:.3g}'
            guilty = large
        described = {index: self.task.describe(batches[index]) for index in guilty or values if index in batches}
        texts = self.world.gather(json.dumps(list(described.items())))
        pairs = sorted(pair for text in texts for pair in json.loads(text))
        names = "; ".join(description for _, description in pairs)
        precision = ', precision = "float32"' if self.config.precision == "bfloat16" else ""
        error = DataError(
            f"At step {step:,} {what}; the weights were not updated. The batch: {names}. "
            f"Look at these examples, or start again with a lower learning_rate (here {rate:.2g}), "
            f"more warm-up{precision} or a smaller clip_norm; resuming alone reaches the same batch again."
        )
        error.shared = True
        return error


def _held(task: Trainable, config: TrainConfig, world: World) -> Replica:
    """The model's weights, whole or in parts."""
    if world.size == 1 or config.sharding == "replicate":
        return Replica(task.model, world)
    from foveate.train.shards import Shards  # which imports FSDP, for a second

    return Shards(task.model, world, config.sharding)


def _name(model: nn.Module) -> str:
    """The name of a model's class, to which FSDP adds its own."""
    return type(model).__name__.removeprefix("FSDP")
