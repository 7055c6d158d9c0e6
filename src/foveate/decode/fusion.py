"""Shallow fusion: a language model's opinion of every prefix of a search over frames."""

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float

from foveate.decode.request import BEGIN, END
from foveate.decode.stepper import State, Stepper
from foveate.errors import DataError, UsageError


@runtime_checkable
class Knowledge(Protocol):
    """The log-probabilities of the next token after one prefix."""

    def log_probabilities(self) -> Float[np.ndarray, " vocab"]: ...

    def child(self, token: int) -> "Knowledge":
        """The knowledge after one more token."""
        ...


@dataclass(frozen=True, eq=False)
class Fusion:
    """A language model whose tokens are those of the frames' labels.

    `state` has one row and stands before the begin token, as `model.start(Batch.of([[]]))` returns it. Prefixes of one
    search have different lengths, so every prefix that survives a frame takes one step of one row.

    Raises `UsageError` for texts that are longer than the model's positions, `DataError` if it returns NaN.

    Reference: Gulcehre et al. 2015, section 4.1.
    """

    stepper: Stepper
    state: State
    begin: int = BEGIN
    end: int = END
    device: torch.device | str | None = None

    def start(self) -> "Opinion":
        return Opinion(self, None, self.begin, 0)


@dataclass(eq=False)
class Opinion:
    """A language model's log-probabilities after one prefix, computed when they are first read."""

    fusion: Fusion
    before: "Opinion | None"
    token: int
    length: int
    _state: State = None
    _scores: np.ndarray | None = field(default=None, repr=False)

    def log_probabilities(self) -> Float[np.ndarray, " vocab"]:
        if self._scores is None:
            self._step()
        assert self._scores is not None
        return self._scores

    def child(self, token: int) -> "Opinion":
        return Opinion(self.fusion, self, token, self.length + 1)

    def _step(self) -> None:
        fusion, before, token = self.fusion, self.before, torch.tensor([self.token], device=self.fusion.device)
        longest = getattr(fusion.stepper, "max_length", None)
        if longest is not None and self.length >= longest:
            raise UsageError(
                f"decode: the language model reads {longest} tokens, but a text has more. Decode without it, or split "
                "the input."
            )
        if before is None:
            state = fusion.stepper.select(fusion.state, torch.zeros_like(token))
        else:
            before.log_probabilities()
            state = fusion.stepper.select(before._state, torch.zeros_like(token))
        with torch.no_grad():
            self._state, logits = fusion.stepper.step(state, token)
        scores = logits[0].log_softmax(-1, dtype=torch.float32).double().cpu().numpy()
        if np.isnan(scores).any():
            raise DataError(
                "decode: the language model's logits are not numbers (NaN). "
                "The checkpoint is damaged or its training diverged: use an earlier checkpoint."
            )
        self._scores, self.before = scores, None
