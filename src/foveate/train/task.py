"""What training needs from a task, and what it gives back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from torch import nn

from foveate.nn.loss import Loss


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
