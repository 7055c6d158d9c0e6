"""JoeyNMT's Transformer, built by its own builder and trained with its own loss."""

import warnings
from types import SimpleNamespace

import torch
from contract import BOS, EOS, PAD, UNKNOWN, Rows, Size, TraineeModule
from torch import Tensor

from peers.padding import padded

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from joeynmt.batch import Batch
    from joeynmt.model import build_model
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
        batch = Batch(
            src=padded(sources),
            src_length=torch.tensor([len(row) for row in sources]),
            src_prompt_mask=None,
            trg=padded(targets),
            trg_prompt_mask=None,
            indices=torch.arange(len(sources)),
            device=torch.device("cpu"),
            pad_index=PAD,
            eos_index=EOS,
        )
        total, *_ = self.model(return_type="loss", **vars(batch))
        return batch.normalize(total, "tokens")


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
