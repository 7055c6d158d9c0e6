"""Global attention after the step, with input feeding: Luong, Pham and Manning 2015."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.attention import AnyMechanismConfig, AttentionConfig, GeneralConfig, padding
from foveate.attention.check import require_positive, require_rates
from foveate.attention.mechanism import require_no_segments, shortest
from foveate.config import require_choices
from foveate.data.batch import Batch
from foveate.models.fixed_context import direction_dim
from foveate.models.recurrent import Memory, RecurrentSeq2Seq, RecurrentState, attend_in_turn, attend_row, attend_step
from foveate.nn.embed import Input
from foveate.nn.packing import Packing
from foveate.nn.recurrent_layer import Cell, RecurrentConfig, RecurrentDecoder, RecurrentEncoder, StackState


@dataclass(frozen=True, kw_only=True)
class LuongConfig:
    """Stacked recurrent layers; attention with the score "dot", "general" or "additive" (the paper's "concat")."""

    embedding_dim: int = 256
    hidden_dim: int = 256
    """The width of the decoder, and of the encoder with all directions."""
    num_layers: int = 1
    cell: Cell = "lstm"
    bidirectional: bool = False
    """Whether the encoder also reads backwards; the paper's reads forwards only."""
    attention: AnyMechanismConfig = AttentionConfig(score=GeneralConfig())
    input_feeding: bool = True
    """Pass h̃ to the next step. Without it, all target positions are computed at once, and training is faster."""
    skip: bool = False
    layer_norm: bool = False
    dropout: float = 0.1

    def __post_init__(self) -> None:
        require_choices(self)
        require_positive(embedding_dim=self.embedding_dim, hidden_dim=self.hidden_dim, num_layers=self.num_layers)
        require_rates(dropout=self.dropout)
        require_no_segments(attention=self.attention)

    @classmethod
    def paper(cls) -> "LuongConfig":
        """Four layers of 1000 units with dropout 0.2 and input feeding."""
        return cls(embedding_dim=1000, hidden_dim=1000, num_layers=4, dropout=0.2)

    @property
    def positions(self) -> int | None:
        """The length of the longest side in tokens; None without a limit."""
        return shortest(self.attention)

    def build(self, source_vocab: int | Input, target_vocab: int) -> "Luong":
        return Luong(self, source_vocab, target_vocab)


class Luong(RecurrentSeq2Seq):
    """h_t = LSTM(h_{t−1}, [E y_{t−1}; h̃_{t−1}]);  a_t = softmax(score(h_t, h̄_s));  c_t = Σ_s a_ts h̄_s
    h̃_t = tanh(W_c [c_t; h_t]);  p(y_t) = softmax(W_s h̃_t)

    The score sees the state *after* the step. Reference: Luong et al. 2015, equations 5–8 and section 3.3.
    """

    def __init__(self, config: LuongConfig, source_vocab: int | Input, target_vocab: int) -> None:
        stack = RecurrentConfig(
            cell=config.cell,
            hidden_dim=config.hidden_dim,
            num_layers=config.num_layers,
            skip=config.skip,
            layer_norm=config.layer_norm,
            dropout=config.dropout,
        )
        hidden_dim = config.hidden_dim
        encoder = RecurrentEncoder(
            replace(stack, hidden_dim=direction_dim(hidden_dim, config.bidirectional)),
            config.embedding_dim,
            bidirectional=config.bidirectional,
        )
        super().__init__(source_vocab, target_vocab, config.embedding_dim, config.dropout, encoder)
        self.input_feeding = config.input_feeding
        self.decoder = RecurrentDecoder(stack, config.embedding_dim + (hidden_dim if config.input_feeding else 0))
        attention = config.attention.build(query_dim=hidden_dim, key_dim=hidden_dim, visibility=padding(), kind="cross")
        self.attend_by(attention)
        self.combine = nn.Linear(2 * hidden_dim, hidden_dim, bias=False)
        self.output = nn.Linear(hidden_dim, target_vocab, bias=False)

    def forward(self, source: Batch, target: Batch) -> Float[Tensor, "tokens vocab"]:
        length = target.ids.shape[1] - 1
        memory = self.remember(self.encode(source, length))
        embedded = self.drop(self.target_embedding(target.ids[:, :-1]))
        forced = self._fed(embedded, memory) if self.input_feeding else self._parallel(embedded, memory)
        packing = Packing(target.lengths - 1, length)
        return self.output(self.drop(packing.pack(forced)))

    def _fed(
        self, embedded: Float[Tensor, "batch length embedding_dim"], memory: Memory
    ) -> Float[Tensor, "batch length hidden_dim"]:
        layers, feed = self.initial(memory)
        assert feed is not None
        attentional, previous = [], self.first_weights(memory)
        for time, here in enumerate(embedded.unbind(1)):
            hidden, layers = self.decoder.step(torch.cat([here, feed], -1), layers)
            context, previous = attend_row(self.attention, hidden, memory, time, previous)
            feed = self._attentional(context, hidden)
            attentional.append(feed)
        return torch.stack(attentional, dim=1)

    def _parallel(
        self, embedded: Float[Tensor, "batch length embedding_dim"], memory: Memory
    ) -> Float[Tensor, "batch length hidden_dim"]:
        hidden = self.decoder(embedded, self.initial(memory)[0])
        return self._attentional(attend_in_turn(self.attention, hidden, memory), hidden)

    def _attentional(
        self, context: Float[Tensor, "*shape hidden_dim"], hidden: Float[Tensor, "*shape hidden_dim"]
    ) -> Float[Tensor, "*shape hidden_dim"]:
        return torch.tanh(self.combine(torch.cat([context, hidden], -1)))

    def remember(self, memory: Memory) -> Memory:
        return replace(memory, features=self.attention.key_features(memory.hidden[:, None]))

    def initial(self, memory: Memory) -> tuple[StackState, Tensor | None]:
        feed = memory.hidden.new_zeros(len(memory.hidden), memory.hidden.shape[-1]) if self.input_feeding else None
        return memory.final, feed

    def step(
        self, state: RecurrentState, token: Int[Tensor, " rows"]
    ) -> tuple[RecurrentState, Float[Tensor, "rows vocab"]]:
        embedded = self.target_embedding(token)
        inputs = embedded if state.feed is None else torch.cat([embedded, state.feed], -1)
        hidden, layers = self.decoder.step(inputs, state.layers)
        context, previous = attend_step(self.attention, hidden, state)
        attentional = self._attentional(context, hidden)
        feed = attentional if self.input_feeding else None
        state = replace(state, layers=layers, feed=feed, clock=state.clock.ticked(), previous=previous)
        return state, self.output(attentional)
