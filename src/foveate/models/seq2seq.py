"""The interface of encoder–decoders: teacher-forced logits for training, explicit states for decoding."""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.data.batch import Batch
from foveate.nn.loss import Predictions
from foveate.nn.packing import Packing

State = TypeVar("State")


class Seq2Seq(nn.Module, ABC, Generic[State]):
    """p(y | x) = Π_t p(y_t | y_<t, x)

    Sources are `tokens + eos`; targets are `bos + tokens + eos`. `forward` predicts `target.ids[:, 1:]` from
    `target.ids[:, :-1]`, all positions at once. `foveate.decode` calls `start`, `step` and
    `select`. A state is a value that is passed in and returned, and can be used for one step only; `select` copies it.
    Models that decode batches in flight also have `join(state, later)`: the rows of both, which it may use up.
    """

    max_length: int | None = None
    """The largest number of positions that the model can represent; None without a limit."""

    @abstractmethod
    def forward(self, source: Batch, target: Batch) -> Float[Tensor, "tokens vocab"]:
        """Teacher-forced logits of the real target positions, sentence after sentence: the order of `predicted`."""

    def predictions(self, source: Batch, target: Batch) -> Predictions:
        """The rows of `forward`, whose loss a model may compute without all logits."""
        return Predictions(self(source, target))

    def loss(self, source: Batch, target: Batch, *, label_smoothing: float = 0.0) -> Float[Tensor, ""]:
        """Cross-entropy of the real target positions, in nats, summed: the training loss."""
        predictions = self.predictions(source, target)
        return predictions.cross_entropy(self.predicted(target), label_smoothing=label_smoothing)

    @abstractmethod
    def start(self, source: Batch, beam: int = 1) -> State:
        """Read the sources. Rows are `sentence · beam + hypothesis`."""

    @abstractmethod
    def step(self, state: State, token: Int[Tensor, " rows"]) -> tuple[State, Float[Tensor, "rows vocab"]]:
        """The logits of the token after `token` in every row."""

    @abstractmethod
    def select(self, state: State, rows: Int[Tensor, " new_rows"]) -> State:
        """The state of the selected rows, which are whole groups of `beam` consecutive rows of one sentence."""

    def reorder(self, state: State, rows: Int[Tensor, " new_rows"]) -> State:
        """`select`, which may use the state up."""
        return self.select(state, rows)

    @staticmethod
    def predicted(target: Batch) -> Int[Tensor, " tokens"]:
        """The tokens that the rows of `forward` predict."""
        return Packing(target.lengths - 1, target.ids.shape[1] - 1).pack(target.ids[:, 1:])

    def parameter_count(self) -> int:
        """The number of trainable numbers; tied weights count once."""
        return sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)


def selected_sentences(
    rows: Int[Tensor, " new_rows"], beam: int, sentences: int
) -> Int[Tensor, " new_sentences"] | None:
    """The sentences of the selected rows; None for all sentences in order, as after a reordering within them."""
    chosen = rows[::beam] // beam if beam > 1 else rows
    if len(chosen) == sentences and torch.equal(chosen, torch.arange(sentences, device=rows.device)):
        return None
    return chosen
