"""Classifiers of Hugging Face folders in use: BERT, RoBERTa and DistilBERT, fine-tuned to tell a label."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.data.batch import Batch
from foveate.data.label import Labels
from foveate.data.segment import TAB, segments, split
from foveate.data.tokeniser import HuggingFaceTokeniser
from foveate.errors import DataError, UsageError
from foveate.inspect.alignment import Alignment
from foveate.inspect.self_attention import self_attention
from foveate.models import BERT
from foveate.models.bert_hugging_face import from_bert
from foveate.models.bert_kin import BERTS
from foveate.models.hugging_face import read_folder
from foveate.storage.run import CLASSIFIER, class_of, read_run, tells_a_label
from foveate.tasks.classify import TextClassifier
from foveate.tasks.hugging_face import require_kind
from foveate.tasks.sight import require_text


class GuestHead(nn.Module):
    """logits = W_2 f(W_1 h_0 + b_1) + b_2, with h_0 the vector of the first token

    f is tanh, and ReLU in DistilBERT; W_1 is BERT's pooler, and part of the head in the others.
    """

    def __init__(self, model: BERT, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Raises DataError when the tensors are not there."""
        super().__init__()
        self.model = model
        kind = config["model_type"]
        names = {"bert": ("", "classifier"), "roberta": ("classifier.dense", "classifier.out_proj")}
        first, last = names.get(kind, ("pre_classifier", "classifier"))
        width = model.output_dim
        self.inner: nn.Module = _linear(tensors, first, width) if first else model.pooler
        self.output = _linear(tensors, last, width)
        self.relu = kind == "distilbert"

    @property
    def max_length(self) -> int:
        return self.model.max_length

    def forward(self, text: Batch, end: int) -> Float[Tensor, "batch labels"]:
        kinds = segments(text.ids, kinds=self.model.config.num_segments, end=end)
        hidden, packing = self.model.encode(text, kinds)
        inner = self.inner(hidden[packing.starts[:-1]])
        return cast(Tensor, self.output(inner.relu() if self.relu else inner.tanh()))


class GuestClassifier(TextClassifier):
    """Tells the label of a text, or of two with a tab between them, as the model of a folder does."""

    tokeniser: HuggingFaceTokeniser

    @classmethod
    def read(cls, folder: Path | str) -> "GuestClassifier":
        """Raises DataError when the folder is damaged, UsageError when it holds another kind of model."""
        require_kind(folder, *BERTS)
        config, tensors = read_folder(folder)
        if class_of(config).endswith(CLASSIFIER) and not tells_a_label(config):
            raise UsageError(
                f"{folder} holds a {class_of(config)} that tells a number, or several labels at once, and `classify` "
                f"tells one of several. `foveate look {folder} TEXT` shows what it looks at."
            )
        read_run(Path(folder)).require("classify")
        tokeniser = HuggingFaceTokeniser.read(folder)
        head = GuestHead(from_bert(config, tensors), config, tensors).eval()
        return cls(head, tokeniser, _labels(config, int(head.output.out_features)))._of(folder)

    def ids(self, text: str, name: str) -> list[int]:
        if not text.strip():
            return []
        tokens = self.tokeniser.framed(*split(text, where=name)) if TAB in text else self.tokeniser.framed(text)
        if len(tokens) > self.model.max_length:
            raise DataError(
                f"{name} has {len(tokens)} tokens, but the model has {self.model.max_length} positions. "
                "Shorten it; nothing is cut off silently."
            )
        return tokens

    @torch.inference_mode()
    def align(self, text: str) -> Alignment:
        """What the first token, whose vector tells the label, looked at in the layer before the last: the mean of its
        heads, as one row. Raises UsageError for an empty text.
        """
        require_text(text)
        row = self.ids(text, "The text")
        labels, said = self._labels(row, text), self.classify(text)
        seen = self_attention(self.model.model, lambda: self._logits([row]), labels)
        assert seen is not None  # a BERT attends
        return Alignment.of(labels, [said.label], seen.weights[:1])

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


def _linear(tensors: Mapping[str, Tensor], name: str, width: int) -> nn.Linear:
    try:
        weight, bias = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
    except KeyError as error:
        raise DataError(
            f"The weights lack {error.args[0]}: this folder holds no classifier, whatever its config.json says. "
            "Fetch the folder anew."
        ) from None
    if weight.dim() != 2 or weight.shape[1] != width or bias.shape != weight.shape[:1]:
        raise DataError(
            f"The tensors of {name} have the shapes {tuple(weight.shape)} and {tuple(bias.shape)}, which do not go "
            f"with an encoder of width {width}. Take both files from one folder."
        )
    made = nn.Linear(weight.shape[1], weight.shape[0])
    with torch.no_grad():
        made.weight.copy_(weight)
        made.bias.copy_(bias)
    return made


def _labels(config: Mapping[str, Any], count: int) -> Labels:
    """The names of the labels, in the order of the model's outputs."""
    named = config.get("id2label")
    named = named if isinstance(named, dict) else {}
    names = [str(named.get(str(number), f"LABEL_{number}")) for number in range(count)]
    return Labels(names if len(set(names)) == count else [f"LABEL_{number}" for number in range(count)])
