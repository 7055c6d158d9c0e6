"""Classify: one label for a whole text. Its language, its subject, whether it praises or blames."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float
from torch import Tensor

from foveate.config import setting
from foveate.data.label import Labels
from foveate.data.labelled import LabelledText, read_labelled
from foveate.data.labelled_store import LabelledData, LabelledReport, TextBatch, prepare_texts
from foveate.data.tokeniser import CharacterConfig, Tokeniser, TokeniserConfig, load_tokeniser
from foveate.models.classifier import Classifier, ClassifierConfig
from foveate.storage.run import read_run
from foveate.tasks.initial import seeded, within_run
from foveate.tasks.labelling import (
    LABELS,
    LabellingConfig,
    LabellingTask,
    Parts,
    beginning,
    clear,
    longest,
    require_digests,
    require_examples,
)

TOKENISER = "text.tokeniser.json"


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

    def __post_init__(self) -> None:
        super().__post_init__()
        columns = self.data.columns
        if self.second_column is not None and (self.second_column < 0 or self.second_column in (columns or ())):
            raise ValueError(
                "second_column is that of a second text, counted from 0, "
                + (f"beside text and label in {list(columns)}, " if columns else "")
                + f"got {self.second_column}"
            )

    def read(self, path: str) -> Iterator[LabelledText]:
        """The labelled texts, or pairs of texts, of a file. Raises DataError as `read_labelled` does."""
        return read_labelled(path, columns=self.data.columns, second=self.second_column)

    def classifier(self, vocab: int, labels: int) -> Classifier:
        """The configured model with its initial weights, a function of the seed."""
        return seeded(lambda: self.model.build(vocab, labels), self.seed)


def label_of(example: LabelledText) -> Sequence[str]:
    """Its only label."""
    return (example.label,)


class ClassifyTask(LabellingTask[Classifier]):
    """A classifier with its data: what training fits."""

    def __init__(
        self,
        config: ClassifyConfig,
        tokeniser: Tokeniser,
        labels: Labels,
        training: LabelledData,
        validation: LabelledData,
    ) -> None:
        self.tokeniser, self.pairs = tokeniser, config.second_column is not None
        model = config.classifier(tokeniser.vocab_size, len(labels))
        super().__init__(config, model, labels, training, validation, {TOKENISER: tokeniser.digest()})

    @classmethod
    def prepare(cls, config: ClassifyConfig, run: Path) -> tuple["ClassifyTask", dict[str, LabelledReport]]:
        """Read the texts, train the tokeniser, find the labels, and store all in the run folder.

        Raises DataError when files are missing or unreadable, a text has no label, or nothing is left to train on.
        """
        pretrained, config = beginning(config)
        parts = Parts(config, config.read, label_of)
        texts = (text for example in parts("train") for text in (example.text, example.second) if text)
        tokeniser = pretrained.tokeniser if pretrained else config.tokeniser.train(texts)
        labels = Labels.of(example.label for example in parts("train"))
        clear(run, pretrained)
        tokeniser.save(run / TOKENISER)
        labels.save(run / LABELS)
        data, reports = {}, {}
        for part in ("train", "valid"):
            folder, limit = run / "data" / part, longest(config)
            data[part], reports[part] = prepare_texts(
                folder,
                parts(part),
                tokeniser,
                labels,
                max_length=limit,
                path=parts.path(part),
                given=part == "valid" and config.data.valid_data is not None,
                rare=parts.warning if part == "train" else "",
            )
            require_examples(data[part], part, reports[part])
        return cls(config, tokeniser, labels, data["train"], data["valid"]).begun(run), reports

    @classmethod
    def open(cls, config: ClassifyConfig, run: Path) -> "ClassifyTask":
        """The task of a run folder that `prepare` has filled."""
        tokeniser, labels = load_tokeniser(run / TOKENISER), Labels.load(run / LABELS)
        training, validation = (
            LabelledData.open(run / "data" / part).require(labels, pieces=tokeniser.vocab_size)
            for part in ("train", "valid")
        )
        with within_run(run):
            task = cls(config, tokeniser, labels, training, validation)
        require_digests(run, task.digests, read_run(run).tokenisers)
        return task.begun(run)

    def read(self, data: LabelledData, examples: Sequence[int] | np.ndarray) -> TextBatch:
        return data.texts(examples)

    def logits(self, batch: TextBatch) -> Float[Tensor, "batch labels"]:
        return self.model(batch.texts)
