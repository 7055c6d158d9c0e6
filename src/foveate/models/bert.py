"""BERT, a bidirectional encoder that is trained to fill gaps: Devlin et al. 2019."""

from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear

from foveate.attention import Positions
from foveate.attention.check import require_positive
from foveate.attention.mechanism import shortest
from foveate.data.batch import Batch
from foveate.nn.dropout import dropout
from foveate.nn.embed import Input, embed, input_of
from foveate.nn.feedforward import ACTIVATIONS
from foveate.nn.linear_layer import Linear
from foveate.nn.packing import Packing
from foveate.nn.transformer_block import BlockConfig, EncoderBlock

DEVIATION = 0.02
"""The standard deviation of initial embeddings. BERT used it for matrices too, which suits its width; our matrices use
the defaults of their layers.
"""


@dataclass(frozen=True, kw_only=True)
class BERTConfig:
    """Post-norm blocks over tokens, positions and segments. The defaults suit a few megabytes of text."""

    block: BlockConfig = BlockConfig(model_dim=256, num_heads=4, feedforward_dim=1024, norm="post", activation="gelu")
    """`block.encoder_attention` configures the attention of the layers."""
    num_layers: int = 4
    max_length: int = 512
    num_segments: int = 2
    """The number of segment embeddings, which distinguish the two sentences of a pair."""
    norm_epsilon: float = 1e-12

    def __post_init__(self) -> None:
        require_positive(num_layers=self.num_layers, max_length=self.max_length, num_segments=self.num_segments)
        if not self.norm_epsilon > 0:
            raise ValueError(f"norm_epsilon must be more than 0, got {self.norm_epsilon}")

    @classmethod
    def tiny(cls) -> "BERTConfig":
        """Two layers, 128 wide: the smallest published BERT."""
        block = BlockConfig(model_dim=128, num_heads=2, feedforward_dim=512, norm="post", activation="gelu")
        return cls(block=block, num_layers=2)

    @classmethod
    def base(cls) -> "BERTConfig":
        """Twelve layers, 768 wide: 110 M parameters with its 30,522 tokens."""
        block = BlockConfig(
            model_dim=768, num_heads=12, feedforward_dim=3072, norm="post", activation="gelu", attention_dropout=0.1
        )
        return cls(block=block, num_layers=12)

    @property
    def positions(self) -> int:
        """The length of the longest text in tokens; attention may lower it."""
        return min(shortest(self.block.encoder_attention) or self.max_length, self.max_length)

    def build(self, vocab: int) -> "BERT":
        return BERT(self, vocab)

    def build_encoder(self, vocab: int | Input) -> "BERTEncoder":
        """The encoder for an input or a number of tokens, without the head that fills gaps."""
        return BERTEncoder(self, vocab)


class BERTEncoder(nn.Module):
    """h⁰_i = LayerNorm(E y_i + p_i + s_i);  h^l = Block_l(h^{l−1}), where each position sees the whole text

    Everything but attention runs on real tokens without padding. Reference: Devlin et al. 2019, sections 3 and A.
    """

    def __init__(self, config: BERTConfig, vocab: int | Input) -> None:
        super().__init__()
        block, model_dim = config.block, config.block.model_dim
        self.config = config
        self.embedding: Any = input_of(vocab).build(model_dim)
        self.position = nn.Embedding(config.max_length, model_dim)
        self.segment = nn.Embedding(config.num_segments, model_dim)
        self.embedding_norm = nn.LayerNorm(model_dim)
        self.blocks = nn.ModuleList(EncoderBlock(block) for _ in range(config.num_layers))
        self.max_length = min(shortest(*self.blocks) or config.max_length, config.max_length)
        self.norm = nn.LayerNorm(model_dim) if block.norm == "pre" else nn.Identity()
        for module in self.modules():
            if isinstance(module, nn.LayerNorm):
                module.eps = config.norm_epsilon
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=DEVIATION)

    @property
    def output_dim(self) -> int:
        return self.config.block.model_dim

    def encode(
        self, text: Batch, segments: Int[Tensor, "batch length"] | None = None
    ) -> tuple[Float[Tensor, "tokens model_dim"], Packing]:
        """The last hidden vectors of the real tokens, and their packing. Without segments, all tokens are in the first.

        Raises ValueError for a text with more tokens than the model has positions.
        """
        if text.length > self.max_length:
            raise ValueError(
                f"The text has {text.length} tokens, but the model has {self.max_length} positions. "
                "Shorten it, or train with a larger max_length."
            )
        packing = Packing(text.lengths, text.length)
        kind = torch.zeros_like(packing.place) if segments is None else packing.pack(segments)
        x = embed(self.embedding, *text.packed(packing)) + self.position(packing.place) + self.segment(kind)
        x = dropout(self.embedding_norm(x), self.config.block.dropout, self.training)
        at = Positions.of(text.length, text.length, key_lengths=text.lengths)
        for block in cast(Any, self.blocks):
            x = block(x, at=at, packing=packing)
        return self.norm(x), packing


class BERT(BERTEncoder):
    """pooled = tanh(W h^L_0);  p(y_i) = softmax(E LayerNorm(gelu(W h^L_i)) + b)

    The encoder with its two training heads. Reference: Devlin et al. 2019, section 3.1.
    """

    def __init__(self, config: BERTConfig, vocab: int) -> None:
        super().__init__(config, vocab)
        self.pooler = Linear(config.block.model_dim, config.block.model_dim)
        self.head = GapHead(config, vocab)

    def forward(
        self, text: Batch, segments: Int[Tensor, "batch length"] | None = None
    ) -> Float[Tensor, "tokens vocab"]:
        """Logits of the original token at each real position, text after text."""
        return self.logits(self.encode(text, segments)[0])

    def pooled(self, hidden: Float[Tensor, "tokens model_dim"], packing: Packing) -> Float[Tensor, "batch model_dim"]:
        """One vector for each text, computed from its first token, for classifiers."""
        return torch.tanh(self.pooler(hidden[packing.starts[:-1]]))

    def logits(self, hidden: Float[Tensor, "tokens model_dim"]) -> Float[Tensor, "tokens vocab"]:
        """Logits of the tokens at the positions of these hidden vectors; training computes them for the gaps only."""
        return self.head(hidden, self.embedding.weight)

    def parameter_count(self) -> int:
        """The number of trainable numbers; tied weights count once."""
        return sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)


class GapHead(nn.Module):
    """logits = E LayerNorm(f(W h)) + b, with the embedding E"""

    def __init__(self, config: BERTConfig, vocab: int) -> None:
        super().__init__()
        self.dense = Linear(config.block.model_dim, config.block.model_dim)
        self.norm = nn.LayerNorm(config.block.model_dim, eps=config.norm_epsilon)
        self.bias = nn.Parameter(torch.zeros(vocab))
        self.activation = config.block.activation

    def forward(
        self, hidden: Float[Tensor, "tokens model_dim"], table: Float[Tensor, "vocab model_dim"]
    ) -> Float[Tensor, "tokens vocab"]:
        return linear(self.norm(ACTIVATIONS[self.activation](self.dense(hidden))), table, self.bias)
