"""x-transformers' XTransformer, with its options set to the common size."""

from collections.abc import Sequence

import torch
from contract import BOS, PAD, Rows, Size, TraineeModule
from torch import Tensor
from torch.nn.functional import cross_entropy
from x_transformers import XTransformer

from peers.padding import padded


class LucidTransformer(TraineeModule):
    """Embedding shared by both sides. XTransformer passes no option to tie the output too, so it is tied by hand."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size
        side = {
            "num_tokens": size.vocab,
            "depth": size.layers,
            "heads": size.heads,
            "max_seq_len": size.max_length,
            "attn_dim_head": size.model_dim // size.heads,
            "ff_mult": size.feedforward_dim // size.model_dim,
            "attn_sublayer_dropout": size.dropout,
            "ff_sublayer_dropout": size.dropout,
            "emb_dropout": size.dropout,
            "attn_flash": True,
        }
        options = {f"{half}_{name}": value for half in ("enc", "dec") for name, value in side.items()}
        self.model = XTransformer(dim=size.model_dim, tie_token_emb=True, **options)
        decoder = self.model.decoder.net
        decoder.to_logits.weight = decoder.token_emb.emb.weight
        torch.nn.init.normal_(decoder.token_emb.emb.weight, std=size.model_dim**-0.5)

    def forward(self, sources: Rows, targets: Rows) -> Tensor:
        source = padded(sources)
        inputs, labels = padded([row[:-1] for row in targets]), padded([row[1:] for row in targets])
        mask = source != PAD
        memory = self.model.encoder(source, mask=mask, return_embeddings=True)
        logits = self.model.decoder.net(inputs, context=memory, context_mask=mask)
        return cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=PAD, label_smoothing=self.size.label_smoothing
        )


class Forced:
    """Greedy `generate` with its key–value cache. A batch goes on until its longest output is done, as in
    Hugging Face's `generate`; what is past an output's length is cut off."""

    def __init__(self, size: Size) -> None:
        torch.manual_seed(0)
        self.model = LucidTransformer(size).model.eval()

    @torch.inference_mode()
    def __call__(self, sources: Rows, lengths: Sequence[int]) -> list[list[int]]:
        source = padded(sources)
        begin = torch.full((len(sources), 1), BOS)
        rows = self.model.generate(source, begin, max(lengths), mask=source != PAD, temperature=0.0).tolist()
        return [row[:length] for row, length in zip(rows, lengths, strict=True)]


def forced(size: Size) -> Forced:
    return Forced(size)


def trainee(size: Size) -> TraineeModule:
    return LucidTransformer(size)
