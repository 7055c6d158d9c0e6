"""A label for a whole row, be it a text or a picture: embeddings, any encoder, pooling, and one layer on top."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from foveate.attention.check import require_positive, require_rates
from foveate.attention.mechanism import shortest
from foveate.config.field import setting
from foveate.data.batch import Batch
from foveate.data.text_pair import segments
from foveate.models.bert import BERTConfig, BERTEncoder
from foveate.nn.dropout import dropout
from foveate.nn.embed import Input, Tokens, embed, input_of
from foveate.nn.encoder import Encoder, EncoderConfig, RNNEncoderConfig
from foveate.nn.linear_layer import Linear
from foveate.nn.packing import Packing
from foveate.nn.pooling import AttentionPoolingConfig, PoolingConfig


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig:
    """An encoder over tokens, and what makes one vector of theirs."""

    encoder: EncoderConfig | BERTConfig = RNNEncoderConfig()
    """`bert` has embeddings of its own: `embedding_dim` is then without effect."""
    pooling: PoolingConfig = setting(AttentionPoolingConfig(), "attention, mean, max or first")
    embedding_dim: int = 128
    dropout: float = setting(0.3, "on embeddings, on what the encoder says, and on the pooled vector")

    def __post_init__(self) -> None:
        require_positive(embedding_dim=self.embedding_dim)
        require_rates(dropout=self.dropout)

    @property
    def positions(self) -> int | None:
        """The longest text in tokens; None where there is no limit."""
        limits = (getattr(self.encoder, "positions", None), shortest(getattr(self.pooling, "attention", None)))
        return min((limit for limit in limits if limit is not None), default=None)

    def build(self, vocab: int | Input, labels: int) -> "Classifier":
        """For an input, or so many different tokens, and for so many labels."""
        return Classifier(self, vocab, labels)


class Classifier(nn.Module):
    """p(y | x) = softmax(W c + b),  c = pool(h_1 … h_n),  h = encoder(E x), or h = BERT(x)

    Many to one. With attention pooling, c = Σ_i α_i h_i, and `record` shows α: where the model found its answer.
    Of a pair, x has an end after each text, and BERT embeds which of the two a token belongs to.
    """

    def __init__(self, config: ClassifierConfig, vocab: int | Input, labels: int) -> None:
        super().__init__()
        self.dropout, self.input = config.dropout, input_of(vocab)
        self.embedding, self.encoder = _reader(config, self.input)
        self.pooling: nn.Module = config.pooling.build(self.encoder.output_dim)
        self.output = Linear(self.encoder.output_dim, labels)

    @property
    def max_length(self) -> int | None:
        """The most tokens of a text; None when there is no limit."""
        return shortest(self.encoder, self.pooling)

    def forward(self, batch: Batch) -> Float[Tensor, "batch labels"]:
        """Logits of the labels of each row."""
        return self.output(self._drop(self.pooled(batch)))

    def pooled(self, batch: Batch) -> Float[Tensor, "batch dim"]:
        """One vector for each row."""
        if isinstance(self.encoder, BERTEncoder):
            kinds = self.encoder.config.num_segments
            paired = segments(batch.ids, kinds=kinds) if isinstance(self.input, Tokens) else None
            hidden, packing = self.encoder.encode(batch, paired)
        else:
            packing = Packing(batch.lengths, batch.length)
            embedded = embed(self.embedding, *batch.packed(packing))
            hidden = self.encoder(self._drop(embedded), packing=packing)
        return self.pooling(self._drop(hidden), packing=packing)

    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())

    def _drop(self, x: Float[Tensor, "*shape dim"]) -> Float[Tensor, "*shape dim"]:
        return dropout(x, self.dropout, self.training)


def _reader(config: ClassifierConfig, source: Input) -> tuple[nn.Module, Encoder | BERTEncoder]:
    """Embedding and encoder; BERT embeds by itself, among tokens the gap too."""
    if isinstance(config.encoder, BERTConfig):
        known = Tokens(source.vocab + 1) if isinstance(source, Tokens) else source
        return nn.Identity(), config.encoder.build_encoder(known)
    embedding = source.build(config.embedding_dim, deviation=0.1)
    return embedding, config.encoder.build_for(config.embedding_dim)
