"""The contract of every language model: teacher-forced logits to train, explicit states to go on from a prompt."""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.data.batch import Batch
from foveate.nn.loss import cross_entropy
from foveate.nn.packing import Packing

State = TypeVar("State")


class LanguageModel(nn.Module, ABC, Generic[State]):
    """p(y) = Π_t p(y_t | y_<t)

    `forward` gives the logits after each real token, all positions at once. `start`, `step` and `select` are what
    `foveate.decode` drives: a state is a value that is passed in and returned, and may be stepped once.
    """

    max_length: int | None = None
    """The most positions the model can represent; None when there is no limit."""

    @abstractmethod
    def forward(self, text: Batch) -> Float[Tensor, "tokens vocab"]:
        """The logits of what follows each real token, text after text."""

    @abstractmethod
    def start(self, prompt: Batch, beam: int = 1) -> State:
        """Read the prompts, which must be equally long and may be empty; rows are `prompt · beam + hypothesis`.

        The first `step` then takes the token after them: for a prompt a b c, start from a b and step with c.
        """

    @abstractmethod
    def step(self, state: State, token: Int[Tensor, " rows"]) -> tuple[State, Float[Tensor, "rows vocab"]]:
        """The logits of the token after `token` in every row."""

    @abstractmethod
    def select(self, state: State, rows: Int[Tensor, " new_rows"]) -> State:
        """Keep, repeat or reorder rows."""

    def loss(self, text: Batch) -> Float[Tensor, ""]:
        """Cross-entropy of every token after the first of its text, in nats, summed: what training makes small."""
        return cross_entropy(self(self.read(text)), self.predicted(text))

    @staticmethod
    def read(text: Batch) -> Batch:
        """All tokens but the last of each text: what the predictions are made from."""
        return Batch(text.ids[:, :-1], text.lengths - 1, text.num_tokens - text.size)

    @staticmethod
    def predicted(text: Batch) -> Int[Tensor, " tokens"]:
        """All tokens but the first of each text, in the order of `forward`'s rows for `read(text)`."""
        return Packing(text.lengths - 1, text.ids.shape[1] - 1).pack(text.ids[:, 1:])

    def parameter_count(self) -> int:
        """Distinct trainable numbers; tied weights count once."""
        return sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)


def require_equal_lengths(prompt: Batch) -> None:
    """Raises ValueError where the rows of a state would stand at different times."""
    if prompt.num_tokens != prompt.size * prompt.length:
        raise ValueError(
            f"Prompts of one state are equally long, these have {prompt.lengths.tolist()} tokens. "
            "Start one state for each length."
        )
