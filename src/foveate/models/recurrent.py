"""What the recurrent encoder–decoders share: embeddings, an encoder, and an explicit state."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.attention import Mechanism, Positions
from foveate.data.batch import Batch
from foveate.models.seq2seq import Seq2Seq, selected_sentences
from foveate.nn.dropout import dropout
from foveate.nn.recurrent import RecurrentEncoder, StackState


@dataclass(frozen=True, eq=False)
class Memory:
    """What a decoder reads: one hidden vector h_i per source token."""

    hidden: Float[Tensor, "sentences key key_dim"]
    at: Positions
    final: StackState
    features: Float[Tensor, "sentences 1 key feature"] | None = None
    """The score's part that depends on the keys alone, computed once per sentence."""

    def select(self, sentences: Int[Tensor, " new_sentences"]) -> "Memory":
        return replace(
            self,
            hidden=self.hidden[sentences],
            at=self.at.select(sentences),
            final=(),
            features=None if self.features is None else self.features[sentences],
        )


@dataclass(frozen=True, eq=False)
class RecurrentState:
    """A decoder between two words."""

    memory: Memory
    layers: StackState
    """Rows of every layer's state."""
    feed: Float[Tensor, "rows feed_dim"] | None
    """What the last step hands to the next beside the state: Luong's h̃ when inputs are fed."""
    beam: int
    time: int


class RecurrentSeq2Seq(Seq2Seq[RecurrentState]):
    """An encoder over source embeddings and a decoder that advances one word at a time."""

    def __init__(
        self, source_vocab: int, target_vocab: int, embedding_dim: int, dropout: float, encoder: RecurrentEncoder
    ) -> None:
        super().__init__()
        self.source_embedding = nn.Embedding(source_vocab, embedding_dim)
        self.target_embedding = nn.Embedding(target_vocab, embedding_dim)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=0.1)
        self.encoder = encoder
        self.dropout = dropout

    def encode(self, source: Batch, queries: int = 1) -> Memory:
        """Read the sources; `queries` is how many decoder positions will look at them."""
        hidden, final = self.encoder(self.drop(self.source_embedding(source.ids)), source.lengths)
        at = Positions.of(queries, source.ids.shape[1], key_lengths=source.lengths)
        return Memory(hidden, replace(at, zeroed=True), final)  # the encoder's outputs are zero at padding

    def drop(self, x: Float[Tensor, "*shape dim"]) -> Float[Tensor, "*shape dim"]:
        return dropout(x, self.dropout, self.training)

    def start(self, source: Batch, beam: int = 1) -> RecurrentState:
        memory = self.remember(self.encode(source))
        layers, feed = self.initial(memory)
        state = RecurrentState(memory, layers, feed, 1, 0)
        if beam == 1:
            return state
        rows = torch.arange(source.size, device=source.ids.device).repeat_interleave(beam)
        return replace(_rows(state, rows), beam=beam)

    def select(self, state: RecurrentState, rows: Int[Tensor, " new_rows"]) -> RecurrentState:
        sentences = selected_sentences(rows, state.beam, len(state.memory.hidden))
        memory = state.memory if sentences is None else state.memory.select(sentences)
        return replace(_rows(state, rows), memory=memory)

    def remember(self, memory: Memory) -> Memory:
        """Add what the score can compute from the keys alone; nothing where nothing attends."""
        return memory

    def initial(self, memory: Memory) -> tuple[StackState, Tensor | None]:
        """The decoder's state before the first word."""
        raise NotImplementedError


def attend(
    attention: Mechanism,
    query: Float[Tensor, "sentences query query_dim"],
    memory: Memory,
    at: Positions,
) -> Float[Tensor, "sentences query key_dim"]:
    """c_t = Σ_i α_ti h_i: keys and values are both the memory, with one head."""
    hidden = memory.hidden[:, None]
    return attention.run(query[:, None], hidden, hidden, at=at, key_features=memory.features)[:, 0]


def attend_step(
    attention: Mechanism, query: Float[Tensor, "rows query_dim"], state: RecurrentState
) -> Float[Tensor, "rows key_dim"]:
    """The same for one decoding step: the hypotheses of a sentence are queries to one memory, which is not copied."""
    memory = state.memory
    grouped = query.view(-1, state.beam, query.shape[-1])
    now = torch.full((1, 1, state.beam, 1), state.time, device=query.device)
    return attend(attention, grouped, memory, replace(memory.at, query=now, aligned=False)).flatten(0, 1)


def _rows(state: RecurrentState, rows: Int[Tensor, " new_rows"]) -> RecurrentState:
    layers = tuple(tuple(part[rows] for part in layer) for layer in state.layers)
    return replace(state, layers=layers, feed=None if state.feed is None else state.feed[rows])
