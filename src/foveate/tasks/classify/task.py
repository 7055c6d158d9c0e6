"""Classify: one label for a whole text, a picture, a sequence of vectors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from foveate.config import kind_of, setting
from foveate.data.feature import VectorReader
from foveate.data.image import ImageReader
from foveate.data.label import Labels
from foveate.data.labelled import TOKENISER as TOKENISER
from foveate.data.labelled import TextReader, TextRows
from foveate.data.labelled_store import LabelledData, LabelledReport, RowBatch, prepare_rows
from foveate.data.reader import Reader, RowMaker
from foveate.data.text import read_lines
from foveate.data.tokeniser import CharacterConfig, Tokeniser, TokeniserConfig
from foveate.errors import UsageError
from foveate.models.classifier import Classifier, ClassifierConfig
from foveate.nn.embed import Input
from foveate.storage.run import read_run
from foveate.tasks.labelling import (
    LABELS,
    LabellingConfig,
    LabellingTask,
    Parts,
    beginning,
    clear,
    longest,
    require_examples,
)
from foveate.tasks.run_model import require_digests, seeded, within_run


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
    reader: VectorReader | ImageReader | Reader | None = setting(
        None,
        "vector: .npz, or a list of .npy files; image: a folder of pictures for each label; none: a table of texts",
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

        texts = ("data.columns", columns), ("second_column", self.second_column)
        for name, value in (*texts, ("initialise_from", self.initialise_from)):
            if self.reader is not None and value is not None:
                raise ValueError(f"reader does not read texts, which {name} is for. Leave one of them out.")

    @property
    def files(self) -> Reader:
        """What reads the files."""
        if self.reader is not None:
            return self.reader
        return TextReader(tokeniser=self.tokeniser, columns=self.data.columns, second=self.second_column)

    def read(self, path: str) -> Iterator[Any]:
        """The labelled examples of a file or a folder. Raises DataError as the reader does."""
        return self.files.read(path)

    def classifier(self, vocab: int | Input, labels: int) -> Classifier:
        """The configured model with its initial weights, a function of the seed."""
        return seeded(lambda: self.model.build(vocab, labels), self.seed)


def reader_of(path: str) -> Reader | None:
    """What reads a file or a folder by its kind: `.npz` and lists of `.npy` files, folders; None for a table of texts.

    Raises DataError for a table that cannot be read.
    """
    if Path(path).is_dir():
        return ImageReader()
    listed = Path(path).suffix == ".npz" or (
        Path(path).is_file() and next(read_lines(path), "").partition("\t")[0].strip().endswith(".npy")
    )
    return VectorReader() if listed else None


def _require_reader(config: ClassifyConfig) -> None:
    """Raises UsageError for pictures or vectors without what reads them."""
    for path in (config.data.data, config.data.valid_data):
        reader = None if config.reader or not path else reader_of(path)
        if reader:
            raise UsageError(
                f"{path} has {reader.what}, and without a reader a table of texts is read. Set reader = "
                f'"{kind_of(type(reader))}".'
            )


def label_of(example: Any) -> Sequence[str]:
    """Its only label."""
    return (example.label,)


class ClassifyTask(LabellingTask[Classifier]):
    """A classifier with its data: what training fits."""

    def __init__(
        self, config: ClassifyConfig, rows: RowMaker, labels: Labels, training: LabelledData, validation: LabelledData
    ) -> None:
        self.rows = rows
        model = config.classifier(rows.input, len(labels))
        super().__init__(config, model, labels, training, validation, rows.digests())

    @property
    def tokeniser(self) -> Tokeniser:
        """That of a task of texts."""
        assert isinstance(self.rows, TextRows)
        return self.rows.tokeniser

    @property
    def pairs(self) -> bool:
        """Whether what has a label is a pair of texts."""
        return isinstance(self.rows, TextRows) and self.rows.pairs

    @classmethod
    def prepare(cls, config: ClassifyConfig, run: Path) -> tuple["ClassifyTask", dict[str, LabelledReport]]:
        """Read the examples, learn what makes rows of them, find the labels, and store all in the run folder.

        Raises DataError when files are missing or unreadable, an example has no label, or nothing is left to train on.
        """
        _require_reader(config)
        pretrained, config = beginning(config)
        reader, parts = config.files, Parts(config, config.read, label_of)
        if pretrained and isinstance(reader, TextReader):
            rows: RowMaker = reader.rows(pretrained.tokeniser)
        else:
            rows = reader.learn(parts("train"))
        labels = Labels.of(example.label for example in parts("train"))
        clear(run, pretrained)
        rows.save(run)
        labels.save(run / LABELS)
        data, reports = {}, {}
        for part in ("train", "valid"):
            folder, limit = run / "data" / part, longest(config)
            data[part], reports[part] = prepare_rows(
                folder,
                parts(part),
                rows,
                labels,
                what=reader.what,
                max_length=limit,
                path=parts.path(part),
                lenient=part == "valid" and config.data.valid_data is not None,
                rare=parts.warning if part == "train" else "",
            )
            require_examples(data[part], part, reports[part])
        return cls(config, rows, labels, data["train"], data["valid"]).begun(run), reports

    @classmethod
    def open(cls, config: ClassifyConfig, run: Path) -> "ClassifyTask":
        """The task of a run folder that `prepare` has filled."""
        rows, labels = config.files.open(run), Labels.load(run / LABELS)
        training, validation = (
            LabelledData.open(run / "data" / part).require_rows(labels, rows.input) for part in ("train", "valid")
        )
        with within_run(run):
            task = cls(config, rows, labels, training, validation)
        require_digests(run, task.digests, read_run(run).tokenisers)
        return task.begun(run)

    def read(self, data: LabelledData, examples: Sequence[int] | np.ndarray) -> RowBatch:
        return data.rows(examples)

    def logits(self, batch: RowBatch) -> Float[Tensor, "batch labels"]:
        return self.model(batch.rows)
