"""A tagger labels every word, or every vector of a recording: embeddings, an encoder, and an output layer."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import relu

from foveate.attention.check import require_positive, require_rates
from foveate.config.field import setting
from foveate.data.batch import Batch
from foveate.data.tokeniser import UNKNOWN
from foveate.data.word import WordBatch
from foveate.models.bert import BERTConfig, BERTEncoder
from foveate.nn.dropout import dropout
from foveate.nn.embed import Input, Tokens, embed
from foveate.nn.encoder import Encoder, EncoderConfig, RNNEncoderConfig
from foveate.nn.linear_layer import Linear
from foveate.nn.neighbour import Neighbours
from foveate.nn.packing import Packing

REACH = 2
"""The number of letters on each side in one convolution: five letters are an ending and the letter before it."""


@dataclass(frozen=True, kw_only=True)
class TaggerConfig:
    """An encoder over words, or over vectors. A word has an embedding, and a vector of its spelling; a vector is
    projected to `embedding_dim`, and `character_dim` and `word_dropout` have no effect.
    """

    encoder: EncoderConfig | BERTConfig = RNNEncoderConfig()
    """`bert` embeds pieces of words itself; among the other settings, only `dropout` then has an effect."""
    embedding_dim: int = setting(128, "of whole words")
    character_dim: int = setting(64, "width of the vector of a spelling, the only input for unknown words; 0 for none")
    dropout: float = setting(0.3, "on embeddings and on the output of the encoder")
    word_dropout: float = setting(0.05, "share of words without embedding in training, so that spellings are learned")

    def __post_init__(self) -> None:
        require_positive(embedding_dim=self.embedding_dim)
        require_rates(dropout=self.dropout, word_dropout=self.word_dropout)
        if self.character_dim < 0:
            raise ValueError(f"character_dim must be at least 0, got {self.character_dim}")

    @property
    def positions(self) -> int | None:
        """The length of the longest sentence in words, or in pieces for BERT; None without a limit."""
        return getattr(self.encoder, "positions", None)

    def build(self, vocab: int, labels: int, characters: int = 0) -> "Tagger | PieceTagger":
        """The model for a number of words, labels and characters. For BERT, words are pieces of words."""
        if isinstance(self.encoder, BERTConfig):
            return PieceTagger(self, self.encoder, labels, characters)
        return Tagger(self, vocab, labels, characters)

    def build_frames(self, source: Input, labels: int) -> "FrameTagger":
        """The model for rows of vectors and a number of labels."""
        return FrameTagger(self, source, labels)


class Spelling(nn.Module):
    """s = max_j relu(W [c_{j−2} … c_{j+2}] + b) over the places j of a word's characters, its begin and its end

    A convolution and a maximum over the word find endings, beginnings, capitals and digits.
    """

    def __init__(self, characters: int, dim: int) -> None:
        super().__init__()
        self.embedding = Tokens(characters).build(min(dim, 32))
        self.window = Neighbours(self.embedding.embedding_dim, dim, left=REACH, right=REACH)

    def forward(self, spellings: Batch) -> Float[Tensor, "forms dim"]:
        packing = Packing(spellings.lengths, spellings.length)
        features = relu(self.window(self.embedding(packing.pack(spellings.ids)), packing=packing))
        return packing.unpack(features).amax(1)  # padding is zero, like places without a feature


class Tagger(nn.Module):
    """p(y_i | x) = softmax(W h_i + b),  h = encoder([E x_i; s(x_i)])

    Many to many, in step: as many labels as words. A sentence gets the same labels alone and in a batch.
    """

    def __init__(self, config: TaggerConfig, vocab: int, labels: int, characters: int) -> None:
        super().__init__()
        assert not isinstance(config.encoder, BERTConfig)
        if config.character_dim and not characters:
            raise ValueError("Spellings need the number of different characters. Pass characters=, or character_dim=0.")
        self.dropout, self.word_dropout = config.dropout, config.word_dropout
        self.embedding = Tokens(vocab).build(config.embedding_dim, deviation=0.1)
        self.spelling = Spelling(characters, config.character_dim) if config.character_dim else None
        self.encoder: Encoder = config.encoder.build_for(config.embedding_dim + config.character_dim)
        self.output = Linear(self.encoder.output_dim, labels)

    @property
    def max_length(self) -> int | None:
        """The largest number of words in a sentence; None without a limit."""
        return self.encoder.max_length

    def forward(self, batch: WordBatch) -> Float[Tensor, "tokens labels"]:
        """Logits of the labels, sentence after sentence."""
        packing = Packing(batch.words.lengths, batch.words.length)
        words = self.embed(batch).index_select(0, packing.pack(batch.words.ids))
        hidden = self.encoder(self._drop(words), packing=packing)
        return self.output(self._drop(hidden))

    def embed(self, batch: WordBatch) -> Float[Tensor, "forms dim"]:
        """The vector of each different word, without context."""
        parts = [self.embedding(self._hidden(batch.forms))]
        if self.spelling is not None:
            parts.append(self.spelling(batch.spellings))
        return torch.cat(parts, dim=-1)

    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())

    def _hidden(self, forms: Int[Tensor, " forms"]) -> Int[Tensor, " forms"]:
        """Replace some words by the unknown word in training, so that its vector and the spellings are trained."""
        if not self.training or not self.word_dropout:
            return forms
        return forms.masked_fill(torch.rand(len(forms), device=forms.device) < self.word_dropout, UNKNOWN)

    def _drop(self, x: Float[Tensor, "*shape dim"]) -> Float[Tensor, "*shape dim"]:
        return dropout(x, self.dropout, self.training)


class PieceTagger(nn.Module):
    """p(y_i | x) = softmax(W h_b(i) + b),  h = BERT(pieces of x),  b(i): the first piece of word i

    The encoder reads all pieces, and the first piece of each word is labelled. Reference: Devlin et al. 2019, section
    5.3.
    """

    def __init__(self, config: TaggerConfig, encoder: BERTConfig, labels: int, pieces: int) -> None:
        super().__init__()
        self.dropout = config.dropout
        self.encoder = encoder.build_encoder(pieces + 1)  # includes the gap
        self.output = Linear(self.encoder.output_dim, labels)

    @property
    def max_length(self) -> int | None:
        """The largest number of pieces in a sentence, including begin and end."""
        return self.encoder.max_length

    def forward(self, batch: WordBatch) -> Float[Tensor, "tokens labels"]:
        """Logits of the labels, sentence after sentence."""
        text, first = batch.pieces()
        hidden, _ = self.encoder.encode(text)
        return self.output(dropout(hidden.index_select(0, first), self.dropout, self.training))

    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())


class FrameTagger(nn.Module):
    """p(y_i | x) = softmax(W h_i + b),  h = encoder(E x_i)

    Many to many, in step: a label for each vector, such as a frame of speech. A recording gets the same labels alone
    and in a batch. An encoder that sees the vectors i − l … i + r only makes labels that wait for r vectors.
    """

    def __init__(self, config: TaggerConfig, source: Input, labels: int) -> None:
        super().__init__()
        self.dropout, self.input = config.dropout, source
        self.embedding: nn.Module
        self.encoder: Encoder | BERTEncoder
        if isinstance(config.encoder, BERTConfig):
            self.embedding, self.encoder = nn.Identity(), config.encoder.build_encoder(source)
        else:
            self.embedding = source.build(config.embedding_dim, deviation=0.1)
            self.encoder = config.encoder.build_for(config.embedding_dim)
        self.output = Linear(self.encoder.output_dim, labels)

    @property
    def max_length(self) -> int | None:
        """The largest number of vectors in a row; None without a limit."""
        return self.encoder.max_length

    def forward(self, batch: Batch) -> Float[Tensor, "frames labels"]:
        """Logits of the labels, row after row."""
        if isinstance(self.encoder, BERTEncoder):
            hidden, _ = self.encoder.encode(batch)
        else:
            packing = Packing(batch.lengths, batch.length)
            embedded = embed(self.embedding, *batch.packed(packing))
            hidden = self.encoder(dropout(embedded, self.dropout, self.training), packing=packing)
        return self.output(dropout(hidden, self.dropout, self.training))

    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())
