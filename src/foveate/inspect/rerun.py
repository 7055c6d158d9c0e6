"""The protocol for running a model again with a change, and the result beside the former output, for the viewer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from foveate.inspect.trace.trace import Trace


@dataclass(frozen=True, kw_only=True)
class Rerun:
    """The result of a model for an edited text, or with heads or tokens switched off."""

    trace: Trace
    output: tuple[str, ...]
    before: tuple[str, ...]
    """The output with everything on."""
    log_probability: float | None = None
    """The log-probability of the former output after the change."""
    log_probability_before: float | None = None

    @property
    def changed(self) -> bool:
        return self.output != self.before


@runtime_checkable
class Rerunner(Protocol):
    """A model that can run again."""

    def __call__(
        self,
        source: str,
        target: str | None,
        *,
        heads_off: Sequence[tuple[str, int]],
        tokens_off: Sequence[int],
    ) -> Rerun: ...
