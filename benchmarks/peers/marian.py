"""Marian: a Transformer of ours, and a vocabulary whose words are ids, in the files that Marian's own decoder reads.

Marian expresses post-norm Transformers: before attention it normalises queries only, not keys and values. Its decoder
begins with a vector of zeros in place of an embedding.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from contract import BOS, EOS, PAD, UNKNOWN
from sentencepiece import sentencepiece_model_pb2
from torch import Tensor, nn

from foveate.models.transformer import Transformer, TransformerConfig
from foveate.nn.position_vector import SinusoidalConfig
from foveate.nn.transformer_block import BlockConfig

NEVER = (PAD, BOS, UNKNOWN)
"""Tokens that Marian cannot be forbidden to generate, but by a bias on their logits."""
LOW = -1e4
WORDS, USUAL, OTHER, CONTROL = 3, 1, 2, 3
"""Numbers in a file of SentencePiece: a model of words, and the types of its pieces."""


def config(*, model_dim: int, heads: int, feedforward_dim: int, layers: tuple[int, int]) -> TransformerConfig:
    """A post-norm Transformer with Marian's positions, whose frequencies fall to 1/10,000 in d/2 − 1 steps."""
    half = model_dim // 2
    block = BlockConfig(model_dim=model_dim, num_heads=heads, feedforward_dim=feedforward_dim, norm="post")
    return TransformerConfig(
        block=block,
        encoder_layers=layers[0],
        decoder_layers=layers[1],
        position=SinusoidalConfig(base=10000.0 ** (half / (half - 1)), layout="blocks"),
        share="all",
        output_bias=True,
    )


@torch.no_grad()
def begin_with_zeros(model: Transformer) -> None:
    model.target_embedding.weight[BOS] = 0.0


def output_bias(vocab: int) -> Tensor:
    """Zeros, and a low number for tokens that are never generated."""
    bias = torch.zeros(vocab)
    bias[list(NEVER)] = LOW
    return bias


def write(model: Transformer, config: TransformerConfig, folder: Path) -> None:
    """`model.npz` and `vocab.spm`, for texts of words: w7 has the id 7."""
    block, vocab = config.block, model.target_embedding.num_embeddings
    settings = {
        "type": "transformer",
        "dim-vocabs": [vocab, vocab],
        "dim-emb": block.model_dim,
        "enc-depth": config.encoder_layers,
        "dec-depth": config.decoder_layers,
        "transformer-heads": block.num_heads,
        "transformer-dim-ffn": block.feedforward_dim,
        "transformer-ffn-depth": 2,
        "transformer-ffn-activation": block.activation,
        "transformer-decoder-autoreg": "self-attention",
        "transformer-preprocess": "",
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d",
        "transformer-no-projection": False,
        "transformer-train-position-embeddings": False,
        "transformer-tied-layers": [],
        "tied-embeddings-all": True,
    }
    text = json.dumps(settings) + "\0"  # which is YAML as well
    arrays = dict(_arrays(model)) | {"special:model.yml": np.frombuffer(text.encode(), dtype=np.int8)}
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "model.npz", **cast(Any, arrays))
    (folder / "vocab.spm").write_bytes(_vocabulary(vocab))


def _arrays(model: Transformer) -> Iterator[tuple[str, np.ndarray]]:
    """Marian's names; its matrices are transposed, its vectors are rows."""
    yield "Wemb", _array(model.target_embedding.weight)
    yield "decoder_ff_logit_out_b", _array(cast(Tensor, model.output_bias)[None])
    for side, blocks in (("encoder", model.encoder), ("decoder", model.decoder)):
        for number, block in enumerate(cast(Any, blocks), 1):
            name = f"{side}_l{number}"
            yield from _attention(f"{name}_self", block.attention, block.attention_residual.norm)
            if side == "decoder":
                yield from _attention(f"{name}_context", block.cross_attention, block.cross_residual.norm)
            yield from _linear(f"{name}_ffn", "1", block.feedforward.expand)
            yield from _linear(f"{name}_ffn", "2", block.feedforward.contract)
            yield from _norm(f"{name}_ffn_ffn", block.feedforward_residual.norm)


def _attention(name: str, attention: Any, norm: nn.LayerNorm) -> Iterator[tuple[str, np.ndarray]]:
    for letter, layer in zip("qkvo", (attention.query, attention.key, attention.value, attention.output), strict=True):
        yield from _linear(name, letter, layer)
    yield from _norm(f"{name}_Wo", norm)


def _linear(name: str, letter: str, layer: nn.Linear) -> Iterator[tuple[str, np.ndarray]]:
    yield f"{name}_W{letter}", _array(layer.weight.mT)
    yield f"{name}_b{letter}", _array(layer.bias[None])


def _norm(name: str, norm: nn.LayerNorm) -> Iterator[tuple[str, np.ndarray]]:
    yield f"{name}_ln_scale", _array(norm.weight[None])
    yield f"{name}_ln_bias", _array(norm.bias[None])


def _array(tensor: Tensor) -> np.ndarray:
    return np.ascontiguousarray(tensor.detach().numpy())


def _vocabulary(size: int) -> bytes:
    """A SentencePiece model of words, whose identifiers are their numbers."""
    model = sentencepiece_model_pb2.ModelProto()
    for token in range(size):
        piece, kind = {UNKNOWN: ("<unk>", OTHER), EOS: ("</s>", CONTROL)}.get(token, (f"▁w{token}", USUAL))
        model.pieces.add(piece=piece, score=0.0, type=kind)
    trainer = model.trainer_spec
    trainer.model_type, trainer.vocab_size = WORDS, size
    trainer.unk_id, trainer.eos_id, trainer.bos_id, trainer.pad_id = UNKNOWN, EOS, -1, -1
    model.normalizer_spec.name = "identity"
    return model.SerializeToString()
