"""Spellers are decoders whose encoder stands elsewhere: they attend to vectors and write one token after the other."""

from dataclasses import dataclass, replace
from typing import ClassVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.attention import (
    AnyMechanismConfig,
    AttentionConfig,
    LocationAwareConfig,
    Mechanism,
    Positions,
    padding,
)
from foveate.attention.check import require_positive, require_rates
from foveate.attention.mechanism import require_no_segments, shortest
from foveate.config.field import require_choices, setting
from foveate.data.batch import Batch
from foveate.models.recurrent import (
    Memory,
    RecurrentState,
    attend_in_turn,
    attend_row,
    attend_step,
    beam_queries,
    first_weights,
    joined_rows,
    padded,
    selected_rows,
    with_beam,
)
from foveate.models.seq2seq import Seq2Seq
from foveate.models.transformer import Transformer, TransformerConfig
from foveate.nn.clock import Clock
from foveate.nn.dropout import dropout
from foveate.nn.embed import Tokens, Vectors
from foveate.nn.multihead import KeyValue, MultiHeadAttention
from foveate.nn.packing import Packing
from foveate.nn.position_vector import PositionConfig, SinusoidalConfig
from foveate.nn.ran import RANEncoder
from foveate.nn.recurrent_layer import Cell, RecurrentConfig, RecurrentDecoder, StackState
from foveate.nn.transformer_block import BlockConfig


@dataclass(frozen=True, kw_only=True)
class SpellerConfig:
    """Recurrent layers that attend after each step: the decoder of Listen, Attend and Spell.

    The default score is that of Chorowski et al. 2015, which knows where the step before looked. Their sharpening is
    `attention.normaliser = { kind = "softmax", temperature = 0.5 }`.
    """

    kind: ClassVar[str] = "recurrent"
    embedding_dim: int = 64
    hidden_dim: int = 128
    num_layers: int = 1
    cell: Cell = "lstm"
    attention: AnyMechanismConfig = AttentionConfig(score=LocationAwareConfig(hidden_dim=128, width=31))
    num_heads: int = setting(1, "1: keys and values are the encoder's vectors; more: projected, one product a head")
    context_feeding: bool = setting(True, "pass the context to the next step; without it, training is faster")
    dropout: float = setting(0.1, "on embeddings, between layers and on the readout")

    def __post_init__(self) -> None:
        require_choices(self)
        sizes = {"embedding_dim": self.embedding_dim, "hidden_dim": self.hidden_dim}
        require_positive(**sizes, num_layers=self.num_layers, num_heads=self.num_heads)
        require_rates(dropout=self.dropout)
        require_no_segments(attention=self.attention)
        if getattr(getattr(self.attention, "normaliser", None), "learns_from_reward", False):
            raise ValueError(
                'attention.normaliser.mode cannot be "sample": a speller does not learn from rewards. Choose '
                '"straight_through" or "gumbel"'
            )

    @property
    def source_positions(self) -> int | None:
        """The largest number of vectors that it can attend to; None without a limit."""
        return shortest(self.attention)

    @property
    def target_positions(self) -> int | None:
        """Recurrent layers write transcripts of any length."""
        return None

    def build_for(self, memory_dim: int, vocab: int) -> "Speller":
        return Speller(self, memory_dim, vocab)


@dataclass(frozen=True, kw_only=True)
class TransformerSpellerConfig:
    """The decoder of a Transformer."""

    kind: ClassVar[str] = "transformer"
    block: BlockConfig = BlockConfig(model_dim=128, num_heads=4, feedforward_dim=512, norm="pre")
    num_layers: int = 2
    position: PositionConfig = SinusoidalConfig()

    def __post_init__(self) -> None:
        require_positive(num_layers=self.num_layers)

    @property
    def source_positions(self) -> int | None:
        """The largest number of vectors that it can attend to; None without a limit."""
        return shortest(self.block.cross_attention)

    @property
    def target_positions(self) -> int | None:
        """The length of the longest transcript in tokens; None without a limit."""
        return shortest(self.position, self.block.decoder_attention)

    def build_for(self, memory_dim: int, vocab: int) -> "TransformerSpeller":
        return TransformerSpeller(self, memory_dim, vocab)


AnySpellerConfig = SpellerConfig | TransformerSpellerConfig
"""The decoders of a recogniser that a configuration can select: "recurrent", "transformer"."""


