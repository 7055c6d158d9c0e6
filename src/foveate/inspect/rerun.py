"""A model run again with something changed, beside what it said before: what the viewer asks for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from foveate.inspect.trace.trace import Trace


@dataclass(frozen=True, kw_only=True)
class Rerun:
    """What a model made of an edited text, or with something switched off."""

    trace: Trace
    output: tuple[str, ...]
    before: tuple[str, ...]
    """The output with everything on."""
    log_probability: float | None = None
    """Of what was the output before: how much the change costs it."""
    log_probability_before: float | None = None

    @property
    def changed(self) -> bool:
        return self.output != self.before


@runtime_checkable
class Rerunner(Protocol):
    """A model at hand."""

    def __call__(
        self,
        source: str,
        target: str | None,
        *,
        heads_off: Sequence[tuple[str, int]],
        tokens_off: Sequence[int],
    ) -> Rerun: ...
