"""Classify: one label for a whole text. Its language, its subject, whether it praises or blames."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from foveate.attention import record
from foveate.config import build, setting
from foveate.data.batch import Batch
from foveate.data.batching import groups
from foveate.data.label import Labels
from foveate.data.labelled import LabelledText, read_labelled
from foveate.data.labelled_store import LabelledData, LabelledReport, TextBatch, prepare_texts
from foveate.data.segment import joined, split
from foveate.data.text import require_texts
from foveate.data.tokeniser import BOS, EOS, SPECIALS, CharacterConfig, Tokeniser, TokeniserConfig, load_tokeniser
from foveate.errors import DataError, UsageError
from foveate.inspect import Trace
from foveate.inspect.alignment import Alignment
from foveate.inspect.look import Looking
from foveate.inspect.value import observed
from foveate.models.classifier import Classifier, ClassifierConfig
from foveate.nn.pooling import AttentionPooling
from foveate.nn.room import within_tensors
from foveate.storage.checkpoint import load_weights, restore_model
from foveate.storage.run import model_type_of, read_run
from foveate.tasks.initial import seeded, within_run
from foveate.tasks.labelling import (
    LABELS,
    LabellingConfig,
    LabellingTask,
    Parts,
    Predicted,
    beginning,
    clear,
    longest,
    require_digests,
    require_examples,
)
from foveate.tasks.sight import require_text, traced

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


@dataclass(frozen=True)
class Classified:
    """A text, and how probable the model finds each label, the most probable first; none for an empty text."""

    text: str
    probabilities: dict[str, float]

    @property
    def label(self) -> str:
        """The most probable label; empty for an empty text."""
        return next(iter(self.probabilities), "")


class TextClassifier(Looking):
    """Classifies with a trained model. A result depends neither on the batch size nor on its neighbours in a batch.

    With `pairs`, a text is two with a tab between them.
    """

    def __init__(self, model: Any, tokeniser: Tokeniser, labels: Labels, *, pairs: bool = False) -> None:
        self.model, self.tokeniser, self.labels, self.pairs = model.eval(), tokeniser, labels, pairs

    @classmethod
    def load(cls, run: Path | str, *, note: Callable[[str], None] = lambda sentence: None) -> "TextClassifier":
        """The trained model of a run folder; of an unfinished run, its best checkpoint. Or the classifier in a folder
        of Hugging Face.

        Raises UsageError for a run of another task, DataError when it has no weights or is damaged.
        """
        if model_type_of(run) is not None:
            from foveate.tasks.guest_classifier import GuestClassifier  # which is a classifier itself

            return GuestClassifier.read(run)
        folder = Path(run)
        saved = read_run(folder).require("classify")
        settings = {name: value for name, value in saved.config.items() if name != "train"}
        tokeniser, labels = load_tokeniser(folder / TOKENISER), Labels.load(folder / LABELS)
        require_digests(folder, {TOKENISER: tokeniser.digest(), LABELS: labels.digest()}, saved.tokenisers)
        config = build(ClassifyConfig, settings, where=f"{folder / 'config.json'}:")
        tensors, _ = load_weights(folder, note)
        with within_tensors(tensors, config=folder / "config.json", file=folder / "model.safetensors"):
            model = config.classifier(tokeniser.vocab_size, len(labels))
        restore_model(model, tensors, source=folder)
        return cls(model, tokeniser, labels, pairs=config.second_column is not None)._of(folder)

    @overload
    def classify(self, texts: str) -> Classified: ...  # type: ignore[overload-overlap]

    @overload
    def classify(self, texts: Sequence[str]) -> list[Classified]: ...

    @torch.inference_mode()
    def classify(self, texts: str | Sequence[str]) -> Classified | list[Classified]:
        """Label a text, or each of several; a text may be a pair.

        Raises DataError for one with more tokens than the model has positions, and for one text where it reads two.
        """
        require_texts(texts)
        if isinstance(texts, str):
            return self.classify([texts])[0]
        rows = [self.ids(text, f"Text {number}") for number, text in enumerate(texts, start=1)]
        results = [Classified(text, {}) for text in texts]
        for group in groups([len(row) for row in rows]):
            shares = self._logits([rows[index] for index in group]).float().softmax(-1)
            for index, share in zip(group, shares, strict=True):
                order = share.argsort(descending=True, stable=True).tolist()
                chances = {self.labels.names[label]: float(share[label]) for label in order}
                results[index] = Classified(texts[index], chances)
        return results

    @property
    def attends(self) -> bool:
        """Whether the pooling looks, so that there is something to see."""
        return isinstance(getattr(self.model, "pooling", None), AttentionPooling)

    @torch.inference_mode()
    def trace(self, text: str) -> Trace:
        """What each token of a text looked at, and the pooling, where it attends. Raises UsageError for an empty text
        and for a model without attention, DataError as `classify` does.
        """
        require_text(text)
        read = self.ids(text, "The text")
        seen = observed(self.model, lambda: self._logits([read]))
        label = self.classify(text).label if self.attends else None
        return traced(self.model, seen, self._labels(read, text), text, label)

    @torch.inference_mode()
    def align(self, text: str) -> Alignment:
        """Where the pooling looked for the label: one row, with a column for each token.

        Raises UsageError for an empty text, or a model that pools without attention.
        """
        if not self.attends:
            raise UsageError("This model pools without attention: there is no weight to look at. Train with attention.")
        row = self.ids(text, "The text")
        if not row:
            raise UsageError("The text is empty: there is nothing to look at.")
        with record(self.model.pooling) as seen:
            logits = self.model(Batch.of([row]))
        weights = seen["attention"].weights()[0, 0].float().numpy()
        return Alignment.of(self._labels(row, text), [self.labels.names[int(logits.argmax())]], weights)

    def predict(self, examples: Sequence[LabelledText]) -> Predicted:
        """Labels beside the right ones, to be scored."""
        found = [[one.label] for one in self.classify([example.whole for example in examples])]
        return Predicted(labels=found, gold=[[example.label] for example in examples])

    def ids(self, text: str, name: str) -> list[int]:
        """The tokens of a text, or of a pair with a tab between its texts; `name` is what an error calls it."""
        texts = split(text, where=name, needed=True) if self.pairs and text.strip() else (text,)
        tokens = joined(texts, self.tokeniser)
        limit = self.model.max_length
        if limit is not None and len(tokens) + 1 > limit:
            ends = "an end" if len(texts) == 1 else "two ends"
            raise DataError(
                f"{name} has {len(tokens) - len(texts)} tokens, a begin and {ends}, but the model has {limit} "
                "positions. Shorten it; nothing is cut off silently."
            )
        return [BOS, *tokens] if tokens else []

    def _logits(self, rows: list[list[int]]) -> Float[Tensor, "batch labels"]:
        return self.model(Batch.of(rows))

    def _labels(self, row: list[int], text: str) -> list[str]:
        """What the tokens are called; what the vocabulary lacks stands as it was written."""
        texts = split(text) if self.pairs else (text,)
        parts = [[*self.tokeniser.labels(one), SPECIALS[EOS]] for one in texts if one.strip()]
        labels = [SPECIALS[BOS], *(label for part in parts for label in part)]
        return labels if len(labels) == len(row) else self.tokeniser.pieces(row)