@dataclass(frozen=True, eq=False)
class HeadedMemory(Memory):
    """A memory with the keys and values of several heads, projected once."""

    projected: KeyValue | None = None

    def select(self, sentences: Int[Tensor, " new_sentences"]) -> "HeadedMemory":
        selected = super().select(sentences)
        assert isinstance(selected, HeadedMemory)
        if self.projected is None:
            return selected
        return replace(selected, projected=KeyValue(*(part[sentences] for part in self.projected)))

    def joined(self, later: Memory) -> "HeadedMemory":
        both = super().joined(later)
        assert isinstance(both, HeadedMemory)
        if self.projected is None or not isinstance(later, HeadedMemory) or later.projected is None:
            return both
        pairs = zip(self.projected, later.projected, strict=True)
        return replace(both, projected=KeyValue(*(cast(Tensor, padded(*pair, axis=2)) for pair in pairs)))


class Speller(Seq2Seq[RecurrentState]):
    """s_i = LSTM(s_{i−1}, [E y_{i−1}; c_{i−1}]);  α_i = softmax_j score(s_i, h_j);  c_i = Σ_j α_ij h_j
    p(y_i | x, y_<i) = softmax(W tanh(U [s_i; c_i] + b))

    The source is a batch of vectors h. c_0 and s_0 are zeros. With several heads, c_i is their joint output, after
    projections of h.

    Reference: Chan et al. 2016, equations 6 to 11; Chorowski et al. 2015 for the score.
    """

    def __init__(self, config: SpellerConfig, memory_dim: int, vocab: int) -> None:
        super().__init__()
        hidden_dim, self.dropout = config.hidden_dim, config.dropout
        self.context_dim = memory_dim if config.num_heads == 1 else hidden_dim
        self.context_feeding = config.context_feeding
        self.target_embedding = Tokens(vocab).build(config.embedding_dim, deviation=0.1)
        stack = RecurrentConfig(
            cell=config.cell, hidden_dim=hidden_dim, num_layers=config.num_layers, dropout=config.dropout
        )
        width = config.embedding_dim + (self.context_dim if config.context_feeding else 0)
        self.decoder = RecurrentDecoder(stack, width)
        self.attention: Mechanism | None
        self.heads: MultiHeadAttention | None
        self.attention, self.heads = _attention(config, memory_dim)
        self.combine = nn.Linear(hidden_dim + self.context_dim, hidden_dim)
        self.output = nn.Linear(hidden_dim, vocab)

    def forward(self, source: Batch, target: Batch) -> Float[Tensor, "tokens vocab"]:
        length = target.ids.shape[1] - 1
        memory = self._remember(source, length)
        embedded = self._drop(self.target_embedding(target.ids[:, :-1]))
        forced = self._fed(embedded, memory) if self.context_feeding else self._parallel(embedded, memory)
        return self._logits(Packing(target.lengths - 1, length).pack(forced))

    def start(self, source: Batch, beam: int = 1) -> RecurrentState:
        memory = self._remember(source, 1)
        layers, feed = self._initial(memory)
        first = None if self.attention is None else first_weights(self.attention, memory)
        return with_beam(RecurrentState(memory, layers, feed, 1, Clock(), first), beam)

    def step(
        self, state: RecurrentState, token: Int[Tensor, " rows"]
    ) -> tuple[RecurrentState, Float[Tensor, "rows vocab"]]:
        embedded, previous = self.target_embedding(token), state.previous
        inputs = embedded if state.feed is None else torch.cat([embedded, state.feed], -1)
        hidden, layers = self.decoder.step(inputs, state.layers)
        if self.attention is not None:
            context, previous = attend_step(self.attention, hidden, state)
        else:
            grouped, at, _ = beam_queries(hidden, state)
            context = self._headed(grouped, state.memory, at).flatten(0, 1)
        feed = None if state.feed is None else context
        state = replace(state, layers=layers, feed=feed, clock=state.clock.ticked(), previous=previous)
        return state, self._logits(torch.cat([hidden, context], -1))

    def select(self, state: RecurrentState, rows: Int[Tensor, " new_rows"]) -> RecurrentState:
        return selected_rows(state, rows)

    def join(self, state: RecurrentState, later: RecurrentState) -> RecurrentState:
        return joined_rows(state, later)

    def _remember(self, source: Batch, queries: int) -> HeadedMemory:
        """The vectors as memory for `queries` steps, with what the attention makes of them alone."""
        at = replace(Positions.of(queries, source.length, key_lengths=source.lengths), zeroed=True)
        real = torch.arange(source.length, device=source.values.device) < source.lengths[:, None]
        hidden = torch.where(real[..., None], source.features, 0.0)
        if self.attention is not None:
            return HeadedMemory(hidden, at, (), self.attention.key_features(hidden[:, None]))
        assert self.heads is not None
        packing = Packing(source.lengths, source.length)
        return HeadedMemory(hidden, at, (), projected=self.heads.remember(packing.pack(hidden), packing=packing))

    def _initial(self, memory: Memory) -> tuple[StackState, Tensor | None]:
        rows = len(memory.hidden)
        feed = memory.hidden.new_zeros(rows, self.context_dim) if self.context_feeding else None
        return self.decoder.initial(memory.hidden, rows), feed

    def _fed(
        self, embedded: Float[Tensor, "batch length embedding_dim"], memory: Memory
    ) -> Float[Tensor, "batch length joined"]:
        layers, context = self._initial(memory)
        previous = None if self.attention is None else first_weights(self.attention, memory)
        joined = []
        for time, here in enumerate(embedded.unbind(1)):
            assert context is not None
            hidden, layers = self.decoder.step(torch.cat([here, context], -1), layers)
            if self.attention is not None:
                context, previous = attend_row(self.attention, hidden, memory, time, previous)
            else:
                context = self._headed(hidden[:, None], memory, memory.at.rows(slice(time, time + 1)))[:, 0]
            joined.append(torch.cat([hidden, context], -1))
        return torch.stack(joined, dim=1)

    def _parallel(
        self, embedded: Float[Tensor, "batch length embedding_dim"], memory: Memory
    ) -> Float[Tensor, "batch length joined"]:
        hidden = self.decoder(embedded, self._initial(memory)[0])
        if self.attention is not None:
            return torch.cat([hidden, attend_in_turn(self.attention, hidden, memory)], -1)
        return torch.cat([hidden, self._headed(hidden, memory, memory.at)], -1)

    def _headed(
        self, query: Float[Tensor, "sentences query hidden_dim"], memory: Memory, at: Positions
    ) -> Float[Tensor, "sentences query hidden_dim"]:
        assert self.heads is not None
        assert isinstance(memory, HeadedMemory)
        assert memory.projected is not None
        return self.heads.attend(self.heads.queries(query), memory.projected, at=at)

    def _logits(self, joined: Float[Tensor, "*shape joined"]) -> Float[Tensor, "*shape vocab"]:
        return self.output(self._drop(torch.tanh(self.combine(joined))))

    def _drop(self, x: Float[Tensor, "*shape dim"]) -> Float[Tensor, "*shape dim"]:
        return dropout(x, self.dropout, self.training)


