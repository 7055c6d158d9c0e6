"""Masked language modelling: a text with gaps, each filled from all that stands around it."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.config import setting
from foveate.data.batch import Batch
from foveate.data.block import blocks_in_turn
from foveate.data.gap import GapConfig, Gaps
from foveate.data.tokeniser import BOS, CharacterConfig, TokeniserConfig
from foveate.models import BERT, BERTConfig
from foveate.nn.loss import Loss, cross_entropy
from foveate.tasks.initial import require_seed, seeded
from foveate.tasks.text import TextConfig, TextTask, text_of

VALIDATED = ("loss", "perplexity", "accuracy")
"""What `validate` measures, of the gaps, and what may decide which checkpoint is best."""
TRAINING, VALIDATION = 1, 2
"""So that no batch of one has the gaps of another."""


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelConfig:
    """Everything that defines a masked language model's run, but how it is trained."""

    data: TextConfig = TextConfig()
    tokeniser: TokeniserConfig = setting(CharacterConfig(), "how text becomes tokens")
    gaps: GapConfig = GapConfig()
    model: BERTConfig = setting(BERTConfig(), "the encoder")
    seed: int = setting(0, "seed of initial weights, of the order of batches and of the gaps")

    def __post_init__(self) -> None:
        require_seed(self.seed)
        if self.model.max_length < self.data.block_length + 1:
            raise ValueError(
                f"data.block_length is {self.data.block_length}, and a begin token comes before it, but the model has "
                f"{self.model.max_length} positions. Raise model.max_length, or lower the block"
            )


@dataclass(frozen=True, eq=False)
class GapBatch:
    """A text with gaps, and what stood in them."""

    text: Batch
    place: Int[Tensor, " gaps"]
    """Of the gaps, among the real tokens, text after text."""
    answer: Int[Tensor, " gaps"]

    @classmethod
    def of(cls, rows: list[np.ndarray], *, vocab_size: int, config: GapConfig, seed: tuple[int, ...]) -> "GapBatch":
        """Rows of one length, a begin token before each: the vector that stands for the whole."""
        whole = np.stack([np.concatenate([[BOS], row]) for row in rows]).astype(np.int64)
        gaps = Gaps.of(whole, vocab_size=vocab_size, gap=vocab_size, config=config, seed=seed)
        place = torch.from_numpy(gaps.asked.ravel().nonzero()[0])
        return cls(Batch.of(list(gaps.shown)), place, torch.from_numpy(whole.ravel())[place])


class MaskedLanguageModelTask(TextTask[MaskedLanguageModelConfig, BERT]):
    """BERT with its text: what training fits.

    Its vocabulary is the tokeniser's and one more: the token that hides. As in RoBERTa (Liu et al. 2019), rows are
    stretches of the text, their gaps are drawn anew every time, and nothing asks whether sentences follow each other.
    """

    @staticmethod
    def initial(config: MaskedLanguageModelConfig, vocab: int) -> BERT:
        """Its last token is the gap."""
        return seeded(lambda: config.model.build(vocab + 1), config.seed)

    def batch(self, step: int) -> GapBatch:
        """Batch number `step`, its gaps too: a pure function of the seed and the step."""
        rows = self.plan.read(self.data.training.tokens, self.plan.starts(step))[:, 1:]
        seed, vocab = (self.config.seed, TRAINING, step), self.data.tokeniser.vocab_size
        return GapBatch.of(list(rows), vocab_size=vocab, config=self.config.gaps, seed=seed)

    def loss(self, batch: GapBatch) -> Loss:
        return Loss(cross_entropy(gap_logits(self.model, batch), batch.answer), len(batch.answer))

    def validate(self) -> dict[str, float]:
        """Cross-entropy in nats per gap, its exponential, and how many are filled right; the same gaps every time."""
        return score(self.model, self.data.validation.tokens, self.config, self.data.tokeniser.vocab_size)

    def describe(self, batch: GapBatch) -> str:
        """The first row of a batch as text."""
        tokeniser = self.data.tokeniser
        first = [token for token in batch.text.ids[0].tolist() if token < tokeniser.vocab_size]
        return f"{batch.text.size} rows of the text; the first, without its gaps, is {text_of(tokeniser, first)!r}"


def gap_logits(model: BERT, batch: GapBatch) -> Float[Tensor, "gaps vocab"]:
    """Of the gaps alone: the product with the vocabulary is not made where nothing is asked."""
    hidden, _ = model.encode(batch.text)
    return model.logits(hidden[batch.place])


@torch.no_grad()
def score(model: BERT, tokens: np.ndarray, config: MaskedLanguageModelConfig, vocab: int) -> dict[str, float]:
    """The figures of a stream of tokens with gaps that follow from the configuration's seed."""
    total, right, count, data = 0.0, 0, 0, config.data
    for number, rows in enumerate(blocks_in_turn(tokens, data.block_length, data.rows)):
        for equal in _by_length([row.tokens[1:] for row in rows]):
            seed = (config.seed, VALIDATION, number)
            batch = GapBatch.of(equal, vocab_size=vocab, config=config.gaps, seed=seed)
            logits = gap_logits(model, batch)
            total += float(cross_entropy(logits, batch.answer))
            right += int((logits.argmax(-1) == batch.answer).sum())
            count += len(batch.answer)
    loss = total / count
    return {"loss": loss, "perplexity": math.exp(min(loss, 700.0)), "accuracy": right / count}


def _by_length(rows: list[np.ndarray]) -> list[list[np.ndarray]]:
    """The last row of a text may be shorter than the others, and stands alone."""
    whole = [row for row in rows if len(row) == len(rows[0])]
    rest = [row for row in rows if len(row) != len(rows[0])]
    return [part for part in (whole, rest) if part]
