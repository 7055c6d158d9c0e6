"""A request describes the sentences to decode: their number, limits and prefixes."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from foveate.decode.stepper import Stepper
from foveate.errors import UsageError
from foveate.search import Constraints

BEGIN, END = 1, 2


@dataclass(frozen=True, kw_only=True, eq=False)
class Request:
    """A decoder's input beside the model, its state and its configuration.

    `max_length` is one limit or a limit for each sentence, within that of the configuration. `prefix` forces the
    beginning of each sentence; a negative id leaves the choice free, so that shorter prefixes are padded with −1.
    `examples` numbers the sentences for the noise of sampling, so that a sentence has the same noise in every batch; by
    default they count from 0. `seeds` replace the configuration's seed, one for each sentence.
    """

    sentences: int
    max_length: Int[Tensor, " sentences"] | int | None = None
    prefix: Int[Tensor, "sentences length"] | None = None
    examples: Sequence[int] | None = None
    seeds: Sequence[int] | None = None
    begin: int = BEGIN
    end: int = END
    device: torch.device | str | None = None

    def __post_init__(self) -> None:
        counts = {
            "max_length": _count(self.max_length),
            "prefix": _count(self.prefix),
            "examples": _count(self.examples),
            "seeds": _count(self.seeds),
        }
        for name, count in counts.items():
            if count not in (None, self.sentences):
                raise UsageError(
                    f"decode: {name} is for {count} sentences, but there are {self.sentences}. Pass one for each."
                )

    def limits(self, constraints: Constraints, stepper: Stepper) -> Int[Tensor, " sentences"]:
        """The maximum number of tokens of each sentence. Raises `UsageError` if model, prefix or min_length do not
        fit.
        """
        limits = torch.full((self.sentences,), constraints.max_length)
        if self.max_length is not None:
            limits = torch.minimum(limits, torch.as_tensor(self.max_length).cpu().to(torch.int64))
        if self.sentences == 0:
            return limits
        longest, shortest = int(limits.max()), int(limits.min())
        require_limits(longest, shortest, constraints, stepper)
        if self.prefix is not None and self.prefix.shape[1] > shortest:
            forced = (self.prefix >= 0).cpu().sum(1)
            if bool((forced > limits).any()):
                raise UsageError(
                    f"decode: a prefix has {int(forced.max())} tokens, more than its sentence's limit. Raise it."
                )
        return limits.to(self.device)


def require_limits(longest: int, shortest: int, constraints: Constraints, stepper: Stepper) -> None:
    """Raise `UsageError` if sentences with such limits do not fit the model or min_length."""
    representable = getattr(stepper, "max_length", None)
    if representable is not None and longest > representable:
        raise UsageError(
            f"decode: max_length is {longest} tokens, but the model represents {representable} positions. "
            f"Set max_length to {representable} or less."
        )
    if shortest <= constraints.min_length:
        raise UsageError(
            f"decode: min_length is {constraints.min_length}, but a sentence may have only {shortest} tokens with "
            f"its end. Set max_length to {constraints.min_length + 1} or more, or lower min_length."
        )


def _count(value: Tensor | Sequence[int] | int | None) -> int | None:
    return None if value is None or isinstance(value, int) else len(value)
