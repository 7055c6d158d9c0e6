"""Classify: one label for a whole text, a picture, a recording, a sequence of vectors."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from foveate.config import kind_of, setting
from foveate.data.audio import AudioReader
from foveate.data.audio_table import is_folder, is_table
from foveate.data.feature import VectorReader
from foveate.data.image import PICTURES, ImageReader
from foveate.data.label import Labels
from foveate.data.labelled import TOKENISER as TOKENISER
from foveate.data.labelled import TextReader
from foveate.data.labelled_store import LabelledData, LabelledReport, RowBatch, prepare_rows, prepare_texts
from foveate.data.mixture import MixedBatch, mixed, mixture_of
from foveate.data.picture_array import is_array
from foveate.data.reader import Reader, RowMaker
from foveate.data.text import read_lines
from foveate.data.tokeniser import CharacterConfig, Tokeniser, TokeniserConfig
from foveate.data.variant import Draw, augmented, varies
from foveate.errors import UsageError
from foveate.models.classifier import Classifier, ClassifierConfig
from foveate.nn.embed import Input
from foveate.nn.loss import Loss, mixed_cross_entropy
from foveate.tasks.labelling import LABELS, LabellingConfig, LabellingTask, Pretrained
from foveate.tasks.run_digest import require_digests
from foveate.tasks.run_model import seeded


@dataclass(frozen=True, kw_only=True)
class ClassifyConfig(LabellingConfig):
    """Everything that defines a classification run, but how it is trained."""

    tokeniser: TokeniserConfig = setting(
        CharacterConfig(), "how text becomes tokens; with initialise_from, its tokeniser does it"
    )
    model: ClassifierConfig = setting(ClassifierConfig(), "the architecture")
    second_column: int | None = setting(
        None, "column of a second text, counted from 0, where what has a label is a pair of texts; none: single texts"
    )
    reader: VectorReader | ImageReader | AudioReader | Reader | None = setting(
        None,
        "vector: .npz, or a list of .npy files; image: a table of pictures, a folder of them for each label, an IDX "
        "or .npz file; audio: a table of recordings, or a folder of them for each label; none: a table of texts",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        columns = self.data.columns
        if self.second_column is not None and (self.second_column < 0 or self.second_column in (columns or ())):
            raise ValueError(
                "second_column is that of a second text, counted from 0, "
                + (f"beside text and label in {list(columns)}, " if columns else "")
                + f"got {self.second_column}"
            )

        texts = (
            ("data.columns", columns),
            ("second_column", self.second_column),
            ("data.processes", self.data.processes),
        )
        for name, value in (*texts, ("initialise_from", self.initialise_from)):
            if self.reader is not None and value is not None:
                raise ValueError(f"reader does not read texts, which {name} is for. Leave one of them out.")

    @property
    def files(self) -> Reader:
        """The reader of the files."""
        if self.reader is not None:
            return self.reader
        return TextReader(tokeniser=self.tokeniser, columns=self.data.columns, second=self.second_column)

    @property
    def what(self) -> str:
        return self.files.what

    def read(self, path: str) -> Iterator[Any]:
        return self.files.read(path)

    def labels_of(self, example: Any) -> Sequence[str]:
        return (example.label,)

    def classifier(self, vocab: int | Input, labels: int) -> Classifier:
        """The configured model with its initial weights, a function of the seed."""
        return seeded(lambda: self.model.build(vocab, labels), self.seed)


def reader_of(path: str) -> Reader | None:
    """The reader of a file or folder by its kind: tables and folders of recordings and of pictures, pictures in IDX or
    `.npz` files, vectors in `.npz` files or lists of `.npy` files; None for a table of texts.

    Raises DataError for a table that cannot be read.
    """
    if Path(path).is_dir():
        return AudioReader() if is_folder(path) else ImageReader()
    if is_array(path) or PICTURES.is_table(path):
        return ImageReader()
    if is_table(path):
        return AudioReader()
    listed = Path(path).suffix.lower() == ".npz" or (
        Path(path).is_file() and next(read_lines(path), "").partition("\t")[0].strip().lower().endswith(".npy")
    )
    return VectorReader() if listed else None


@dataclass(frozen=True)
class RowVocabulary:
    """The maker of rows from texts, pictures or vectors, and the labels that they can have."""

    rows: RowMaker
    labels: Labels

    @classmethod
    def learn(
        cls, config: ClassifyConfig, examples: Callable[[], Iterator[Any]], pretrained: Pretrained | None
    ) -> "RowVocabulary":
        reader = config.files
        if pretrained and isinstance(reader, TextReader):
            rows: RowMaker = reader.rows(pretrained.tokeniser)
        else:
            rows = reader.learn(examples())
        return cls(rows, Labels.of(example.label for example in examples()))

    @classmethod
    def open(cls, config: ClassifyConfig, run: Path, digests: Mapping[str, str]) -> "RowVocabulary":
        vocabulary = cls(config.files.open(run), Labels.load(run / LABELS))
        require_digests(run, vocabulary.digests, digests)
        return vocabulary

    @property
    def varied(self) -> bool:
        """Whether training examples have variants."""
        return varies(self.rows)

    @property
    def digests(self) -> dict[str, str]:
        return {**self.rows.digests(), LABELS: self.labels.digest()}

    def save(self, run: Path) -> None:
        self.rows.save(run)
        self.labels.save(run / LABELS)

    def model(self, config: ClassifyConfig) -> Classifier:
        return config.classifier(self.rows.input, len(self.labels))

    def store(
        self, folder: Path, examples: Iterator[Any], config: ClassifyConfig, *, origin: str, **options: Any
    ) -> tuple[LabelledData, LabelledReport]:
        options |= {"what": config.what, "max_length": config.longest}
        if not isinstance(config.files, TextReader):
            return prepare_rows(folder, examples, self.rows, self.labels, **options)
        options |= {"processes": config.data.processes or 1, "origin": f"{origin} {config.files}"}
        return prepare_texts(folder, examples, self.rows, self.labels, **options)

    def require(self, data: LabelledData) -> LabelledData:
        return data.require_rows(self.labels, self.rows.input)


class ClassifyTask(LabellingTask[Classifier]):
    """A classifier with its data: what training fits."""

    vocabulary_class = RowVocabulary

    @classmethod
    def prepare(cls, config: ClassifyConfig, run: Path) -> tuple["ClassifyTask", dict[str, LabelledReport]]:
        """As for all that have labels; and raises UsageError for data that need a reader and have none."""
        for path in (config.data.data, config.data.valid_data):
            reader = None if config.reader or not path else reader_of(path)
            if reader:
                raise UsageError(
                    f"{path} has {reader.what}, and without a reader a table of texts is read. Set reader = "
                    f'"{kind_of(type(reader))}".'
                )
        return super().prepare(config, run)

    @property
    def rows(self) -> RowMaker:
        return self.vocabulary.rows

    @property
    def tokeniser(self) -> Tokeniser:
        """The tokeniser of a task of texts."""
        return self.vocabulary.rows.tokeniser

    def read(self, data: LabelledData, examples: Sequence[int] | np.ndarray) -> RowBatch:
        return data.rows(examples)

    def batch(self, step: int) -> RowBatch:
        """Batch number `step`, with the augmentation of the reader: a pure function of the seed and the step."""
        draw = Draw(self.config.seed, step)
        batch = self._drawn(self.plan.examples(step), draw)
        mixture = mixture_of(self.rows, batch.examples, len(self.training), **draw._asdict())
        return batch if mixture is None else mixed(batch, self._drawn(mixture.partners, draw), mixture.shares)

    def loss(self, batch: RowBatch) -> Loss:
        """Cross-entropy; of blended examples that of both labels, each with its share."""
        if not isinstance(batch, MixedBatch):
            return super().loss(batch)
        smoothing = self.config.label_smoothing
        labels = batch.labels, batch.others, batch.shares
        total = mixed_cross_entropy(self.logits(batch), *labels, label_smoothing=smoothing)
        return Loss(total, len(batch.labels))

    def _drawn(self, examples: Sequence[int] | np.ndarray, draw: Draw) -> RowBatch:
        """Examples of training, with their changes."""
        batch = self.training.rows(examples, draw=draw)
        return replace(batch, rows=augmented(self.rows, batch.rows, batch.examples, **draw._asdict()))

    def logits(self, batch: RowBatch) -> Float[Tensor, "batch labels"]:
        return self.model(batch.rows)
