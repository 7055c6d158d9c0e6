"""Masked language modelling: a text with gaps, each filled from the text on both sides."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int, Int64
from torch import Tensor

from foveate.config import setting
from foveate.data.batch import Batch
from foveate.data.batching import BatchPlan, groups
from foveate.data.block import blocks_in_turn
from foveate.data.gap import GapConfig, Gaps
from foveate.data.line_encoding import SegmentEncoder
from foveate.data.shard_plan import ShardPlan, plan_of
from foveate.data.store import TokenStore
from foveate.data.text_pair import read_segmented, segments
from foveate.data.tokeniser import BOS, EOS, CharacterConfig, TokeniserConfig
from foveate.models import BERT, BERTConfig
from foveate.nn.loss import Loss, cross_entropy
from foveate.nn.measurement import Each, in_turn
from foveate.nn.transfer import beside
from foveate.tasks.run_model import require_seed, seeded
from foveate.tasks.text_task import Layout, TextConfig, TextData, TextTask, text_of

VALIDATED = ("loss", "perplexity", "accuracy")
"""The figures of `validate` for the gaps, by which the best checkpoint can be chosen."""
TRAINING, VALIDATION = 1, 2
"""Numbers for drawing gaps, so that training and validation have different ones."""


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelConfig:
    """Everything that defines a masked language model's run, except how it is trained."""

    data: TextConfig = TextConfig()
    tokeniser: TokeniserConfig = setting(CharacterConfig(), "how text becomes tokens")
    segments: tuple[int, int] | None = setting(
        None,
        "columns of the two texts of a pair, counted from 0: each line is then read alone, a pair or one text, and is "
        "left out if it is longer than data.block_length; none: the text is one stream",
    )
    gaps: GapConfig = GapConfig()
    model: BERTConfig = setting(BERTConfig(), "the encoder")
    seed: int = setting(0, "seed of initial weights, of the order of batches and of the gaps")

    def __post_init__(self) -> None:
        require_seed(self.seed)
        if self.model.positions < self.data.block_length + 1:
            raise ValueError(
                f"data.block_length is {self.data.block_length}, and a begin token comes before it, but the model has "
                f"{self.model.positions} positions. Raise max_length, of the model or its attention, or lower the block"
            )
        if self.segments is not None:
            self._require_pairs(self.segments)

    def _require_pairs(self, columns: tuple[int, int]) -> None:
        if min(columns) < 0 or columns[0] == columns[1]:
            raise ValueError(f"segments must be two different columns, counted from 0, got {list(columns)}")
        if self.model.num_segments < 2:
            raise ValueError("segments tell two texts apart, but model.num_segments is 1. Raise it to 2")
        if self.data.max_tokens <= self.data.block_length:
            raise ValueError(
                f"data.max_tokens must be more than data.block_length, {self.data.block_length}: a begin token comes "
                f"before a line. Got {self.data.max_tokens}"
            )


@dataclass(frozen=True, eq=False)
class GapBatch:
    """A text with gaps, and the tokens that were removed."""

    text: Batch
    place: Int[Tensor, " gaps"]
    """Indices of the gaps among the real tokens, text after text."""
    answer: Int[Tensor, " gaps"]
    segments: Int[Tensor, "batch length"] | None = None
    """The text of the pair, 0 or 1, that each token belongs to; None where rows are single texts."""

    @classmethod
    def of(cls, rows: list[np.ndarray], config: MaskedLanguageModelConfig, vocab_size: int, *draw: int) -> "GapBatch":
        """Rows with a begin token before each, whose vector stands for the whole. The gaps follow from the seed of the
        configuration and the numbers `draw`.

        Where rows are in segments, end tokens are never gaps: they mark where the second segment begins.
        """
        in_segments = config.segments is not None
        whole = Batch.of([np.concatenate([[BOS], row]) for row in rows])
        ids = whole.ids.numpy()
        real = np.arange(whole.length) < whole.lengths.numpy()[:, None]
        fixed = ~real | (ids == EOS) if in_segments else ~real
        gaps = Gaps.of(
            ids, vocab_size=vocab_size, gap=vocab_size, config=config.gaps, seed=(config.seed, *draw), fixed=fixed
        )
        place = torch.from_numpy(gaps.asked[real].nonzero()[0])
        text = Batch(torch.from_numpy(gaps.shown), whole.lengths, whole.num_tokens)
        kinds = segments(whole.ids) if in_segments else None
        return cls(text, place, torch.from_numpy(ids[real])[place], kinds)


class _Lines:
    """The lines of a store, without the stream's first end, each with a begin."""

    def __init__(self, store: TokenStore) -> None:
        self.store = store

    def __len__(self) -> int:
        return len(self.store) - 1

    def lengths_between(self, start: int, stop: int) -> Int64[np.ndarray, " rows"]:
        return self.store.lengths_between(start + 1, stop + 1) + 1


