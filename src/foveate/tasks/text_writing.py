"""Things with their texts: the part that transcription, captions and speech share."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from foveate.data.batch import PairBatch
from foveate.data.batching import BatchPlan
from foveate.data.labelled import TOKENISER
from foveate.data.parallel import ParallelData
from foveate.data.reader import Example, RowMaker
from foveate.data.row import Row
from foveate.data.tokeniser import Tokeniser, load_tokeniser
from foveate.data.transcript import TranscriptReport, prepare_transcripts, transcribed
from foveate.data.variant import Draw, augmented
from foveate.errors import DataError
from foveate.inspect.looking import Looking
from foveate.nn.loss import Loss
from foveate.nn.measurement import Each, SharedValidation, in_turn
from foveate.nn.precision import set_precision
from foveate.storage.draft import disk_errors, remove_stale
from foveate.suggestion import listing
from foveate.tasks.held_out import Parts
from foveate.tasks.run_digest import require_digests
from foveate.tasks.run_model import require_positions, saved, seeded, trained, within_run
from foveate.tasks.translate.translation import one_line

PARTS = ("train", "valid")
Task = TypeVar("Task", bound="WritingTask")


class WritingConfig:
    """The part of a configuration that these tasks have in common.

    Subclasses are frozen dataclasses with `data`, `reader`, `text`, `tokeniser`, `model` and `seed`.
    """

    data: Any
    reader: Any
    text: Any
    model: Any
    seed: Any
    axes: ClassVar[int | None] = None
    """The axes of the places of vectors, such as the rows and columns of patches; None for vectors in a sequence."""

    @property
    def what(self) -> str:
        """The plural noun for the things that have a text."""
        return str(self.reader.what)

    @property
    def longest(self) -> int:
        """The longest thing in vectors, which a model's positions may limit further."""
        return min(self.data.max_length, self.model.positions or self.data.max_length)

    @property
    def longest_text(self) -> int:
        """The longest text in tokens, begin and end included, which the decoder's positions may limit further."""
        return min(self.data.max_text, self.model.target_positions or self.data.max_text)

    @property
    def room(self) -> Callable[[int], int] | None:
        """The number of tokens that can be written for a number of vectors; None without a limit."""
        return None

    def built(self, rows: RowMaker, tokeniser: Tokeniser) -> Any:
        """The configured model with its initial weights, a function of the seed.

        Raises UsageError when the settings of the model do not go together.
        """
        return seeded(lambda: self.model.build(rows.input, tokeniser.vocab_size), self.seed)

    def read(self, path: str) -> Iterator[Example]:
        """The examples of a file, with their texts as they are learnt. Raises DataError for a text without letters."""
        return transcribed(self.reader.read(path), self.text, path)

    def texts(self, path: str) -> Iterator[str]:
        """The texts of a file. Raises as `read` does."""
        return (example.label for example in self.read(path))

    def labels_of(self, example: Example) -> Sequence[str]:
        """None: which examples are held out does not depend on their texts."""
        return ()


