"""The protocol that decoding requires of a model."""

from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from foveate.errors import UsageError

State = Any  # the model's own state between steps; decoding only passes it back


@runtime_checkable
class Stepper(Protocol):
    """A model that scores one token at a time.

    The state is a value: `step` and `select` return a new one, and each state is used once. A model with a limited
    number of target positions has an attribute `max_length`, which decoding does not exceed.
    """

    def step(self, state: State, token: Int[Tensor, " rows"]) -> tuple[State, Float[Tensor, "rows vocab"]]:
        """Read each row's last token; return the state after it and the logits (not log-probabilities) of the next."""
        ...

    def select(self, state: State, rows: Int[Tensor, " new_rows"]) -> State:
        """The state of the selected rows, in that order.

        Rows come in groups of `beam` consecutive rows of one sentence (row = sentence · beam + place). Within a group a
        row may occur twice or not at all. Groups keep their order; those of finished sentences are missing.
        """
        ...


@runtime_checkable
class Joiner(Stepper, Protocol):
    """A stepper whose rows may stand at different times, as batches in flight need it."""

    def join(self, state: State, later: State) -> State:
        """The rows of both states, which this may use up: those of `later` come last."""
        ...


def reordered(stepper: Stepper, state: State, rows: Int[Tensor, " new_rows"]) -> State:
    """The state of the selected rows; the state itself is used no more. A stepper may have a `reorder` for this."""
    return getattr(stepper, "reorder", stepper.select)(state, rows)


def require_rows(count: int, rows: int) -> None:
    """Raise `UsageError` if a model has given another number of rows."""
    if count != rows:
        raise UsageError(
            f"decode: the model has logits for {count} rows instead of {rows}. "
            "Start its state with one row a sentence, or `beam` rows a sentence for beam search."
        )
