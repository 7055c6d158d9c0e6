"""Transcribe: the text of recordings, or of any long rows of vectors, by CTC, by attention, or by both."""

from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from foveate.attention import Visibility
from foveate.config import require_counts, setting
from foveate.data.audio import AudioReader
from foveate.data.batch import PairBatch
from foveate.data.feature import VectorReader
from foveate.data.parallel import ParallelData
from foveate.data.reader import Reader
from foveate.data.text import short
from foveate.data.tokeniser import CharacterConfig, TokeniserConfig
from foveate.data.transcript import TextConfig
from foveate.data.variant import Draw
from foveate.metrics.transcription import Edits
from foveate.models import RecogniserConfig
from foveate.nn.loss import Loss
from foveate.nn.measurement import Each, in_turn
from foveate.nn.transfer import beside
from foveate.tasks.run_model import require_seed, require_smoothing
from foveate.tasks.text_writing import WritingConfig, WritingTask, batch_plan, count
from foveate.tasks.transcribe.encoder_view import ViewedBatch, drawn_view, require_views
from foveate.tasks.transcribe.recognition import RecognitionConfig, quick

VALIDATED = ("loss", "word_error", "character_error")
"""The figures of `validate`, by which the best checkpoint can be chosen."""


@dataclass(frozen=True, kw_only=True)
class TranscribeDataConfig:
    """The files of recordings, and the settings that make batches of them."""

    data: str = setting("", "recordings with their texts: a table of path, tab and text")
    valid_data: str | None = setting(None, "validation recordings; none: some training recordings are held out")
    held_out: int = setting(500, "recordings held out for validation when no file is given; at most a tenth of all")
    max_length: int = setting(3000, "vectors of the longest recording; longer ones are left out and reported")
    max_text: int = setting(500, "tokens of the longest text, begin and end included; longer ones are left out")
    max_tokens: int = setting(12_000, "vectors and tokens per batch, padding counted")

    def __post_init__(self) -> None:
        require_counts(self, "held_out", "max_length", "max_text", "max_tokens")


@dataclass(frozen=True, kw_only=True)
class TranscribeConfig(WritingConfig):
    """Everything that defines a run that transcribes, except how it is trained."""

    data: TranscribeDataConfig = TranscribeDataConfig()
    reader: AudioReader | VectorReader | Reader = setting(
        AudioReader(), "audio: a table of recordings; vector: .npz, or a list of .npy files"
    )
    text: TextConfig = setting(TextConfig(), "how texts are written")
    tokeniser: TokeniserConfig = setting(CharacterConfig(), "how text becomes tokens")
    model: RecogniserConfig = setting(RecogniserConfig(), "the architecture")
    decode: RecognitionConfig | None = setting(
        None, "how texts are searched for: ctc, joint, beam or greedy; none: by CTC, with the decoder if there is one"
    )
    label_smoothing: float = setting(0.0, "probability spread over the vocabulary in the loss of the attention decoder")
    views: tuple[Visibility, ...] | None = setting(
        None, 'rules such as "chunk(8, left=4)": each step draws one of them, or none, for the encoder to see by'
    )
    seed: int = setting(0, "seed of initial weights, of the held-out choice, of augmentation and the order of batches")

    def __post_init__(self) -> None:
        if self.views is not None:
            require_views(self.views, self.model)
        require_smoothing(self.label_smoothing)
        require_seed(self.seed)

    @property
    def room(self) -> Callable[[int], int] | None:
        """The number of outputs of CTC for a number of vectors; None without CTC."""
        stride = self.model.subsampling.factor
        return (lambda length: -(-length // stride)) if self.model.ctc_share else None


class TranscribeTask(WritingTask):
    """A recogniser with its data: what training fits."""

    @classmethod
    def origin(cls, config: Any, part: str) -> str:
        folders = _by_folder(config) if part == "train" else ""
        return super().origin(config, part) + folders

    @property
    def indivisible(self) -> str:
        """The reason why several processes cannot divide the model among them; empty if they can."""
        choice = 'Choose train.sharding = "replicate", or leave views out'
        return f"views use it under other rules. {choice}" if self.config.views else ""

    @staticmethod
    def drawn(config: Any) -> str:
        return (
            f"They are drawn by line from {config.data.data}, so whoever speaks there may be trained on too; "
            "--valid-data (data.valid_data) takes other voices."
        )

    def batch(self, step: int) -> PairBatch:
        """As `WritingTask.batch`, with the view that is drawn."""
        batch = super().batch(step)
        rule = drawn_view(self.config.views or (), Draw(self.config.seed, step))
        return batch if rule is None else ViewedBatch(**vars(batch), rule=rule)

    def loss(self, batch: PairBatch) -> Loss:
        smoothing = self.config.label_smoothing
        model = self.model.under(batch.rule) if isinstance(batch, ViewedBatch) else self.model
        return Loss(model.loss(batch.source, batch.target, label_smoothing=smoothing), count(batch))

    def figures(self, data: ParallelData, each: Each = in_turn) -> dict[str, float]:
        """The loss in nats per token, and errors per word and per character of texts that are found greedily.

        Errors are shares: 0.1 for 10 % of the words. A search with a beam, as in use, finds better texts.
        """
        plan = batch_plan(data, self.config)

        def sums(step: int) -> tuple[float, int, list[int], list[int]]:
            batch = beside(self.model, data.batch(plan.examples(step)))
            written = [self.tokeniser.decode(ids) for ids in quick(self.model, batch.source)]
            spoken = [self.tokeniser.decode(ids) for ids in batch.target.ids.tolist()]
            edits = Edits.of_words(spoken, written), Edits.of_characters(spoken, written)
            words, characters = ([*astuple(kind)] for kind in edits)
            return float(self.model.loss(batch.source, batch.target)), count(batch), words, characters

        totals, tokens, *edits = zip(*each(sums, plan.steps_per_epoch), strict=True)
        words, characters = (sum((Edits(*counts) for counts in kind), Edits()) for kind in edits)
        return {"loss": sum(totals) / sum(tokens), "word_error": words.rate, "character_error": characters.rate}

    def describe(self, batch: PairBatch) -> str:
        return super().describe(batch) + (f" under {batch.rule}" if isinstance(batch, ViewedBatch) else "")


def _by_folder(config: Any) -> str:
    """A sentence on texts that are names of folders; empty for a table."""
    if not Path(config.data.data).is_dir():
        return ""
    first = next(config.read(config.data.data))
    return (
        f" Each text is the name of a folder, such as {short(first.label)} for {first.thing}. For other texts, name a "
        "table of path, tab and text."
    )
