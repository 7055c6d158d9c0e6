"""The content of a checkpoint's `state.json`, read like a configuration, which checks types and names."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foveate.config import build
from foveate.errors import UsageError
from foveate.machine import Tuning
from foveate.storage.manifest import DamagedError
from foveate.train.history import Validation, from_json, metrics_from_json


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A validation in the format of `Validation.to_dict`."""

    step: int
    value: float | None
    metrics: dict[str, float | None]


@dataclass(frozen=True, kw_only=True)
class OpenWindow:
    """The sums since the last row of the log, in the format of `Window.to_dict`."""

    total: float | None
    count: int
    norm: float | None
    updates: int
    metrics: dict[str, float | None]
    opened: float
    paused: float


@dataclass(frozen=True, kw_only=True)
class State:
    """The state of training without the weights and the moments.

    `native`, `world` and `device` are missing in checkpoints of earlier versions, and these have `tuning.rates`, which
    chose attention paths.
    """

    format: int
    step: int
    tokens: int
    seconds: float
    history: tuple[Entry, ...]
    window: OpenWindow
    log_bytes: int
    configuration: dict[str, Any]
    tuning: Tuning
    threads: int
    torch: str
    native: bool | None = None
    world: int = 1
    device: str | None = None

    def __post_init__(self) -> None:
        for name in ("step", "tokens", "seconds", "log_bytes", "threads"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be below 0, got {getattr(self, name)}")

    @classmethod
    def read(cls, values: Mapping[str, Any], step: int, path: Path) -> "State":
        """The state of a checkpoint. Raises DamagedError if training cannot have written it, or for another step."""
        if isinstance(tuning := values.get("tuning"), Mapping):
            values = {**values, "tuning": {name: value for name, value in tuning.items() if name != "rates"}}
        try:
            state = build(cls, values, where=f"{path}:")
        except UsageError as error:
            raise DamagedError(f"{error} Resume from a copy of the run.") from None
        if state.step != step or any(not 0 < entry.step <= step for entry in state.history):
            raise DamagedError(f"{path} belongs to another step than {step:,}. Resume from a copy of the run.")
        return state

    @property
    def validations(self) -> list[Validation]:
        """The history of validations."""
        return [
            Validation(step=entry.step, value=from_json(entry.value), metrics=metrics_from_json(entry.metrics))
            for entry in self.history
        ]