class WritingTask(SharedValidation):
    """A model with its data, things and their texts: what training fits."""

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
        self.model: Any = config.built(rows, tokeniser)
        self.plan = batch_plan(training, config, mixed=reads_batch(self.model))

    @classmethod
    def prepare(cls: type[Task], config: Any, run: Path) -> tuple[Task, dict[str, TranscriptReport]]:
        """Read the things, learn the tokens of their texts, and store all in the run folder.

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

    @classmethod
    def origin(cls, config: Any, part: str) -> str:
        """A sentence on where the examples of a part come from, or how their texts are read."""
        if part == "train":
            return f"{config.text}."
        if config.data.valid_data is not None:
            return "They are from a file of their own."
        return cls.drawn(config)

    @staticmethod
    def drawn(config: Any) -> str:
        """A sentence on held-out examples."""
        return f"They are drawn by line from {config.data.data}."

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
        """Batch number `step`, augmented as the reader says: a pure function of the seed and the step."""
        draw = Draw(self.config.seed, step)
        batch = self.training.batch(self.plan.examples(step), draw=draw)
        return replace(batch, source=augmented(self.rows, batch.source, batch.examples, **draw._asdict()))

    def loss(self, batch: PairBatch) -> Loss:
        smoothing = self.config.label_smoothing
        return Loss(self.model.loss(batch.source, batch.target, label_smoothing=smoothing), count(batch))

    def measured(self, each: Each) -> dict[str, float]:
        """The figures of the validation data."""
        return self.figures(self.validation, each)

    def figures(self, data: ParallelData, each: Each = in_turn) -> dict[str, float]:
        """The measurements on data, whose loss is a mean."""
        raise NotImplementedError

    def describe(self, batch: PairBatch) -> str:
        """The lines of the file that a batch is made of."""
        lines = (self.training.lines[example] for example in batch.examples)
        return f"the training {self.config.what} of lines {listing(lines, 8)}"


class Writer(Looking):
    """A base class for user classes of models that write texts for things."""

    rows: RowMaker
    tokeniser: Tokeniser
    unit: ClassVar[str] = "vectors"
    """The unit of the length of a thing."""
    remedy: ClassVar[str]
    """A remedy for a thing that is too long, as an imperative."""

    def things(self, inputs: Iterable[str]) -> Iterator[Any]:
        """The things that arguments of a command name: the contents of files."""
        return (thing for path in inputs for thing in self.rows.things(path))

    def row(self, thing: Any) -> Row:
        """The row of a thing. Raises DataError for one that the model cannot read."""
        row = self.rows.row(thing)
        require_positions(str(thing), len(row), self.model.longest_source, self.unit, remedy=self.remedy)
        return row

    def text(self, tokens: Sequence[int]) -> str:
        """The text of tokens that the model has written, on one line."""
        return one_line(self.tokeniser.decode(tokens))

    def strange(self, text: str) -> list[str]:
        """Parts of an input that the model does not know, each once: none, because inputs are files."""
        return []


class Trained(NamedTuple):
    """The parts of a trained run."""

    config: Any
    rows: Any
    tokeniser: Tokeniser
    model: Any


def load_writer(
    run: Path, task: str, kind: type[Any], note: Callable[[str], None], *, precision: str = "float32"
) -> Trained:
    """The trained model of a run folder with its files; of an unfinished run, its best checkpoint.

    Raises UsageError for a run of another task, DataError when it has no weights or is damaged.
    """
    config, stored = saved(run, task, kind)
    rows, tokeniser = config.reader.open(run), load_tokeniser(run / TOKENISER)
    require_digests(run, digests(rows, tokeniser), stored.tokenisers)
    model = trained(run, lambda: config.built(rows, tokeniser), note)
    set_precision(model, precision)
    return Trained(config, rows, tokeniser, model)


def batch_plan(data: ParallelData, config: Any, *, mixed: bool = False) -> BatchPlan:
    """The order of batches, a function of the seed and the step. `mixed` batches have things and texts of any length,
    as many as if all were the longest.
    """
    lengths: list[Any] = [np.asarray(data.longest), np.asarray(data.target.lengths)]
    if mixed:
        lengths = [np.full_like(one, one.max(initial=0)) for one in lengths]
    return BatchPlan(
        *lengths,
        max_tokens=config.data.max_tokens,
        seed=config.seed,
        lines=data.lines,
    )


def reads_batch(model: nn.Module) -> bool:
    """Whether a model has batch norm, to which batches of equal lengths would tell the length of a text. It learns to
    use that, and has to do without it afterwards.
    """
    return any(isinstance(part, _BatchNorm) for part in model.modules())


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
        max_text=config.longest_text,
        axes=config.axes,
        room=config.room,
        varied=varied,
    )


def digests(rows: RowMaker, tokeniser: Tokeniser) -> dict[str, str]:
    """Digests by file name."""
    return {**rows.digests(), TOKENISER: tokeniser.digest()}


def count(batch: PairBatch) -> int:
    """The tokens that the texts of a batch have, with their ends."""
    return batch.target.num_tokens - batch.target.size
