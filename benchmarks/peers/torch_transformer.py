"""torch.nn.Transformer, used as its documentation shows."""

import torch
from contract import PAD, Rows, Size, TraineeModule
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from peers.padding import padded, sinusoids


class TorchTransformer(TraineeModule):
    """Embedding and sinusoids around nn.Transformer; the output is tied to the embedding."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size
        self.embedding = nn.Embedding(size.vocab, size.model_dim, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=size.model_dim**-0.5)
        self.transformer = nn.Transformer(
            size.model_dim,
            size.heads,
            size.layers,
            size.layers,
            size.feedforward_dim,
            size.dropout,
            batch_first=True,
        )
        same_dropout_places(self.transformer)
        self.dropout = nn.Dropout(size.dropout)
        self.register_buffer("position", sinusoids(size.max_length, size.model_dim), persistent=False)

    def forward(self, sources: Rows, targets: Rows) -> Tensor:
        source = padded(sources)
        inputs, labels = padded([row[:-1] for row in targets]), padded([row[1:] for row in targets])
        length = inputs.shape[1]
        hidden = self.transformer(
            self._embed(source),
            self._embed(inputs),
            tgt_mask=torch.ones(length, length, dtype=torch.bool).triu(1),
            tgt_is_causal=True,
            src_key_padding_mask=source == PAD,
            memory_key_padding_mask=source == PAD,
        )
        logits = linear(hidden, self.embedding.weight)
        return cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=PAD, label_smoothing=self.size.label_smoothing
        )

    def _embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids) * self.size.model_dim**0.5 + self.position[: ids.shape[1]])


def same_dropout_places(transformer: nn.Transformer) -> None:
    """Off inside attention and feed-forward, where the other engines have none; no option does it."""
    for layer in [*transformer.encoder.layers, *transformer.decoder.layers]:
        layer.dropout.p = 0.0
        for name in ("self_attn", "multihead_attn"):
            if hasattr(layer, name):
                getattr(layer, name).dropout = 0.0


def trainee(size: Size) -> TraineeModule:
    return TorchTransformer(size)
