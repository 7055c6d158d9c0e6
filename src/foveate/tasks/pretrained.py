"""Encoders that have learned from text without labels, for tagging and classifying to begin with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foveate.data.tokeniser import BERTTokeniser, HuggingFaceTokeniser, Tokeniser
from foveate.models import BERT, BERTConfig
from foveate.models.bert_hugging_face import read_bert
from foveate.storage.checkpoint import model_tensors
from foveate.storage.run import model_type_of
from foveate.tasks.initial import keep, require_kind
from foveate.tasks.masked_language_model.use import Filler


@dataclass(frozen=True)
class Pretrained:
    """An encoder's shape and weights, and the tokeniser that it reads with."""

    encoder: BERTConfig
    tokeniser: Tokeniser
    weights: Mapping[str, Tensor]

    @classmethod
    def load(cls, folder: Path | str) -> "Pretrained":
        """That of a run of the masked language model, or of a Hugging Face folder with a BERT.

        Raises UsageError for a run or a model of another kind, DataError when there is none, or it is damaged.
        """
        if model_type_of(folder) is not None:
            require_kind(folder, "bert")
            tokeniser = BERTTokeniser(HuggingFaceTokeniser.read(folder))
            return cls.of(read_bert(folder), tokeniser, order=tokeniser.order)
        filler = Filler.load(folder)
        return cls.of(filler.model, filler.tokeniser)

    @classmethod
    def of(cls, model: BERT, tokeniser: Tokeniser, *, order: Sequence[int] | None = None) -> "Pretrained":
        """Of a model, without what only fills gaps; `order` says which row of its embedding is whose."""
        own = model_tensors(model.config.build_encoder(1))
        weights = {name: model.state_dict()[name] for name in own}
        if order is not None:
            weights["embedding.weight"] = weights["embedding.weight"][torch.tensor(order)]
        return cls(model.config, tokeniser, weights)

    def into(self, model: Any) -> Any:
        """A model's configuration with this encoder, unless it names a `bert` of its own, which has to fit."""
        return model if isinstance(model.encoder, BERTConfig) else replace(model, encoder=self.encoder)

    def keep(self, run: Path) -> None:
        """Put the weights into a run folder."""
        keep(self.weights, run)
