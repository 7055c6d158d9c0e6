"""Masked language modelling: a text with gaps, each filled from all that stands around it."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.config import setting
from foveate.data.batch import Batch
from foveate.data.block import blocks_in_turn
from foveate.data.gap import GapConfig, Gaps
from foveate.data.tokeniser import BOS, CharacterConfig, TokeniserConfig
from foveate.errors import UsageError
from foveate.models import BERT, BERTConfig
from foveate.nn.loss import Loss, cross_entropy
from foveate.tasks.text import TextConfig, TextData, block_plan, text_of

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
        if not 0 <= self.seed < 1 << 63:
            raise ValueError(f"seed must be at least 0 and less than 2 to the power of 63, got {self.seed}")
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


class MaskedLanguageModelTask:
    """BERT with its text: what training fits.

    Its vocabulary is the tokeniser's and one more: the token that hides. As in RoBERTa (Liu et al. 2019), rows are
    stretches of the text, their gaps are drawn anew every time, and nothing asks whether sentences follow each other.
    """

    def __init__(self, config: MaskedLanguageModelConfig, data: TextData) -> None:
        self.config, self.data = config, data
        self.plan = block_plan(config.data, data.training, config.seed)
        self.model: BERT = build_model(config, data.tokeniser.vocab_size)

    @classmethod
    def prepare(cls, config: MaskedLanguageModelConfig, run: Path) -> "MaskedLanguageModelTask":
        """Put the text into the run folder. Raises DataError as `TextData.prepare` does."""
        return cls(config, TextData.prepare(config.data, config.tokeniser, run))

    @classmethod
    def open(cls, config: MaskedLanguageModelConfig, run: Path) -> "MaskedLanguageModelTask":
        """The task of a run folder that `prepare` has filled."""
        return cls(config, TextData.open(run))

    @property
    def digests(self) -> dict[str, str]:
        """The tokeniser's digest by file name, to be kept with the run."""
        return self.data.digests

    @property
    def steps_per_epoch(self) -> int:
        return self.plan.steps_per_epoch

    def batch(self, step: int) -> GapBatch:
        """Batch number `step`, its gaps too: a pure function of the seed and the step."""
        rows = self.plan.read(self.data.training.tokens, self.plan.starts(step))[:, 1:]
        return self._with_gaps(list(rows), TRAINING, step)

    def loss(self, batch: GapBatch) -> Loss:
        return Loss(cross_entropy(self._logits(batch), batch.answer), len(batch.answer))

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Cross-entropy in nats per gap, its exponential, and how many are filled right; the same gaps every time."""
        total, right, count, data = 0.0, 0, 0, self.config.data
        for number, rows in enumerate(blocks_in_turn(self.data.validation.tokens, data.block_length, data.rows)):
            for equal in _by_length([row[1:] for row in rows]):
                batch = self._with_gaps(equal, VALIDATION, number)
                logits = self._logits(batch)
                total += float(cross_entropy(logits, batch.answer))
                right += int((logits.argmax(-1) == batch.answer).sum())
                count += len(batch.answer)
        loss = total / count
        return {"loss": loss, "perplexity": math.exp(min(loss, 700.0)), "accuracy": right / count}

    def describe(self, batch: GapBatch) -> str:
        """The first row of a batch as text."""
        tokeniser = self.data.tokeniser
        first = [token for token in batch.text.ids[0].tolist() if token < tokeniser.vocab_size]
        return f"{batch.text.size} rows of the text; the first, without its gaps, is {text_of(tokeniser, first)!r}"

    def _with_gaps(self, rows: list[np.ndarray], part: int, number: int) -> GapBatch:
        seed = (self.config.seed, part, number)
        return GapBatch.of(rows, vocab_size=self.data.tokeniser.vocab_size, config=self.config.gaps, seed=seed)

    def _logits(self, batch: GapBatch) -> Float[Tensor, "gaps vocab"]:
        """Of the gaps alone: the product with the vocabulary is not made where nothing is asked."""
        hidden, _ = self.model.encode(batch.text)
        return self.model.logits(hidden[batch.place])


def build_model(config: MaskedLanguageModelConfig, vocab: int) -> BERT:
    """The configured model with its initial weights, a function of the seed; its last token is the gap.

    Raises UsageError when the settings of the model do not go together.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        try:
            return config.model.build(vocab + 1)
        except (ValueError, RuntimeError, ArithmeticError) as error:  # torch's own checks of sizes raise all three
            raise UsageError(f"The model cannot be built as configured: {error}") from error


def _by_length(rows: list[np.ndarray]) -> list[list[np.ndarray]]:
    """The last row of a text may be shorter than the others, and stands alone."""
    whole = [row for row in rows if len(row) == len(rows[0])]
    rest = [row for row in rows if len(row) != len(rows[0])]
    return [part for part in (whole, rest) if part]
