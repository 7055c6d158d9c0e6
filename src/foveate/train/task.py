"""What training needs from a task, and what it gives back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from torch import nn

from foveate.errors import UsageError
from foveate.nn.loss import Loss
from foveate.train.recipe import TrainConfig


@runtime_checkable
class Trainable(Protocol):
    """Anything that `fit` can fit. Batches are numbered from 0 through all epochs, and depend on their number alone."""

    @property
    def model(self) -> nn.Module:
        """The model, on its device."""

    @property
    def steps_per_epoch(self) -> int:
        """Batches that make an epoch."""

    def batch(self, step: int) -> Any:
        """Batch number `step`: the same for the same number, whenever and in whatever process it is asked for."""

    def loss(self, batch: Any) -> Loss:
        """The loss of a batch; called in training mode."""

    def validate(self) -> dict[str, float]:
        """Metrics on held-out data, at least `loss`; called in evaluation mode without gradients."""

    def describe(self, batch: Any) -> str:
        """Names the examples of a batch for an error message: `examples 17, 204 and 398`."""


def require_measured(task: Trainable, config: TrainConfig) -> None:
    """Raises UsageError when checkpoints are to be compared by what a task says, in `unmeasured`, its data do not give.

    Otherwise only the first validation would tell.
    """
    unmeasured: Mapping[str, str] = getattr(task, "unmeasured", {})
    if config.metric in unmeasured:
        raise UsageError(
            f"train.metric cannot be {config.metric}: {unmeasured[config.metric]}. Or choose another metric."
        )


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How training ended. The model then carries the final weights, unless it was interrupted."""

    step: int
    seconds: float
    tokens: int
    best_step: int | None
    best: Mapping[str, float]
    """All metrics of the best validation."""
    weights: str
    """Which weights `model.safetensors` holds, in words; empty when interrupted."""
    interrupted: bool
    stopped_because: str
