"""A classifier labels a whole row, such as a text or a picture: embeddings, an encoder, pooling, an output layer."""

from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor, nn

from foveate.attention.check import require_positive, require_rates
from foveate.attention.mechanism import shortest
from foveate.config.field import setting
from foveate.data.batch import Batch
from foveate.data.text_pair import segments
from foveate.models.bert import BERTConfig, BERTEncoder
from foveate.models.picture_encoder import PictureEncoder
from foveate.models.picture_family import PictureEncoderConfig
from foveate.models.vit import ViTConfig
from foveate.nn.dropout import dropout
from foveate.nn.embed import Input, Tokens, Vectors, embed, input_of
from foveate.nn.encoder import Encoder, EncoderConfig, RNNEncoderConfig
from foveate.nn.linear_layer import Linear
from foveate.nn.packing import Packing
from foveate.nn.pooling import AttentionPoolingConfig, FirstPoolingConfig, PoolingConfig
from foveate.nn.subsampling import AnySubsamplingConfig, Subsampling


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig:
    """An encoder over tokens or patches, and the pooling of its vectors."""

    encoder: EncoderConfig | BERTConfig | PictureEncoderConfig = RNNEncoderConfig()
    """`bert` and the encoders of pictures have their own embeddings and ignore `embedding_dim`."""
    subsampling: AnySubsamplingConfig | None = setting(
        None, "of vectors in time, such as recordings, before the encoder; they are not embedded then"
    )
    pooling: PoolingConfig = setting(AttentionPoolingConfig(), "attention, mean, max or first")
    embedding_dim: int = 128
    dropout: float = setting(0.3, "on embeddings, on the output of the encoder, and on the pooled vector")

    def __post_init__(self) -> None:
        require_positive(embedding_dim=self.embedding_dim)
        require_rates(dropout=self.dropout)
        if self.subsampling is not None and isinstance(self.encoder, BERTConfig | PictureEncoderConfig):
            raise ValueError(
                f"subsampling shortens vectors before an encoder of frames, and {type(self.encoder).__name__} embeds "
                "by itself. Choose another encoder, or leave subsampling out"
            )
        if isinstance(self.encoder, ViTConfig) and self.encoder.class_tokens is not None:
            _require_class_tokens(self.encoder.class_tokens, self.pooling)

    @property
    def positions(self) -> int | None:
        """The length of the longest text in tokens, of the longest recording in frames; None without a limit."""
        encoder = _with_class_tokens(self) if isinstance(self.encoder, ViTConfig) else self.encoder
        limits = (getattr(encoder, "positions", None), shortest(getattr(self.pooling, "attention", None)))
        longest = min((limit for limit in limits if limit is not None), default=None)
        return longest if longest is None or self.subsampling is None else longest * self.subsampling.factor

    def build(self, vocab: int | Input, labels: int) -> "Classifier":
        """The model for an input or a number of tokens, and for a number of labels."""
        return Classifier(self, vocab, labels)


class Classifier(nn.Module):
    """p(y | x) = softmax(W c + b),  c = pool(h_1 … h_n),  h = encoder(E x), or h = BERT(x)

    Many to one. With attention pooling, c = Σ_i α_i h_i, and `record` shows α, the weight of each position. In a pair,
    each text ends with the end token, and BERT embeds which of the two texts a token belongs to. With subsampling,
    h = encoder(subsample(x)), and a position stands for `stride` frames.
    """

    def __init__(self, config: ClassifierConfig, vocab: int | Input, labels: int) -> None:
        super().__init__()
        self.dropout, self.input = config.dropout, input_of(vocab)
        self.embedding, self.subsampling, self.encoder = _reader(config, self.input)
        self.pooling: nn.Module = config.pooling.build(self.encoder.output_dim)
        self.output = Linear(config.pooling.width(self.encoder.output_dim), labels)

    @property
    def stride(self) -> int:
        """The number of tokens or frames for one position of the encoder."""
        return 1 if self.subsampling is None else self.subsampling.factor

    @property
    def max_length(self) -> int | None:
        """The length of the longest text in tokens, of the longest recording in frames; None without a limit."""
        longest = shortest(self.encoder, self.pooling)
        return None if longest is None else longest * self.stride

    def forward(self, batch: Batch) -> Float[Tensor, "batch labels"]:
        """Logits of the labels of each row."""
        return self.output(self._drop(self.pooled(batch)))

    def pooled(self, batch: Batch) -> Float[Tensor, "batch dim"]:
        """One vector for each row."""
        if isinstance(self.encoder, BERTEncoder):
            kinds = self.encoder.config.num_segments
            paired = segments(batch.ids, kinds=kinds) if isinstance(self.input, Tokens) else None
            hidden, packing = self.encoder.encode(batch, paired)
        elif isinstance(self.encoder, PictureEncoder):
            hidden, packing = self.encoder.encode(batch)
        else:
            packing = Packing(batch.lengths, batch.length)
            x = embed(self.embedding, *batch.packed(packing))
            if self.subsampling is not None:
                x, packing = self.subsampling(x.to(self.output.weight.dtype), packing=packing)
            hidden = self.encoder(self._drop(x), packing=packing)
        return self.pooling(self._drop(hidden), packing=packing)

    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())

    def _drop(self, x: Float[Tensor, "*shape dim"]) -> Float[Tensor, "*shape dim"]:
        return dropout(x, self.dropout, self.training)


def _reader(
    config: ClassifierConfig, source: Input
) -> tuple[nn.Module, Subsampling | None, Encoder | BERTEncoder | PictureEncoder]:
    """Embedding, subsampling and encoder. BERT has its own embedding, which includes the gap token, and so have
    encoders of pictures.
    """
    if isinstance(config.encoder, BERTConfig):
        known = Tokens(source.vocab + 1) if isinstance(source, Tokens) else source
        return nn.Identity(), None, config.encoder.build_encoder(known)
    if isinstance(config.encoder, PictureEncoderConfig):
        encoder = _with_class_tokens(config) if isinstance(config.encoder, ViTConfig) else config.encoder
        return nn.Identity(), None, encoder.build_encoder(source)
    if config.subsampling is not None:
        if not isinstance(source, Vectors):
            raise ValueError(f"model.subsampling shortens rows of vectors in time, and the input is {source}")
        subsampling = config.subsampling.build_for(source.width)
        return nn.Identity(), subsampling, config.encoder.build_for(subsampling.output_dim)
    embedding = source.build(config.embedding_dim, deviation=0.1)
    return embedding, None, config.encoder.build_for(config.embedding_dim)


def _with_class_tokens(config: ClassifierConfig) -> ViTConfig:
    """The encoder with the number of class tokens that the pooling reads."""
    assert isinstance(config.encoder, ViTConfig)
    if config.encoder.class_tokens is not None:
        return config.encoder
    needed = config.pooling.count if isinstance(config.pooling, FirstPoolingConfig) else 0
    return replace(config.encoder, class_tokens=needed)


def _require_class_tokens(class_tokens: int, pooling: PoolingConfig) -> None:
    """Raise ValueError where the pooling would read other vectors than those that are meant."""
    count = pooling.count if isinstance(pooling, FirstPoolingConfig) else 0
    if class_tokens < count:
        raise ValueError(
            f"encoder.class_tokens={class_tokens} is less than pooling.count={count}, but the pooling "
            '"first" reads class tokens. Leave class_tokens out, or choose the pooling "mean" or "attention"'
        )
    if class_tokens and not count:
        raise ValueError(
            f'encoder.class_tokens={class_tokens} needs the pooling "first", which reads them. Leave class_tokens '
            "out to pool the patches"
        )
