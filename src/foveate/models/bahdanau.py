"""The model that introduced attention: Bahdanau, Cho and Bengio 2015."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.attention import AdditiveConfig, AnyMechanismConfig, AttentionConfig, padding
from foveate.attention.check import require_positive, require_rates
from foveate.attention.mechanism import require_no_segments, shortest
from foveate.config import require_choices
from foveate.data.batch import Batch
from foveate.models.recurrent import Memory, RecurrentSeq2Seq, RecurrentState, attend_row, attend_step
from foveate.nn.embed import Input
from foveate.nn.packing import Packing
from foveate.nn.recurrent_layer import Cell, RecurrentConfig, RecurrentEncoder, RecurrentLayer, StackState


@dataclass(frozen=True, kw_only=True)
class BahdanauConfig:
    """Bidirectional encoder, additive attention, maxout readout."""

    embedding_dim: int = 256
    hidden_dim: int = 256
    """The width of the decoder, and of each direction of the encoder."""
    encoder_layers: int = 1
    maxout_dim: int = 256
    cell: Cell = "gru"
    """"lecture_gru" is the paper's cell; "gru" is torch's, and faster."""
    attention: AnyMechanismConfig = AttentionConfig(score=AdditiveConfig())
    dropout: float = 0.1

    def __post_init__(self) -> None:
        require_choices(self)
        require_positive(
            embedding_dim=self.embedding_dim,
            hidden_dim=self.hidden_dim,
            encoder_layers=self.encoder_layers,
            maxout_dim=self.maxout_dim,
        )
        require_rates(dropout=self.dropout)
        require_no_segments(attention=self.attention)

    @classmethod
    def paper(cls) -> "BahdanauConfig":
        """RNNsearch as published: 620-dimensional embeddings, 1000 hidden units, 500 maxout units."""
        return cls(
            embedding_dim=620,
            hidden_dim=1000,
            maxout_dim=500,
            cell="lecture_gru",
            attention=AttentionConfig(score=AdditiveConfig(hidden_dim=1000)),
            dropout=0.0,
        )

    @property
    def positions(self) -> int | None:
        """The length of the longest side in tokens; None without a limit."""
        return shortest(self.attention)

    def build(self, source_vocab: int | Input, target_vocab: int) -> "Bahdanau":
        return Bahdanau(self, source_vocab, target_vocab)


class Bahdanau(RecurrentSeq2Seq):
    """h_j = [→h_j; ←h_j];  s_0 = tanh(W_s ←h_1)
    e_ij = score(s_{i−1}, h_j);  α_i = softmax(e_i);  c_i = Σ_j α_ij h_j
    s_i = GRU(s_{i−1}, [E y_{i−1}; c_i]);  t̃_i = U s_{i−1} + V E y_{i−1} + C c_i
    p(y_i) = softmax(W max_pairs(t̃_i))

    The score sees the state *before* the step (the lectures write both s_{t−1} and s_t), and W_k h_j is computed once
    per sentence. Reference: Bahdanau et al. 2015, appendix A; equations of A.2.2 for the decoder.
    """

    def __init__(self, config: BahdanauConfig, source_vocab: int | Input, target_vocab: int) -> None:
        stack = RecurrentConfig(
            cell=config.cell, hidden_dim=config.hidden_dim, num_layers=config.encoder_layers, dropout=config.dropout
        )
        encoder = RecurrentEncoder(stack, config.embedding_dim, bidirectional=True)
        super().__init__(source_vocab, target_vocab, config.embedding_dim, config.dropout, encoder)
        hidden_dim, memory_dim = config.hidden_dim, encoder.output_dim
        self.bridge = nn.Linear(hidden_dim, hidden_dim)
        attention = config.attention.build(query_dim=hidden_dim, key_dim=memory_dim, visibility=padding(), kind="cross")
        self.attend_by(attention)
        self.decoder = RecurrentLayer(config.cell, config.embedding_dim + memory_dim, hidden_dim)
        self.readout = nn.Linear(hidden_dim + config.embedding_dim + memory_dim, 2 * config.maxout_dim)
        self.output = nn.Linear(config.maxout_dim, target_vocab)

    def forward(self, source: Batch, target: Batch) -> Float[Tensor, "tokens vocab"]:
        length = target.ids.shape[1] - 1
        memory = self.remember(self.encode(source, length))
        (state,), _ = self.initial(memory)
        embedded = self.drop(self.target_embedding(target.ids[:, :-1]))
        before, contexts, previous = [], [], self.first_weights(memory)
        for time, here in enumerate(embedded.unbind(1)):
            context, previous = attend_row(self.attention, state[0], memory, time, previous)
            before.append(state[0])
            contexts.append(context)
            state = self.decoder.step(torch.cat([here, context], -1), state)
        packing = Packing(target.lengths - 1, length)
        parts = (torch.stack(before, 1), embedded, torch.stack(contexts, 1))
        return self.logits(*(packing.pack(part) for part in parts))

    def logits(
        self,
        state: Float[Tensor, "tokens hidden_dim"],
        embedded: Float[Tensor, "tokens embedding_dim"],
        context: Float[Tensor, "tokens memory_dim"],
    ) -> Float[Tensor, "tokens vocab"]:
        """The deep output with its maxout layer."""
        pairs = self.readout(torch.cat([state, embedded, context], -1)).unflatten(-1, (-1, 2))
        return self.output(self.drop(pairs.amax(-1)))

    def remember(self, memory: Memory) -> Memory:
        return replace(memory, features=self.attention.key_features(memory.hidden[:, None]))

    def initial(self, memory: Memory) -> tuple[StackState, Tensor | None]:
        last = memory.final[-1]
        backward = last[0][:, last[0].shape[-1] // 2 :]
        start = torch.tanh(self.bridge(backward))
        return ((start,) * len(last),), None

    def step(
        self, state: RecurrentState, token: Int[Tensor, " rows"]
    ) -> tuple[RecurrentState, Float[Tensor, "rows vocab"]]:
        embedded = self.target_embedding(token)
        before = state.layers[0][0]
        context, previous = attend_step(self.attention, before, state)
        layer = self.decoder.step(torch.cat([embedded, context], -1), state.layers[0])
        logits = self.logits(before, embedded, context)
        return replace(state, layers=(layer,), clock=state.clock.ticked(), previous=previous), logits
