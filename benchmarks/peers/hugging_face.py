"""Hugging Face MarianMTModel: training with its own forward, decoding with `generate`."""

from pathlib import Path

import torch
from contract import BOS, EOS, PAD, Rows, Size, TraineeModule
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import MarianConfig, MarianMTModel

from peers.padding import padded


def marian(size: Size) -> MarianMTModel:
    """A Marian of this size, in the published places of dropout (its own default)."""
    config = MarianConfig(
        vocab_size=size.vocab,
        d_model=size.model_dim,
        encoder_layers=size.layers,
        decoder_layers=size.layers,
        encoder_attention_heads=size.heads,
        decoder_attention_heads=size.heads,
        encoder_ffn_dim=size.feedforward_dim,
        decoder_ffn_dim=size.feedforward_dim,
        dropout=size.dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        activation_function="relu",
        scale_embedding=True,
        init_std=size.model_dim**-0.5,
        max_position_embeddings=size.max_length,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
    )
    return MarianMTModel(config)


class Marian(TraineeModule):
    """Its own loss has no label smoothing, so the trainer's usual one is put on its logits."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size, self.model = size, marian(size)

    def forward(self, sources: Rows, targets: Rows) -> Tensor:
        source = padded(sources)
        inputs, labels = padded([row[:-1] for row in targets]), padded([row[1:] for row in targets])
        answer = self.model(
            input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=inputs, use_cache=False
        )
        return cross_entropy(
            answer.logits.flatten(0, 1), labels.flatten(), ignore_index=PAD, label_smoothing=self.size.label_smoothing
        )


def trainee(size: Size) -> TraineeModule:
    return Marian(size)


class Generate:
    """`generate` with its key–value cache, as it comes."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model.eval()

    @torch.inference_mode()
    def __call__(self, sources: Rows, beam: int, max_new_tokens: int) -> list[list[int]]:
        source = padded(sources)
        answer = self.model.generate(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            num_beams=beam,
            do_sample=False,
            early_stopping=False,
            length_penalty=1.0,
            max_new_tokens=max_new_tokens,
        )
        return [_tokens(row) for row in answer.tolist()]


def _tokens(row: list[int]) -> list[int]:
    row = row[1:]
    row = row[: row.index(EOS)] if EOS in row else row
    return [token for token in row if token != PAD]


def translator(folder: Path, precision: str, threads: int) -> Generate:
    return Generate(MarianMTModel.from_pretrained(folder).to(getattr(torch, precision)))
