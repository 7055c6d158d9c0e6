"""Transcribe: the text of recordings, or of any long rows of vectors, by CTC, by attention, or by both."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from foveate.attention import Visibility
from foveate.config import setting
from foveate.data.audio import AudioReader
from foveate.data.batch import PairBatch
from foveate.data.batching import BatchPlan
from foveate.data.feature import VectorReader
from foveate.data.labelled import TOKENISER as TOKENISER
from foveate.data.parallel import ParallelData
from foveate.data.reader import Example, Reader, RowMaker
from foveate.data.text import short
from foveate.data.tokeniser import CharacterConfig, Tokeniser, TokeniserConfig, load_tokeniser
from foveate.data.transcript import TextConfig, TranscriptReport, prepare_transcripts, transcribed
from foveate.data.variant import Draw, augmented
from foveate.errors import DataError
from foveate.metrics.transcription import Edits
from foveate.models import Recogniser, RecogniserConfig
from foveate.nn.loss import Loss
from foveate.storage.draft import disk_errors, remove_stale
from foveate.suggestion import listing
from foveate.tasks.labelling import Parts
from foveate.tasks.run_model import require_digests, require_seed, seeded, within_run
from foveate.tasks.transcribe.encoder_view import ViewedBatch, drawn_view, require_views
from foveate.tasks.transcribe.recognition import RecognitionConfig, quick

VALIDATED = ("loss", "word_error", "character_error")
"""The figures of `validate`, by which the best checkpoint can be chosen."""
PARTS = ("train", "valid")
Task = TypeVar("Task", bound="TranscribeTask")


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
        for name in ("held_out", "max_length", "max_text", "max_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


@dataclass(frozen=True, kw_only=True)
class TranscribeConfig:
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
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing must be at least 0 and less than 1, got {self.label_smoothing}")
        require_seed(self.seed)

    @property
    def what(self) -> str:
        """The plural noun for the things that have a text."""
        return self.reader.what

    @property
    def longest(self) -> int:
        """The longest recording in vectors, which a model's positions may limit further."""
        return min(self.data.max_length, self.model.positions or self.data.max_length)

    @property
    def longest_text(self) -> int:
        """The longest text in tokens, begin and end included, which the decoder's positions may limit further."""
        return min(self.data.max_text, self.model.target_positions or self.data.max_text)

    @property
    def room(self) -> Callable[[int], int] | None:
        """The number of outputs of CTC for a number of vectors; None without CTC."""
        stride = self.model.subsampling.factor
        return (lambda length: -(-length // stride)) if self.model.ctc_share else None

    def built(self, rows: RowMaker, tokeniser: Tokeniser) -> Recogniser:
        """The configured model with its initial weights, a function of the seed.

        Raises UsageError when the settings of the model do not go together.
        """
        return seeded(lambda: self.model.build(rows.input, tokeniser.vocab_size), self.seed)

    def read(self, path: str) -> Iterator[Example]:
        """The examples of a file, with their texts as they are learnt. Raises DataError for a text without letters."""
        return transcribed(self.reader.read(path), self.text, path)

    def labels_of(self, example: Example) -> Sequence[str]:
        """None: which examples are held out does not depend on their texts."""
        return ()


class TranscribeTask:
    """A recogniser with its data: what training fits."""

    parts: ClassVar[type[Parts]] = Parts
    """The division into training and held-out examples."""

    def __init__(
        self,
        config: Any,
        rows: RowMaker,
        tokeniser: Tokeniser,
        training: ParallelData,
        validation: ParallelData,
    ) -> None:
        self.config, self.rows, self.tokeniser = config, rows, tokeniser
        self.training, self.validation = training, validation
        self.plan = batch_plan(training, config)
        self.model: Any = config.built(rows, tokeniser)

    @classmethod
    def prepare(cls: type[Task], config: Any, run: Path) -> tuple[Task, dict[str, TranscriptReport]]:
        """Read the recordings, learn the tokens of their texts, and store all in the run folder.

        Raises DataError when files are missing or unreadable, or nothing is left to train on.
        """
        parts = cls.parts(config)
        rows = config.reader.learn(parts("train"))
        tokeniser = config.tokeniser.train(example.label for example in parts("train"))
        with disk_errors(run):
            run.mkdir(parents=True, exist_ok=True)
            remove_stale(run / "data")
        rows.save(run)
        tokeniser.save(run / TOKENISER)
        data, reports = {}, {}
        for part in PARTS:
            varied = part == "train"
            data[part], report = store(run / "data" / part, parts(part), rows, tokeniser, config, varied=varied)
            if not report.used:
                raise DataError(
                    f"No example is left for the {part} data. {report} Look at the file, or raise data.max_length "
                    "and data.max_text."
                )
            reports[part] = replace(report, origin=cls.origin(config, part))
        return cls(config, rows, tokeniser, data["train"], data["valid"]), reports

    @classmethod
    def open(cls: type[Task], config: Any, run: Path) -> Task:
        """The task of a run folder that `prepare` has filled."""
        rows, tokeniser = config.reader.open(run), load_tokeniser(run / TOKENISER)
        training, validation = (ParallelData.open(run / "data" / part) for part in PARTS)
        for data in (training, validation):
            data.require(rows.input, tokeniser)
        with within_run(run):
            return cls(config, rows, tokeniser, training, validation)

    @staticmethod
    def origin(config: Any, part: str) -> str:
        """A sentence on where the examples of a part come from, or how their texts are read."""
        if part == "train":
            return f"{config.text}.{_by_folder(config)}"
        if config.data.valid_data is not None:
            return "They are from a file of their own."
        return (
            f"They are drawn by line from {config.data.data}, so whoever speaks there may be trained on too; "
            "--valid-data (data.valid_data) takes other voices."
        )

    @property
    def digests(self) -> dict[str, str]:
        """Digests of the files that define vectors and tokens, to be kept with the run."""
        return digests(self.rows, self.tokeniser)

    @property
    def steps_per_epoch(self) -> int:
        return self.plan.steps_per_epoch

    @property
    def validation_batches(self) -> int:
        """Batches that a validation reads."""
        return batch_plan(self.validation, self.config).steps_per_epoch

    def batch(self, step: int) -> PairBatch:
        """Batch number `step`, augmented as the reader says, with the view that is drawn: a pure function of the seed
        and the step.
        """
        draw = Draw(self.config.seed, step)
        batch = self.training.batch(self.plan.examples(step), draw=draw)
        batch = replace(batch, source=augmented(self.rows, batch.source, batch.examples, **draw._asdict()))
        rule = drawn_view(getattr(self.config, "views", None) or (), draw)
        return batch if rule is None else ViewedBatch(**vars(batch), rule=rule)

    def loss(self, batch: PairBatch) -> Loss:
        smoothing = self.config.label_smoothing
        model = self.model.under(batch.rule) if isinstance(batch, ViewedBatch) else self.model
        return Loss(model.loss(batch.source, batch.target, label_smoothing=smoothing), count(batch))

    def validate(self) -> dict[str, float]:
        """The loss in nats per token, and errors per word and per character of texts that are found greedily.

        Errors are shares: 0.1 for 10 % of the words. A search with a beam, as in use, finds better texts.
        """
        total, tokens, words, characters = 0.0, 0, Edits(), Edits()
        plan = batch_plan(self.validation, self.config)
        for step in range(plan.steps_per_epoch):
            batch = self.validation.batch(plan.examples(step))
            total += float(self.model.loss(batch.source, batch.target))
            tokens += count(batch)
            written = [self.tokeniser.decode(ids) for ids in quick(self.model, batch.source)]
            spoken = [self.tokeniser.decode(ids) for ids in batch.target.ids.tolist()]
            words += Edits.of_words(spoken, written)
            characters += Edits.of_characters(spoken, written)
        return {"loss": total / tokens, "word_error": words.rate, "character_error": characters.rate}

    def describe(self, batch: PairBatch) -> str:
        """The lines of the file that a batch is made of."""
        lines = (self.training.lines[example] for example in batch.examples)
        under = f" under {batch.rule}" if isinstance(batch, ViewedBatch) else ""
        return f"the training {self.config.what} of lines {listing(lines, 8)}{under}"


def batch_plan(data: ParallelData, config: Any) -> BatchPlan:
    """The order of batches, a function of the seed and the step."""
    return BatchPlan(
        data.longest,
        data.target.lengths,
        max_tokens=config.data.max_tokens,
        seed=config.seed,
        lines=data.lines,
    )


def store(
    folder: Path,
    examples: Iterator[Example],
    rows: RowMaker,
    tokeniser: Tokeniser,
    config: Any,
    *,
    varied: bool = False,
) -> tuple[ParallelData, TranscriptReport]:
    """The rows of examples in a folder, without those that are too long for the configured model."""
    return prepare_transcripts(
        folder,
        examples,
        rows,
        tokeniser,
        what=config.what,
        max_length=config.longest,
        max_text=getattr(config, "longest_text", config.data.max_text),
        axes=getattr(config, "axes", None),
        room=config.room,
        varied=varied,
    )


def open_files(config: Any, run: Path, expected: dict[str, str]) -> tuple[RowMaker, Tokeniser]:
    """The row maker and the tokeniser of a run. Raises DataError if a file is missing, damaged, or from another run."""
    rows, tokeniser = config.reader.open(run), load_tokeniser(run / TOKENISER)
    require_digests(run, digests(rows, tokeniser), expected)
    return rows, tokeniser


def digests(rows: RowMaker, tokeniser: Tokeniser) -> dict[str, str]:
    """Digests by file name."""
    return {**rows.digests(), TOKENISER: tokeniser.digest()}


def count(batch: PairBatch) -> int:
    """The tokens that the texts of a batch have, with their ends."""
    return batch.target.num_tokens - batch.target.size


def _by_folder(config: Any) -> str:
    """A sentence on texts that are names of folders; empty for a table."""
    if not Path(config.data.data).is_dir():
        return ""
    first = next(config.read(config.data.data))
    return (
        f" Each text is the name of a folder, such as {short(first.label)} for {first.thing}. For other texts, name a "
        "table of path, tab and text."
    )
