"""A trained classifier in use: the label of a text, a picture, a sequence of vectors. Ours, and of Hugging Face those
of BERT, RoBERTa, DistilBERT, ViT and DeiT."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast, overload

import torch
from jaxtyping import Float
from torch import Tensor

from foveate.attention import record
from foveate.data.batch import Batch
from foveate.data.batching import groups
from foveate.data.label import Labels
from foveate.data.labelled import LabelledText, TextRows
from foveate.data.picture_processor import read_processor
from foveate.data.reader import RowMaker
from foveate.data.row import Row
from foveate.data.text import require_texts
from foveate.data.text_pair import TAB, joined, split
from foveate.data.tokeniser import BOS, HuggingFaceTokeniser, Tokeniser
from foveate.errors import UsageError
from foveate.inspect import Trace, Track
from foveate.inspect.alignment import Alignment
from foveate.inspect.attribution import Answer
from foveate.inspect.looking import Looking
from foveate.inspect.self_attention import self_attention
from foveate.inspect.trace.conversion import Stored
from foveate.inspect.value import observed
from foveate.models import Classifier
from foveate.models.bert_classifier import FirstTokenClassifier
from foveate.models.bert_hugging_face import from_bert
from foveate.models.bert_kin import BERTS
from foveate.models.hugging_face_folder import read_folder
from foveate.models.picture_encoder import PictureEncoder
from foveate.models.vit_hugging_face import KINDS as VITS
from foveate.models.vit_hugging_face import from_vit
from foveate.nn.embed import Patches
from foveate.nn.pooling import AttentionPooling
from foveate.storage.run import CLASSIFIER, class_of, model_type_of, read_run, tells_a_label
from foveate.tasks.classify.label_answer import label_answer
from foveate.tasks.classify.task import ClassifyConfig, RowVocabulary
from foveate.tasks.labelling import Predicted, load_labeller
from foveate.tasks.output_track import output_track
from foveate.tasks.run_model import listed, require_kind, require_numbers, require_positions, require_text, traced

CLASS_TOKENS = ("[class]", "[distillation]")
"""Labels of the vectors before the patches of a ViT."""
ATTENDING = "`foveate train classify` with --set model.encoder=transformer trains one that attends."


@dataclass(frozen=True)
class Classified:
    """A text, or the name of a thing, and the probability of each label, the most probable first; none for an empty
    text.
    """

    text: str
    probabilities: dict[str, float]
    remarks: tuple[str, ...] = ()
    """Remarks on the thing, such as clipping of a recording."""

    @property
    def label(self) -> str:
        """The most probable label; empty for an empty text."""
        return next(iter(self.probabilities), "")


class RowClassifier(Looking):
    """Classifies pictures, vectors, whatever makes rows. A result depends neither on the batch size nor on its
    neighbours in a batch.
    """

    def __init__(self, model: Any, rows: RowMaker, labels: Labels) -> None:
        self.model, self.rows, self.labels = model.eval(), rows, labels

    @classmethod
    def load(cls, run: Path | str, *, note: Callable[[str], None] = lambda sentence: None) -> "RowClassifier":
        """The trained model of a run folder; of an unfinished run, its best checkpoint. Or the classifier in a folder
        of Hugging Face. A model of texts is a `TextClassifier`.

        Raises UsageError for a run of another task, DataError when it has no weights or is damaged.
        """
        if model_type_of(run) in VITS:
            return read_pictures(run)
        if model_type_of(run) is not None:
            return GuestClassifier.read(run)
        model, vocabulary = load_labeller(Path(run), "classify", ClassifyConfig, RowVocabulary, note)
        return classifier_of(model, vocabulary.rows, vocabulary.labels)._of(Path(run))

    def classify(self, things: Any) -> Any:
        """Label several things, as the reader gives them: paths of pictures, or the `rows.things(path)` of a file.

        Raises DataError for a thing that the model cannot read.
        """
        things = listed(things, "classify", "files or vectors")
        rows = [self.row(thing, f"Text {number}") for number, thing in enumerate(things, start=1)]
        return self.of_rows(rows, [str(thing) for thing in things])

    @torch.inference_mode()
    def of_rows(self, rows: Sequence[Any], names: Sequence[str]) -> list[Classified]:
        """Label rows, with their names."""
        results = [Classified(name, {}, _remarks(row)) for name, row in zip(names, rows, strict=True)]
        for group in groups([len(row) for row in rows]):
            shares = self._logits([rows[index] for index in group]).float().softmax(-1)
            for index, share in zip(group, shares, strict=True):
                require_numbers(names[index], share)
                order = share.argsort(descending=True, stable=True).tolist()
                chances = {self.labels.names[label]: float(share[label]) for label in order}
                results[index] = replace(results[index], probabilities=chances)
        return results

    def things(self, inputs: Sequence[str]) -> Iterator[Any]:
        """The things to classify for arguments of a command: the contents of files."""
        return (thing for path in inputs for thing in self.rows.things(path))

    def strange(self, text: str) -> list[str]:
        """Parts of an input that the model does not know, each once."""
        return []

    @property
    def attends(self) -> bool:
        """Whether the pooling is by attention, which can be drawn."""
        return isinstance(getattr(self.model, "pooling", None), AttentionPooling)

    def require_attention(self) -> None:
        """Raises UsageError for a model that pools without attention."""
        if not self.attends:
            raise UsageError("This model pools without attention: there is no weight to look at. Train with attention.")

    @torch.inference_mode()
    def trace(self, text: Any, *, stored: Stored = "float16") -> Trace:
        """The attention of each vector of a thing, and of the pooling. Raises UsageError for a model without
        attention, DataError as `classify` does.
        """
        read = self.row(text, "The text")
        observation = observed(self.model, lambda: self._logits([read]))
        label = self.classify([text])[0].label if self.attends else None
        return traced(self.model, observation, self.track(text), label=label, attending=ATTENDING, stored=stored)

    @torch.inference_mode()
    def align(self, text: Any) -> Alignment:
        """The attention of the pooling for the label: one row, with a column for each vector.

        Raises UsageError for an empty text, or a model that pools without attention.
        """
        self.require_attention()
        row = self.row(text, "The text")
        if not len(row):
            raise UsageError("The text is empty: there is nothing to look at.")
        with record(self.model.pooling) as recording:
            logits = self.model(Batch.of([row]))
        weights = recording["attention"].weights()[0, 0].float().numpy()
        track = self.track(text)
        return Alignment.of(track.labels, [self.labels.names[int(logits.argmax())]], weights, grid=track.grid)

    def predict(self, examples: Sequence[Any]) -> Predicted:
        """Predicted labels and the right ones, for scores."""
        labels = [[one.label] for one in self.classify([self.thing(example) for example in examples])]
        return Predicted(labels=labels, gold=[[example.label] for example in examples])

    def thing(self, example: Any) -> Any:
        """The part of an example that is classified."""
        return example.thing

    def row(self, thing: Any, name: str) -> Row | list[int]:
        """The row of a thing. Raises DataError for one that the model cannot read."""
        row = self.rows.row(thing)
        require_positions(str(thing), len(row), self.model.max_length, "vectors")
        return row

    def track(self, thing: Any) -> Track:
        """The words, frames or picture that a trace draws beneath its maps; of an encoder of pictures, its grid; with
        subsampling, its outputs.
        """
        axis, model = self.rows.track(thing), self.model
        if isinstance(model, Classifier) and model.stride > 1:
            return output_track(axis, len(self.row(thing, "The text")), model.stride)
        track, encoder = Track.of_settings(axis), getattr(model, "encoder", None)
        if not isinstance(encoder, PictureEncoder):
            return track
        return Track.of_patches(encoder.grid, picture=track.picture, before=CLASS_TOKENS[: encoder.class_tokens])

    def _logits(self, rows: list[Any]) -> Float[Tensor, "batch labels"]:
        return self.model(Batch.of(rows))


class TextClassifier(RowClassifier):
    """Classifies texts with a trained model. With `pairs`, a text is a pair with a tab between its two texts."""

    def __init__(self, model: Any, tokeniser: Tokeniser, labels: Labels, *, pairs: bool = False) -> None:
        super().__init__(model, TextRows(tokeniser, pairs), labels)
        self.tokeniser, self.pairs = tokeniser, pairs

    @classmethod
    def load(cls, run: Path | str, *, note: Callable[[str], None] = lambda sentence: None) -> "TextClassifier":
        """The trained model of a run folder, or of one of Hugging Face. Raises as `RowClassifier.load` does, and
        UsageError for a model that does not read texts.
        """
        classifier = RowClassifier.load(run, note=note)
        if not isinstance(classifier, TextClassifier):
            raise UsageError(f"The model in {run} does not read texts. Load it with RowClassifier.load.")
        return classifier

    @overload
    def classify(self, texts: str) -> Classified: ...  # type: ignore[overload-overlap]

    @overload
    def classify(self, texts: Sequence[str]) -> list[Classified]: ...

    def classify(self, texts: str | Sequence[str]) -> Classified | list[Classified]:
        """Label a text, or each of several; a text may be a pair.

        Raises DataError for a text with more tokens than the model has positions, and for a single text where the model
        reads pairs.
        """
        require_texts(texts)
        labelled: list[Classified] = super().classify([texts] if isinstance(texts, str) else list(texts))
        return labelled[0] if isinstance(texts, str) else labelled

    def trace(self, text: str, *, stored: Stored = "float16") -> Trace:
        """The attention of each token of a text, and of the pooling. Raises UsageError for an empty text and for a
        model without attention, DataError as `classify` does.
        """
        require_text(text)
        return super().trace(text, stored=stored)

    def answer(self, text: str) -> Answer:
        """The label of a text, and the model to ask which words mattered for it: a word is removed, or each of its
        pieces becomes the unknown or the mask token. Raises UsageError for an empty text, DataError as `classify` does.
        """
        require_text(text)
        row, label = self.row(text, "The text"), self.classify(text).label
        return label_answer(
            self.model, row, self._labels(row, text), (self.labels.names.index(label), label), self._logits,
            partial(self.trace, text, stored="float32"), self.tokeniser,
        )  # fmt: skip

    def things(self, inputs: Sequence[str]) -> Iterator[str]:
        return iter(inputs)

    def strange(self, text: str) -> list[str]:
        texts = text.split(TAB) if self.pairs else [text]
        return list(dict.fromkeys(piece for each in texts for piece in self.tokeniser.strange(each)))

    def thing(self, example: LabelledText) -> str:
        return example.whole

    def track(self, thing: str) -> Track:
        return Track.of_pieces(self._labels(self.row(thing, "The text"), thing), text=thing)

    def row(self, text: str, name: str) -> list[int]:
        """The tokens of a text, or of a pair with a tab between its texts; `name` is what an error calls it."""
        texts = split(text, where=name, needed=True) if self.pairs and text.strip() else (text,)
        tokens = joined(texts, self.tokeniser)
        require_positions(name, len(tokens) + 1, self.model.max_length, "tokens, begin and end included")
        return [BOS, *tokens] if tokens else []

    def _labels(self, row: list[int], text: str) -> list[str]:
        """Names of the tokens; those that the vocabulary lacks stand as the text has them."""
        texts = split(text) if self.pairs else (text,)
        labels = list(self.rows.track(texts)["labels"])
        return labels if len(labels) == len(row) else self.tokeniser.pieces(row)


def classifier_of(model: Any, rows: RowMaker, labels: Labels) -> RowClassifier:
    """A trained model in use."""
    if isinstance(rows, TextRows):
        return TextClassifier(model, rows.tokeniser, labels, pairs=rows.pairs)
    return RowClassifier(model, rows, labels)


def _remarks(row: Row | list[int]) -> tuple[str, ...]:
    return row.remarks if isinstance(row, Row) else ()


class GuestClassifier(TextClassifier):
    """Classifies texts, or pairs with a tab between their texts, with a classifier of Hugging Face."""

    tokeniser: HuggingFaceTokeniser

    @classmethod
    def read(cls, folder: Path | str) -> "GuestClassifier":
        """Raises DataError when the folder is damaged, UsageError when it holds another kind of model."""
        require_kind(folder, *BERTS)
        config, tensors = read_folder(folder)
        _require_label(folder, config, f"`foveate look {shlex.quote(str(folder))} TEXT` shows what it looks at.")
        read_run(Path(folder)).require("classify")
        tokeniser = HuggingFaceTokeniser.read(folder)
        head = FirstTokenClassifier(from_bert(config, tensors), config, tensors).eval()
        return cls(head, tokeniser, _label_names(config, int(head.output.out_features)))._of(folder)

    def require_attention(self) -> None:
        """A BERT attends."""

    def row(self, text: str, name: str) -> list[int]:
        if not text.strip():
            return []
        tokens = self.tokeniser.framed(*split(text, where=name)) if TAB in text else self.tokeniser.framed(text)
        require_positions(name, len(tokens), self.model.max_length)
        return tokens

    @torch.inference_mode()
    def align(self, text: str) -> Alignment:
        """Attention of the first token, whose vector determines the label, in the layer before the last: the mean of
        the heads, as one row. Raises UsageError for an empty text.
        """
        require_text(text)
        row = self.row(text, "The text")
        labels, answer = self._labels(row, text), self.classify(text)
        alignment = self_attention(self.model.model, lambda: self._logits([row]), labels)
        assert alignment is not None  # a BERT attends
        return Alignment.of(labels, [answer.label], alignment.weights[:1])

    def _logits(self, rows: list[list[int]]) -> Float[Tensor, "batch labels"]:
        return cast(Tensor, self.model(Batch.of(rows), rows[0][-1]))

    def _labels(self, row: list[int], text: str) -> list[str]:
        labels = self.tokeniser.pieces(row)
        if TAB in text or not any(map(self.tokeniser.unknown, row)):
            return labels
        spans = self.tokeniser.spans(text, framed=True)
        return [
            text[first:last] if self.tokeniser.unknown(token) and last else label
            for token, label, (first, last) in zip(row, labels, spans, strict=True)
        ]


def read_pictures(folder: Path | str) -> RowClassifier:
    """A ViT or DeiT of Hugging Face, which reads pictures as its folder says.

    Raises DataError when the folder is damaged, or asks for another preparation of pictures; UsageError when its model
    does not predict one label.
    """
    require_kind(folder, *VITS)
    config, tensors = read_folder(folder)
    _require_label(
        folder, config, f"foveate.models.vit_hugging_face.read_vit_encoder({str(folder)!r}) reads its encoder."
    )
    model = from_vit(config, tensors)
    rows = read_processor(folder, cast(Patches, model.input))
    return RowClassifier(model, rows, _label_names(config, model.output.out_features))._of(folder)


def _require_label(folder: Path | str, config: Mapping[str, Any], remedy: str) -> None:
    if class_of(config).endswith(CLASSIFIER) and not tells_a_label(config):
        raise UsageError(
            f"{folder} holds a {class_of(config)} that tells a number, or several labels at once, and `classify` "
            f"tells one of several. {remedy}"
        )


def _label_names(config: Mapping[str, Any], count: int) -> Labels:
    """The names of the labels, in the order of the model's outputs."""
    named = config.get("id2label")
    named = named if isinstance(named, dict) else {}
    names = [str(named.get(str(number), f"LABEL_{number}")) for number in range(count)]
    return Labels(names if len(set(names)) == count else [f"LABEL_{number}" for number in range(count)])
