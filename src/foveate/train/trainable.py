"""The protocol that training requires of a task, and the outcome of training."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from torch import nn

from foveate.errors import DataError, UsageError
from foveate.nn.loss import Loss
from foveate.train.recipe import TrainConfig


@runtime_checkable
class Trainable(Protocol):
    """A task that `fit` can train. Batches are numbered from 0 through all epochs and depend only on their number."""

    @property
    def model(self) -> nn.Module:
        """The model, on its device."""

    @property
    def steps_per_epoch(self) -> int:
        """The number of batches of an epoch."""

    def batch(self, step: int) -> Any:
        """Batch number `step`, which is the same at any time and in any process."""

    def loss(self, batch: Any) -> Loss:
        """The loss of a batch, in training mode."""

    def validate(self) -> dict[str, float]:
        """Metrics on held-out data, at least `loss`, in evaluation mode without gradients."""

    def describe(self, batch: Any) -> str:
        """The names of a batch's examples for an error message, such as `examples 17, 204 and 398`."""


def require_measured(task: Trainable, config: TrainConfig) -> None:
    """Raises UsageError for a `train.metric` that the task's data cannot give, according to its `unmeasured`, and
    DataError for validation data that do not make batches.

    Otherwise the errors would appear only at the first validation.
    """
    unmeasured: Mapping[str, str] = getattr(task, "unmeasured", {})
    if config.metric in unmeasured:
        raise UsageError(
            f"train.metric cannot be {config.metric}: {unmeasured[config.metric]}. Or choose another metric."
        )
    try:
        getattr(task, "validation_batches", 0)
    except DataError as error:
        raise DataError(f"The validation data: {error}") from error


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of training. The model then has the final weights, unless training was interrupted."""

    step: int
    seconds: float
    tokens: int
    best_step: int | None
    best: Mapping[str, float]
    """All metrics of the best validation."""
    weights: str
    """A description of the weights in `model.safetensors`; empty when interrupted."""
    interrupted: bool
    stopped_because: str
