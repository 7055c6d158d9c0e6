"""JoeyNMT's Transformer, built by its own builder and trained with its own loss; it decodes with a Marian's weights."""

import json
import re
import warnings
from pathlib import Path
from types import SimpleNamespace

import torch
from contract import BOS, EOS, PAD, UNKNOWN, Rows, Size, TraineeModule
from safetensors.torch import load_file
from torch import Tensor

from peers.padding import padded, sinusoids

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from joeynmt.batch import Batch
    from joeynmt.model import build_model
    from joeynmt.search import search
    from joeynmt.vocabulary import Vocabulary


class Joey(TraineeModule):
    """The loss is JoeyNMT's: label smoothing by KL divergence to a materialised distribution."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        vocabulary = _vocabulary(size.vocab)
        side = {
            "type": "transformer",
            "num_layers": size.layers,
            "num_heads": size.heads,
            "hidden_size": size.model_dim,
            "ff_size": size.feedforward_dim,
            "dropout": size.dropout,
            "layer_norm": "post",
            "embeddings": {"embedding_dim": size.model_dim, "scale": True, "dropout": size.dropout},
        }
        settings = {"tied_embeddings": True, "tied_softmax": True, "encoder": side, "decoder": side}
        settings |= {"initializer": "xavier_uniform", "embed_initializer": "xavier_uniform", "init_weight": 0.01}
        self.model = build_model(settings, vocabulary, vocabulary)
        same_dropout_places(self.model)
        self.model.loss_function = ("crossentropy", size.label_smoothing)

    def forward(self, sources: Rows, targets: Rows) -> Tensor:
        batch = _batch(sources, targets)
        total, *_ = self.model(return_type="loss", **vars(batch))
        return batch.normalize(total, "tokens")


def _batch(sources: Rows, targets: Rows | None) -> Batch:
    return Batch(
        src=padded(sources),
        src_length=torch.tensor([len(row) for row in sources]),
        src_prompt_mask=None,
        trg=None if targets is None else padded(targets),
        trg_prompt_mask=None,
        indices=torch.arange(len(sources)),
        device=torch.device("cpu"),
        pad_index=PAD,
        eos_index=EOS,
    )


class Search:
    """Its own search, which feeds the whole prefix at every step. Its beam search divides by Wu's length penalty."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model.eval()

    def __call__(self, sources: Rows, beam: int, max_new_tokens: int) -> list[list[int]]:
        # Its default of one word before the end is nobody else's.
        rows, *_ = search(self.model, _batch(sources, None), max_new_tokens, beam, beam_alpha=1.0, min_output_length=0)
        return [_tokens(row) for row in rows.tolist()]


def _tokens(row: list[int]) -> list[int]:
    row = row[: row.index(EOS)] if EOS in row else row
    return [token for token in row if token not in (PAD, BOS)]


LAYER = {
    "self_attn_layer_norm": "layer_norm",
    "encoder_attn_layer_norm": "dec_layer_norm",
    "final_layer_norm": "feed_forward.layer_norm",
    "fc1": "feed_forward.pwff_layer.0",
    "fc2": "feed_forward.pwff_layer.3",
}
"""Marian's name of a part of a layer, and JoeyNMT's; attentions are named by rule."""


def translator(folder: Path, precision: str, threads: int) -> Search:
    """The weights of a Hugging Face Marian in JoeyNMT's model; epsilon and layout of positions are put in by hand."""
    settings = json.loads((folder / "config.json").read_text())
    size = Size(
        vocab=settings["vocab_size"],
        model_dim=settings["d_model"],
        layers=settings["encoder_layers"],
        heads=settings["encoder_attention_heads"],
        feedforward_dim=settings["encoder_ffn_dim"],
    )
    model, tensors = Joey(size).model, load_file(folder / "model.safetensors")
    if tensors.pop("final_logits_bias").any():
        raise ValueError("JoeyNMT's output has no bias, and that of this Marian is not zero")
    own = {theirs(name): tensor for name, tensor in tensors.items() if ".layers." in name}
    tables = ("src_embed.lut.weight", "trg_embed.lut.weight", "decoder.output_layer.weight")
    own |= dict.fromkeys(tables, tensors["model.shared.weight"])
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-5
        if type(module).__name__ == "PositionalEncoding":
            module.pe = sinusoids(module.pe.shape[1], size.model_dim)[None]
    positions = {name: tensor for name, tensor in model.state_dict().items() if name.endswith(".pe")}
    model.load_state_dict(own | positions)
    return Search(model.to(getattr(torch, precision)))


def theirs(name: str) -> str:
    """JoeyNMT's name for a tensor of a Marian's layer."""
    stack, number, part, rest = re.fullmatch(r"model\.(encoder|decoder)\.layers\.(\d+)\.(\w+)\.(.+)", name).groups()
    if part in ("self_attn", "encoder_attn"):
        attention = ("src_src" if stack == "encoder" else "trg_trg") if part == "self_attn" else "src_trg"
        module = rest.replace("_proj", "_layer").replace("out_", "output_")
        return f"{stack}.layers.{number}.{attention}_att.{module}"
    place = "x_layer_norm" if (stack, part) == ("decoder", "self_attn_layer_norm") else LAYER[part]
    return f"{stack}.layers.{number}.{place}.{rest}"


def same_dropout_places(model: torch.nn.Module) -> None:
    """Off inside attention and feed-forward, where the other engines have none; no setting does it."""
    for module in model.modules():
        if type(module).__name__ == "MultiHeadedAttention":
            module.dropout.p = 0.0
        if type(module).__name__ == "PositionwiseFeedForward":
            first = next(part for part in module.pwff_layer if isinstance(part, torch.nn.Dropout))
            first.p = 0.0


def _vocabulary(size: int) -> Vocabulary:
    special = SimpleNamespace(
        pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>", sep_token=None, lang_tags=[]
    )
    special.pad_id, special.bos_id, special.eos_id, special.unk_id = PAD, BOS, EOS, UNKNOWN
    # Its constructor looks every token up in a list and expects <unk> first: filled here by hand with our numbers.
    vocabulary = Vocabulary.__new__(Vocabulary)
    tokens = ["<pad>", "<s>", "</s>", "<unk>", *(f"t{number}" for number in range(4, size))]
    vocabulary._itos, vocabulary._stoi = tokens, {token: number for number, token in enumerate(tokens)}
    vocabulary.specials, vocabulary.lang_tags = tokens[:4], []
    vocabulary.pad_index, vocabulary.bos_index, vocabulary.eos_index = PAD, BOS, EOS
    vocabulary.unk_index, vocabulary.sep_index = UNKNOWN, None
    return vocabulary


def trainee(size: Size) -> TraineeModule:
    return Joey(size)