class TransformerSpeller(Transformer):
    """The decoder of a `Transformer` over vectors, which are projected to its width and normalised."""

    def __init__(self, config: TransformerSpellerConfig, memory_dim: int, vocab: int) -> None:
        whole = TransformerConfig(block=config.block, decoder_layers=config.num_layers, position=config.position)
        super().__init__(whole, Vectors(memory_dim), vocab)

    @staticmethod
    def made_encoder(config: TransformerConfig) -> nn.ModuleList | RANEncoder:
        return nn.ModuleList()

    def encode(self, source: Batch) -> tuple[Float[Tensor, "tokens model_dim"], Packing]:
        packing = Packing(source.lengths, source.length)
        return self.encoder_norm(self.source_embedding(packing.pack(source.features))), packing


def _attention(config: SpellerConfig, memory_dim: int) -> tuple[Mechanism | None, MultiHeadAttention | None]:
    """The attention with one head, or that with several."""
    sizes = {"query_dim": config.hidden_dim, "key_dim": memory_dim}
    if config.num_heads == 1:
        return config.attention.build(**sizes, visibility=padding(), kind="cross"), None
    heads = MultiHeadAttention(
        **sizes,
        num_heads=config.num_heads,
        bias=True,
        attention=config.attention,
        visibility=padding(),
        kind="cross",
    )
    return None, heads
