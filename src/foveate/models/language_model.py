"""The interface of language models: teacher-forced logits for training, explicit states for continuing a prompt."""

import functools
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.data.batch import Batch
from foveate.nn.loss import Predictions
from foveate.nn.packing import Packing

State = TypeVar("State")


class LanguageModel(nn.Module, ABC, Generic[State]):
    """p(y) = Π_t p(y_t | y_<t)

    `forward` computes the logits after each real token, all positions at once. `foveate.decode` calls `start`, `step`
    and `select`: a state is a value that is passed in and returned, and can be used for one step only. Models that
    decode batches in flight also have `join(state, later)`, the rows of both, and `extend(state, ids)`, the state after
    as many more tokens of every row; both may use up what they are given.
    """

    max_length: int | None = None
    """The largest number of positions that the model can represent; None without a limit."""

    @abstractmethod
    def forward(self, text: Batch) -> Float[Tensor, "tokens vocab"]:
        """The logits of the next token after each real token, text after text."""

    @abstractmethod
    def start(self, prompt: Batch, beam: int = 1) -> State:
        """Read the prompts, which may be empty; rows are `prompt · beam + hypothesis`.

        The first `step` then takes the token after them: for a prompt a b c, start from a b and step with c.
        """

    @abstractmethod
    def step(self, state: State, token: Int[Tensor, " rows"]) -> tuple[State, Float[Tensor, "rows vocab"]]:
        """The logits of the token after `token` in every row."""

    @abstractmethod
    def select(self, state: State, rows: Int[Tensor, " new_rows"]) -> State:
        """The state of the selected rows, which may be left out, repeated or reordered."""

    def predictions(self, text: Batch) -> Predictions:
        """The rows of `forward` for `read(text)`, whose loss a model may compute without all logits."""
        return Predictions(self(self.read(text)))

    def loss(self, text: Batch) -> Float[Tensor, ""]:
        """Cross-entropy of every token after the first of its text, in nats, summed: the training loss."""
        return self.predictions(text).cross_entropy(self.predicted(text))

    @staticmethod
    def read(text: Batch) -> Batch:
        """All tokens but the last of each text: the input of the predictions."""
        return Batch(text.ids[:, :-1], text.lengths - 1, text.num_tokens - text.size)

    @staticmethod
    def predicted(text: Batch) -> Int[Tensor, " tokens"]:
        """All tokens but the first of each text, in the order of `forward`'s rows for `read(text)`."""
        return Packing(text.lengths - 1, text.ids.shape[1] - 1).pack(text.ids[:, 1:])

    def parameter_count(self) -> int:
        """The number of trainable numbers; tied weights count once."""
        return sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)


def are_equally_long(prompt: Batch) -> bool:
    """Whether no prompt is padded."""
    return prompt.num_tokens == prompt.size * prompt.length


def start_by_length(model: Any, prompt: Batch, beam: int) -> Any:
    """The state of a model with `join` after prompts of unequal lengths, from those of the equally long ones."""
    lengths = prompt.lengths.tolist()
    groups = [[row for row, each in enumerate(lengths) if each == length] for length in sorted(set(lengths))]
    batches = (Batch.of([prompt.ids[row, : lengths[row]].tolist() for row in group]) for group in groups)
    state = functools.reduce(model.join, (model.start(batch.to(prompt.ids.device), beam) for batch in batches))
    order = torch.tensor([row for group in groups for row in group]).argsort()
    rows = (order[:, None] * beam + torch.arange(beam)).flatten()
    return model.select(state, rows.to(prompt.ids.device))


def require_equal_lengths(prompt: Batch) -> None:
    """Raise ValueError if the rows of a state would be at different times."""
    if prompt.num_tokens != prompt.size * prompt.length:
        raise ValueError(
            f"Prompts of one state are equally long, these have {prompt.lengths.tolist()} tokens. "
            "Start one state for each length."
        )