class MaskedLanguageModelTask(TextTask[MaskedLanguageModelConfig, BERT]):
    """BERT with its text, for training.

    Its vocabulary is the tokeniser's and one more: the token that hides. As in RoBERTa (Liu et al. 2019), rows are
    stretches of the text, their gaps are drawn anew every time, and nothing asks whether sentences follow each other.
    With `segments` rows are lines, and pairs of texts are read as BERT reads them: begin A end B end.
    """

    report = ""
    """A sentence on the lines that `prepare` has left out; empty if there are none."""

    def __init__(self, config: MaskedLanguageModelConfig, data: TextData) -> None:
        super().__init__(config, data)
        self.lines: BatchPlan | ShardPlan | None = None
        if config.segments is not None:
            budget, shard = config.data.max_tokens, config.data.shard
            self.lines = plan_of(_Lines(data.training), max_tokens=budget, seed=config.seed, shard=shard)

    @classmethod
    def prepare(cls, config: MaskedLanguageModelConfig, run: Path) -> "MaskedLanguageModelTask":
        """Put the text into the run folder. Raises DataError as `TextData.prepare` does, and for lines that are neither
        a pair nor one text."""
        data, report = TextData.prepare(config.data, config.tokeniser, run, cls.layout(config))
        task = cls(config, data)
        task.report = str(report)
        return task

    @staticmethod
    def layout(config: MaskedLanguageModelConfig) -> Layout:
        """The text as a stream, or each line alone."""
        columns = config.segments
        if columns is None:
            return Layout()
        return Layout(
            read=lambda path: read_segmented(path, columns),
            texts=lambda lines: chain.from_iterable(line.texts for line in lines),
            encoder=lambda tokeniser: SegmentEncoder(tokeniser, config.data.block_length),
            columns=columns,
        )

    @property
    def steps_per_epoch(self) -> int:
        return self.plan.steps_per_epoch if self.lines is None else self.lines.steps_per_epoch

    @staticmethod
    def initial(config: MaskedLanguageModelConfig, vocab: int) -> BERT:
        """The last token of the vocabulary is the gap."""
        return seeded(lambda: config.model.build(vocab + 1), config.seed)

    def batch(self, step: int) -> GapBatch:
        """Batch number `step`, its gaps too: a pure function of the seed and the step."""
        training = self.data.training
        if self.lines is None:
            rows = list(self.plan.read(training.tokens, self.plan.starts(step))[:, 1:])
        else:
            rows = [training[int(line) + 1] for line in self.lines.examples(step)]
        return GapBatch.of(rows, self.config, self.data.tokeniser.vocab_size, TRAINING, step)

    def loss(self, batch: GapBatch) -> Loss:
        return Loss(cross_entropy(gap_logits(self.model, batch), batch.answer), len(batch.answer))

    def measured(self, each: Each) -> dict[str, float]:
        """Cross-entropy in nats per gap, its exponential, and the share of correct tokens, always of the same gaps."""
        vocab = self.data.tokeniser.vocab_size
        return score(self.model, self.data.validation, self.config, vocab, each=each)

    def describe(self, batch: GapBatch) -> str:
        """The first row of a batch as text."""
        tokeniser = self.data.tokeniser
        shown = batch.text.ids[0][: batch.text.lengths[0]].tolist()
        first = [token for token in shown if token < tokeniser.vocab_size]
        return f"{batch.text.size} rows of the text; the first, without its gaps, is {text_of(tokeniser, first)!r}"


def gap_logits(model: BERT, batch: GapBatch) -> Float[Tensor, "gaps vocab"]:
    """The logits of the gaps alone, which saves the product with the vocabulary for all other tokens."""
    hidden, _ = model.encode(batch.text, batch.segments)
    return model.logits(hidden[batch.place])


@torch.no_grad()
def score(
    model: BERT,
    text: TokenStore | list[np.ndarray],
    config: MaskedLanguageModelConfig,
    vocab: int,
    *,
    each: Each = in_turn,
) -> dict[str, float]:
    """The figures of a text, whose gaps follow from the configuration's seed."""
    batches = list(_in_turn(text, config))

    def sums(number: int) -> tuple[float, int, int]:
        batch = beside(model, GapBatch.of(batches[number], config, vocab, VALIDATION, number))
        logits = gap_logits(model, batch)
        right = int((logits.argmax(-1) == batch.answer).sum())
        return float(cross_entropy(logits, batch.answer)), right, len(batch.answer)

    total, right, count = map(sum, zip(*each(sums, len(batches)), strict=True))
    loss = total / count
    return {"loss": loss, "perplexity": math.exp(min(loss, 700.0)), "accuracy": right / count}


def _in_turn(text: TokenStore | list[np.ndarray], config: MaskedLanguageModelConfig) -> Iterator[list[np.ndarray]]:
    """The whole text in batches: blocks of its stream, or its lines."""
    if config.segments is not None:
        lines = [text[number] for number in range(1, len(text))]
        for group in groups([len(line) + 1 for line in lines], config.data.max_tokens):
            yield [lines[number] for number in group]
        return
    tokens = text.tokens if isinstance(text, TokenStore) else np.concatenate(text)
    for blocks in blocks_in_turn(tokens, config.data.block_length, config.data.rows):
        yield [block.tokens[1:] for block in blocks]
