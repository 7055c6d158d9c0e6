"""Llama, a causal Transformer with rotary positions: Touvron et al. 2023."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from foveate.attention import AnyMechanismConfig, AttentionConfig, Positions, Rotary, causal
from foveate.attention.check import require_positive, require_rates
from foveate.attention.mechanism import shortest
from foveate.models.gpt import CausalTransformer
from foveate.nn.dropout import add_dropped
from foveate.nn.feedforward import GatedFeedForward
from foveate.nn.multihead import MultiHeadAttention
from foveate.nn.packing import Packing
from foveate.nn.transformer_block import require_parallel


@dataclass(frozen=True, kw_only=True)
class LlamaConfig:
    """A stack of causal blocks with rotary positions, root-mean-square norms, gated feed-forward layers and keys
    shared between heads. The defaults suit a few megabytes of text."""

    model_dim: int = 256
    num_heads: int = 8
    num_kv_heads: int = 4
    """The number of heads of keys and values. Each is shared by `num_heads / num_kv_heads` heads of queries."""
    head_dim: int | None = None
    """By default model_dim / num_heads."""
    feedforward_dim: int = 688
    num_layers: int = 4
    max_length: int = 2048
    """The largest number of positions. Rotary positions have no limit, but predictions are poor beyond the trained
    ones.
    """
    tied: bool = True
    """Whether the embedding is also the output matrix."""
    bias: bool = False
    """Whether the projections of attention have biases."""
    epsilon: float = 1e-5
    dropout: float = 0.1
    attention_dropout: float = 0.0
    attention: AnyMechanismConfig = AttentionConfig(transforms=(Rotary(layout="halves"),))

    def __post_init__(self) -> None:
        require_positive(
            model_dim=self.model_dim,
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            feedforward_dim=self.feedforward_dim,
            num_layers=self.num_layers,
            max_length=self.max_length,
        )
        require_rates(dropout=self.dropout, attention_dropout=self.attention_dropout)
        require_parallel("attention", self.attention)
        if self.head_dim is None and self.model_dim % self.num_heads:
            raise ValueError(f"num_heads={self.num_heads} does not divide model_dim={self.model_dim}. Or set head_dim")
        if self.num_heads % self.num_kv_heads:
            raise ValueError(f"num_kv_heads={self.num_kv_heads} does not divide num_heads={self.num_heads}")

    @property
    def positions(self) -> int | None:
        """The length of the longest input in tokens; None without a limit."""
        return shortest(self, self.attention)

    def build(self, vocab: int) -> "Llama":
        return Llama(self, vocab)


class RootMeanSquareResidual(nn.Module):
    """x + f(γ ⊙ x / √(mean x² + ε))

    Reference: Zhang and Sennrich 2019, equation 4.
    """

    def __init__(self, model_dim: int, *, epsilon: float, dropout: float) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(model_dim, eps=epsilon)
        self.dropout = dropout

    def forward(
        self, x: Float[Tensor, "*shape model_dim"], f: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "*shape model_dim"]:
        return add_dropped(x, f(self.norm(x)), self.dropout, self.training)


class LlamaBlock(nn.Module):
    """Masked self-attention, then a gated feed-forward layer. Works on tokens without padding."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(
            query_dim=config.model_dim,
            num_heads=config.num_heads,
            num_kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            bias=config.bias,
            dropout=config.attention_dropout,
            attention=config.attention,
            visibility=causal(),
        )
        self.feedforward = GatedFeedForward(config.model_dim, config.feedforward_dim)
        norms = (
            RootMeanSquareResidual(config.model_dim, epsilon=config.epsilon, dropout=config.dropout) for _ in range(2)
        )
        self.attention_residual, self.feedforward_residual = norms

    def forward(
        self, x: Float[Tensor, "tokens model_dim"], *, at: Positions, packing: Packing | None = None
    ) -> Float[Tensor, "tokens model_dim"]:
        x = self.attention_residual(x, lambda x: self.attention(x, at=at, packing=packing))
        return self.feedforward_residual(x, self.feedforward)


class Llama(CausalTransformer):
    """h⁰_t = E y_t;  h^l = Block_l(h^{l−1});  p(y_{t+1}) = softmax(E norm(h^L_t))

    Only queries and keys depend on the position: they are rotated by it. Attention is any mechanism of the algebra.

    Reference: Touvron et al. 2023, section 2.2; grouped heads of Ainslie et al. 2023, section 2.2.
    """

    def __init__(self, config: LlamaConfig, vocab: int) -> None:
        super().__init__(
            vocab, config.model_dim, num_layers=config.num_layers, tied=config.tied, dropout=config.dropout
        )
        self.config = config
        self.blocks = nn.ModuleList(LlamaBlock(config) for _ in range(config.num_layers))
        self.max_length = shortest(config, *(block.attention for block in self._layers))
        self.norm = nn.RMSNorm(config.model_dim, eps=config.epsilon)
        self._begin()
