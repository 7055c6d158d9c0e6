"""The encoder–decoder without attention, whose decoder receives the source as one vector."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.attention.check import require_positive, require_rates
from foveate.config import require_choices
from foveate.data.batch import Batch
from foveate.models.recurrent import Memory, RecurrentSeq2Seq, RecurrentState
from foveate.nn.embed import Input
from foveate.nn.packing import Packing
from foveate.nn.recurrent_layer import Cell, RecurrentConfig, RecurrentDecoder, RecurrentEncoder, StackState


@dataclass(frozen=True, kw_only=True)
class FixedContextConfig:
    """Encoder–decoder whose context C is the encoder's last hidden state."""

    embedding_dim: int = 256
    hidden_dim: int = 256
    """The width of the decoder, and of the encoder with both directions."""
    num_layers: int = 1
    cell: Cell = "gru"
    bidirectional: bool = True
    skip: bool = False
    layer_norm: bool = False
    dropout: float = 0.1

    def __post_init__(self) -> None:
        require_choices(self)
        require_positive(embedding_dim=self.embedding_dim, hidden_dim=self.hidden_dim, num_layers=self.num_layers)
        require_rates(dropout=self.dropout)

    def build(self, source_vocab: int | Input, target_vocab: int) -> "FixedContext":
        return FixedContext(self, source_vocab, target_vocab)


class FixedContext(RecurrentSeq2Seq):
    """h_t = f(x_t, h_{t−1});  C = h_T;  s_0 = tanh(W C);  s_t = g([E y_{t−1}; C], s_{t−1})

    Sutskever et al. 2014 and Cho et al. 2014: the bottleneck that attention removes. C is fed at every step, as the
    lectures write s_t = g(y_{t−1}, s_{t−1}, C).
    """

    def __init__(self, config: FixedContextConfig, source_vocab: int | Input, target_vocab: int) -> None:
        stack = RecurrentConfig(
            cell=config.cell,
            hidden_dim=config.hidden_dim,
            num_layers=config.num_layers,
            skip=config.skip,
            layer_norm=config.layer_norm,
            dropout=config.dropout,
        )
        encoder = RecurrentEncoder(
            replace(stack, hidden_dim=direction_dim(config.hidden_dim, config.bidirectional)),
            config.embedding_dim,
            bidirectional=config.bidirectional,
            norm_last=False,
        )
        super().__init__(source_vocab, target_vocab, config.embedding_dim, config.dropout, encoder)
        self.bridge = nn.Linear(config.hidden_dim, config.hidden_dim)
        self.decoder = RecurrentDecoder(stack, config.embedding_dim + config.hidden_dim)
        self.output = nn.Linear(config.hidden_dim, target_vocab)
        last = f"encoder.after.norms.{config.num_layers - 1}"
        self.retired = (f"{last}.weight", f"{last}.bias") if config.layer_norm else ()
        """Weights that earlier versions saved, although nothing uses the norm after the encoder's last layer."""

    def forward(self, source: Batch, target: Batch) -> Float[Tensor, "tokens vocab"]:
        memory = self.encode(source)
        layers, context = self.initial(memory)
        assert context is not None
        embedded = self.drop(self.target_embedding(target.ids[:, :-1]))
        inputs = torch.cat([embedded, context[:, None].expand(-1, embedded.shape[1], -1)], dim=-1)
        hidden = self.decoder(inputs, layers)
        packing = Packing(target.lengths - 1, hidden.shape[1])
        return self.output(self.drop(packing.pack(hidden)))

    def initial(self, memory: Memory) -> tuple[StackState, Tensor | None]:
        context = memory.final[-1][0]
        start = torch.tanh(self.bridge(context))
        return tuple((start,) * len(memory.final[0]) for _ in memory.final), context

    def step(
        self, state: RecurrentState, token: Int[Tensor, " rows"]
    ) -> tuple[RecurrentState, Float[Tensor, "rows vocab"]]:
        assert state.feed is not None
        hidden, layers = self.decoder.step(torch.cat([self.target_embedding(token), state.feed], -1), state.layers)
        return replace(state, layers=layers, clock=state.clock.ticked()), self.output(hidden)


def direction_dim(hidden_dim: int, bidirectional: bool) -> int:
    """The width of each direction of an encoder."""
    if bidirectional and hidden_dim % 2:
        raise ValueError(f"hidden_dim={hidden_dim} must be even to be shared by two directions.")
    return hidden_dim // 2 if bidirectional else hidden_dim
