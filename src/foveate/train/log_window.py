"""Sums over the updates since the last row of the log."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from foveate.train.history import metrics_from_json, metrics_to_json
from foveate.train.update import Updated


class Window:
    """Loss, tokens and metrics since the last row. Checkpoints contain it, so that rows are the same after resuming."""

    def __init__(self) -> None:
        self.total, self.count, self.norm, self.updates = 0.0, 0, 0.0, 0
        self.metrics: dict[str, Tensor | float] = {}
        self.opened = 0.0
        self.paused = 0.0

    def add(self, updated: Updated) -> None:
        """Add one update. Metrics that are tensors stay on their device, without synchronisation."""
        self.total += updated.total
        self.count += updated.count
        self.norm += updated.norm
        self.updates += 1
        for loss in updated.losses:
            for name, value in loss.metrics.items():
                value = value.detach() if isinstance(value, Tensor) else value
                self.metrics[name] = self.metrics.get(name, 0.0) + value

    def pause(self, seconds: float) -> None:
        """Exclude time that was not spent on updates from the speed."""
        self.paused += seconds

    def close(self, now: float) -> dict[str, float]:
        """The means per token, the mean gradient norm and the speed; the next window begins at `now` seconds."""
        count, spent = max(self.count, 1), now - self.opened - self.paused
        figures = {
            "loss": self.total / count,
            **{name: float(value) / count for name, value in self.metrics.items()},
            "gradient_norm": self.norm / max(self.updates, 1),
            "tokens_per_second": round(self.count / spent, 1) if spent > 0 else 0.0,
        }
        self.__init__()  # type: ignore[misc]
        self.opened = now
        return figures

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a checkpoint."""
        sums = {name: float(value) for name, value in self.metrics.items()}
        return {**vars(self), "metrics": metrics_to_json(sums)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Window":
        """The inverse of `to_dict`."""
        window = cls()
        vars(window).update({**values, "metrics": metrics_from_json(values["metrics"])})
        return window
