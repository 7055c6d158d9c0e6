"""What the runners ask of every engine: one size of model, one kind of batch, one kind of answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

PAD, BOS, EOS, UNKNOWN = 0, 1, 2, 3

Rows = Sequence[Sequence[int]]
"""Token ids, row by row. Sources end with EOS; targets begin with BOS and end with EOS."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """One encoder–decoder Transformer for all: published shape, small enough for a CPU."""

    vocab: int = 8000
    model_dim: int = 256
    layers: int = 3
    heads: int = 8
    feedforward_dim: int = 1024
    dropout: float = 0.1
    label_smoothing: float = 0.1
    max_length: int = 256


class Trainee(Protocol):
    """A model that can be trained. The runner owns optimiser, precision and clipping, the same for all.

    A call takes rows, not tensors: padding, packing and masks are the engine's own business and count as its time.
    """

    def __call__(self, sources: Rows, targets: Rows) -> Tensor:
        """The mean label-smoothed cross-entropy of the real target tokens, to be differentiated."""
        ...


class TraineeModule(nn.Module):
    """A trainee that is a module, as all of ours are."""

    def forward(self, sources: Rows, targets: Rows) -> Tensor:
        raise NotImplementedError


class Translator(Protocol):
    """An engine that decodes with weights it was given."""

    def __call__(self, sources: Rows, beam: int, max_new_tokens: int) -> list[list[int]]:
        """The best hypothesis of each source as ids without BOS, EOS and PAD; greedy when `beam` is 1."""
        ...


class ForcedTranslator(Protocol):
    """An engine that cannot hold the weights and decodes with its own, as many tokens as it is told."""

    def __call__(self, sources: Rows, lengths: Sequence[int]) -> list[list[int]]:
        """Greedy outputs of these lengths; the end token counts."""
        ...


# A module that trains offers `trainee(size)`; one that decodes offers `translator(folder, precision, threads)`, where
# the folder holds a Hugging Face Marian (config.json, model.safetensors), or `forced(size)`.


def count_parameters(model: nn.Module) -> int:
    """Trainable numbers; tied weights count once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
