"""Transformer blocks: attention and feed-forward, each with a residual and a layer norm."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from foveate.attention import (
    AnyMechanismConfig,
    AttentionConfig,
    MechanismConfig,
    Positions,
    Visibility,
    causal,
    padding,
)
from foveate.attention.check import require_positive, require_rates
from foveate.attention.mechanism import require_no_segments, shortest
from foveate.config.field import kind_of, require_choices
from foveate.nn.dropout import add_dropped, add_dropped_and_norm
from foveate.nn.feedforward import Activation, FeedForward
from foveate.nn.multihead import KeyValue, MultiHeadAttention, PackedKeyValue
from foveate.nn.packing import Packing


@dataclass(frozen=True, kw_only=True)
class BlockConfig:
    """One Transformer block. The defaults are the base model of Vaswani et al. 2017, table 3."""

    model_dim: int = 512
    num_heads: int = 8
    feedforward_dim: int = 2048
    norm: Literal["pre", "post"] = "post"
    """post: LayerNorm(x + f(x)), as published; pre: x + f(LayerNorm(x)), which trains more stably in deep stacks."""
    activation: Activation = "relu"
    bias: bool = True
    dropout: float = 0.1
    """Dropout on the output of each sublayer and on embeddings, as in the paper."""
    attention_dropout: float = 0.0
    feedforward_dropout: float = 0.0
    encoder_attention: AnyMechanismConfig = AttentionConfig()
    decoder_attention: AnyMechanismConfig = AttentionConfig()
    cross_attention: AnyMechanismConfig = AttentionConfig()

    def __post_init__(self) -> None:
        require_choices(self)
        require_positive(model_dim=self.model_dim, num_heads=self.num_heads, feedforward_dim=self.feedforward_dim)
        require_rates(
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            feedforward_dropout=self.feedforward_dropout,
        )
        if self.model_dim % self.num_heads:
            raise ValueError(f"num_heads={self.num_heads} does not divide model_dim={self.model_dim}")
        for site in ("encoder_attention", "decoder_attention", "cross_attention"):
            require_parallel(site, getattr(self, site))


class Residual(nn.Module):
    """x + f(x) with a layer norm after (post) or before f (pre)."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.model_dim)
        self.place = config.norm
        self.dropout = config.dropout

    def forward(
        self, x: Float[Tensor, "*shape model_dim"], f: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "*shape model_dim"]:
        if self.place == "pre":
            return add_dropped(x, f(self.read(x)), self.dropout, self.training)
        return add_dropped_and_norm(x, f(x), self.dropout, self.norm, self.training)

    def read(self, x: Float[Tensor, "*shape model_dim"]) -> Float[Tensor, "*shape model_dim"]:
        """The input of f."""
        read: Tensor = self.norm(x) if self.place == "pre" else x
        return read


class EncoderBlock(nn.Module):
    """Self-attention over the whole sentence, then a feed-forward network, on tokens without padding."""

    def __init__(self, config: BlockConfig, visibility: Visibility | None = None) -> None:
        super().__init__()
        rule = padding() if visibility is None else visibility
        self.attention = _multihead(config, config.encoder_attention, rule, "self")
        self.feedforward = _feedforward(config)
        self.attention_residual, self.feedforward_residual = Residual(config), Residual(config)

    @property
    def max_length(self) -> int | None:
        """The length of the longest sequence that it can attend over; None without a limit."""
        return self.attention.max_length

    def forward(
        self, x: Float[Tensor, "tokens model_dim"], *, at: Positions, packing: Packing | None = None
    ) -> Float[Tensor, "tokens model_dim"]:
        x = self.attention_residual(x, lambda x: self.attention(x, at=at, packing=packing))
        return self.feedforward_residual(x, self.feedforward)


class EncodedTokens(NamedTuple):
    """An encoder's output for real tokens, from which each decoder block makes its own keys and values."""

    hidden: Float[Tensor, "tokens model_dim"]
    packing: Packing


class DecoderBlock(nn.Module):
    """Causal self-attention, attention to the encoder's memory, then a feed-forward network."""

    def __init__(self, config: BlockConfig, visibility: Visibility | None = None) -> None:
        super().__init__()
        rule = causal() if visibility is None else visibility
        self.attention = _multihead(config, config.decoder_attention, rule, "self")
        self.cross_attention = _multihead(config, config.cross_attention, padding(), "cross")
        self.feedforward = _feedforward(config)
        self.attention_residual, self.cross_residual = Residual(config), Residual(config)
        self.feedforward_residual = Residual(config)

    @property
    def max_length(self) -> int | None:
        """The length of the longest target or source that it can attend over; None without a limit."""
        return shortest(self.attention, self.cross_attention)

    def forward(
        self,
        x: Float[Tensor, "tokens model_dim"],
        memory: EncodedTokens | KeyValue | PackedKeyValue,
        *,
        at: Positions,
        memory_at: Positions,
        packing: Packing,
    ) -> Float[Tensor, "tokens model_dim"]:
        """Process all target positions at once (teacher forcing). `memory` may come from
        `cross_attention.remember_tokens`.
        """
        if isinstance(memory, EncodedTokens):
            memory = self.cross_attention.remember_tokens(memory.hidden, memory.packing, packing)
        x = self.attention_residual(x, lambda x: self.attention(x, at=at, packing=packing))
        x = self.cross_residual(x, lambda x: self.cross_attention.look_up(x, memory, at=memory_at, packing=packing))
        return self.feedforward_residual(x, self.feedforward)


def require_parallel(site: str, attention: MechanismConfig) -> None:
    """Raise ValueError for an attention that a Transformer layer cannot run: one that needs the weights of the step
    before, one that learns from a reward for each step, or one that separates several texts in a row.
    """
    require_no_segments(**{site: attention})
    score = getattr(attention, "score", None)
    if getattr(score, "needs_step_before", False):
        raise ValueError(
            f'{site}.score cannot be "{kind_of(type(score))}": it needs the weights of the step before, and a '
            "Transformer computes all positions at once. Choose another score, or a recurrent decoder"
        )
    normaliser = getattr(attention, "normaliser", None)
    if getattr(normaliser, "learns_from_reward", False):
        raise ValueError(
            f'{site}.normaliser.mode cannot be "sample": only recurrent decoders learn from sampled weights. '
            'Choose "straight_through" or "gumbel"'
        )


def _multihead(
    config: BlockConfig, attention: MechanismConfig, visibility: Visibility, kind: Literal["self", "cross"]
) -> MultiHeadAttention:
    return MultiHeadAttention(
        query_dim=config.model_dim,
        num_heads=config.num_heads,
        bias=config.bias,
        dropout=config.attention_dropout,
        attention=attention,
        visibility=visibility,
        kind=kind,
    )


def _feedforward(config: BlockConfig) -> FeedForward:
    return FeedForward(
        config.model_dim, config.feedforward_dim, activation=config.activation, dropout=config.feedforward_dropout
    )
