"""Classifiers of texts in the folders of Hugging Face."""

from collections.abc import Mapping
from typing import Any, cast

from jaxtyping import Float
from torch import Tensor, nn

from foveate.data.batch import Batch
from foveate.data.text_pair import segments
from foveate.errors import DataError
from foveate.models.bert import BERT

POOLERS = ("bert.pooler.dense", "pooler.dense")
"""The names of BERT's pooler, in the files of classifiers and of bare encoders."""


class FirstTokenClassifier(nn.Module):
    """A classifier of Hugging Face: logits = W_2 f(W_1 h_0 + b_1) + b_2, with h_0 the vector of the first token

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
        pooler = next((name for name in POOLERS if f"{name}.weight" in tensors), POOLERS[0])
        self.inner: nn.Module = _linear(tensors, first or pooler, width)
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
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.load_state_dict({"weight": weight, "bias": bias})
    return layer
