"""Speak: frames of speech for a text, by a recurrent decoder that attends to the text."""

from dataclasses import dataclass
from typing import Any

import torch

from foveate.config import setting
from foveate.data.audio import AudioReader, AudioRows
from foveate.data.batch import Batch, PairBatch
from foveate.data.parallel import ParallelData
from foveate.data.reader import RowMaker
from foveate.data.tokeniser import CharacterConfig, Tokeniser, TokeniserConfig
from foveate.data.transcript import TextConfig
from foveate.models.synthesiser import Synthesiser, SynthesiserConfig
from foveate.nn.loss import Loss
from foveate.nn.measurement import Each, in_turn
from foveate.nn.packing import Packing
from foveate.nn.transfer import beside
from foveate.tasks.run_model import require_seed, seeded
from foveate.tasks.text_writing import WritingConfig, WritingTask, batch_plan
from foveate.tasks.transcribe.task import TranscribeDataConfig

VALIDATED = ("loss", "distance")
"""The figures of `validate`, by which the best checkpoint can be chosen."""


@dataclass(frozen=True, kw_only=True)
class SpeakConfig(WritingConfig):
    """Everything that defines a run that speaks, except how it is trained."""

    data: TranscribeDataConfig = TranscribeDataConfig()
    reader: AudioReader = setting(AudioReader(), "how recordings become frames: log-mel energies, which become sound")
    text: TextConfig = setting(TextConfig(), "how texts are read")
    tokeniser: TokeniserConfig = setting(CharacterConfig(), "how text becomes tokens")
    model: SynthesiserConfig = setting(SynthesiserConfig(), "the architecture")
    seed: int = setting(0, "seed of initial weights, of the held-out choice and of the order of batches")

    def __post_init__(self) -> None:
        require_seed(self.seed)
        reader, usual = self.reader, AudioReader()
        for name in ("features", "deltas", "normalisation", "stack", "stride", "augmentation"):
            if getattr(reader, name) != getattr(usual, name):
                raise ValueError(
                    f"reader.{name} must be {getattr(usual, name)!r} for speech, got {getattr(reader, name)!r}: sound "
                    "is made of single frames of log-mel energies, normalised by the training data"
                )

    @property
    def longest(self) -> int:
        """The longest recording in frames."""
        return self.data.max_length

    @property
    def longest_text(self) -> int:
        """The longest text in tokens, begin and end included."""
        return self.data.max_text

    def built(self, rows: RowMaker, tokeniser: Tokeniser) -> Synthesiser:
        """The configured model with its initial weights, a function of the seed."""
        width = rows.input.width
        assert width is not None
        return seeded(lambda: self.model.build(tokeniser.vocab_size, width), self.seed)


class SpeakTask(WritingTask):
    """A synthesiser with its data, which are those of a recogniser: recordings and their texts."""

    config: Any
    model: Any
    rows: AudioRows

    def loss(self, batch: PairBatch) -> Loss:
        return Loss(self.model.loss(spoken_ids(batch.target), batch.source), count(batch))

    def figures(self, data: ParallelData, each: Each = in_turn) -> dict[str, float]:
        return figures(self.model, data, self.config, each)


def figures(model: Synthesiser, data: ParallelData, config: SpeakConfig, each: Each = in_turn) -> dict[str, float]:
    """The loss per frame, and the root of the mean squared error of the energies of teacher-forced frames, in
    deviations of the training data.
    """
    plan = batch_plan(data, config)

    def sums(step: int) -> tuple[float, float, int]:
        batch = beside(model, data.batch(plan.examples(step)))
        return float(model.loss(spoken_ids(batch.target), batch.source)), _squared_errors(model, batch), count(batch)

    total, errors, frames = map(sum, zip(*each(sums, plan.steps_per_epoch), strict=True))
    return {"loss": total / frames, "distance": (errors / frames) ** 0.5}


def spoken_ids(target: Batch) -> Batch:
    """Texts with their ends, without their begin."""
    return Batch(target.ids[:, 1:], target.lengths - 1)


def _squared_errors(model: Synthesiser, batch: PairBatch) -> float:
    """The sum over teacher-forced frames of the mean squared error of their numbers."""
    speech = batch.source
    goal = Packing(speech.lengths, speech.length).pack(speech.features).float()
    refined = model(spoken_ids(batch.target), speech).refined.float()
    return float((refined - goal).square().mean(-1).sum(dtype=torch.float64))


def count(batch: PairBatch) -> int:
    """The frames of a batch."""
    return batch.source.num_tokens
