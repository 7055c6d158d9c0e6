"""What the recurrent encoder–decoders share: embeddings, an encoder, and an explicit state."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.attention import Attention, Mechanism, Positions, Reinforce, choices
from foveate.attention.claim import restriction
from foveate.attention.mechanism import shortest
from foveate.attention.normaliser import Choice
from foveate.attention.score import FeedbackScore
from foveate.data.batch import Batch
from foveate.models.seq2seq import Seq2Seq, selected_sentences
from foveate.nn.dropout import dropout
from foveate.nn.embed import Input, Tokens, embed, input_of
from foveate.nn.loss import cross_entropy
from foveate.nn.recurrent_layer import RecurrentEncoder, StackState


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
    previous: Float[Tensor, "rows key"] | None = None
    """The weights of the last step, where the score looks at them."""


class RecurrentSeq2Seq(Seq2Seq[RecurrentState]):
    """An encoder over source embeddings and a decoder that advances one word at a time."""

    def __init__(
        self,
        source_vocab: int | Input,
        target_vocab: int,
        embedding_dim: int,
        dropout: float,
        encoder: RecurrentEncoder,
    ) -> None:
        super().__init__()
        self.input = input_of(source_vocab)
        self.source_embedding: Any = self.input.build(embedding_dim)
        self.target_embedding = Tokens(target_vocab).build(embedding_dim)
        for embedding in (self.source_embedding, self.target_embedding):
            if isinstance(embedding, nn.Embedding):
                nn.init.normal_(embedding.weight, std=0.1)
        self.encoder = encoder
        self.dropout = dropout
        self.reinforce: Reinforce | None = None

    def attend_by(self, attention: Mechanism) -> None:
        """Take an attention; one that draws what it looks at brings its way of learning with it."""
        assert isinstance(attention, nn.Module)
        self.attention: Mechanism = attention
        self.max_length = shortest(attention)
        normaliser = getattr(attention, "normaliser", None)
        if normaliser is not None and restriction(normaliser, "learns_from_reward"):
            self.reinforce = Reinforce(reward_weight=normaliser.reward_weight, entropy_weight=normaliser.entropy_weight)

    def encode(self, source: Batch, queries: int = 1) -> Memory:
        """Read the sources; `queries` is how many decoder positions will look at them."""
        embedded = embed(self.source_embedding, source.values, source.places)
        hidden, final = self.encoder(self.drop(embedded), source.lengths)
        at = Positions.of(queries, source.length, key_lengths=source.lengths)
        return Memory(hidden, replace(at, zeroed=True), final)  # the encoder's outputs are zero at padding

    def loss(self, source: Batch, target: Batch, *, label_smoothing: float = 0.0) -> Float[Tensor, ""]:
        """Cross-entropy; where attention draws what it looks at, also what teaches it to draw well."""
        if self.reinforce is None or not self.training:
            return super().loss(source, target, label_smoothing=label_smoothing)
        with choices() as samples:
            logits = self(source, target)
        predicted = self.predicted(target)
        earned = torch.stack([-cross_entropy(*words) for words in _by_sentence(logits, predicted, target)])
        spoken = torch.arange(target.ids.shape[1] - 1, device=logits.device) < target.lengths[:, None] - 1
        drawn = Choice(*(torch.cat(parts, -1) * spoken[:, None] for parts in zip(*samples, strict=True)))
        taught = self.reinforce(earned.detach(), [drawn])
        return cross_entropy(logits, predicted, label_smoothing=label_smoothing) + taught

    def drop(self, x: Float[Tensor, "*shape dim"]) -> Float[Tensor, "*shape dim"]:
        return dropout(x, self.dropout, self.training)

    def start(self, source: Batch, beam: int = 1) -> RecurrentState:
        memory = self.remember(self.encode(source))
        layers, feed = self.initial(memory)
        state = RecurrentState(memory, layers, feed, 1, 0, self.first_weights(memory))
        if beam == 1:
            return state
        rows = torch.arange(source.size, device=source.values.device).repeat_interleave(beam)
        return replace(_rows(state, rows), beam=beam)

    def select(self, state: RecurrentState, rows: Int[Tensor, " new_rows"]) -> RecurrentState:
        sentences = selected_sentences(rows, state.beam, len(state.memory.hidden))
        memory = state.memory if sentences is None else state.memory.select(sentences)
        return replace(_rows(state, rows), memory=memory)

    def remember(self, memory: Memory) -> Memory:
        """Add what the score can compute from the keys alone; nothing where nothing attends."""
        return memory

    def first_weights(self, memory: Memory) -> Float[Tensor, "sentences key"] | None:
        """What stands for the weights before the first step, where the score looks at them."""
        return first_weights(getattr(self, "attention", None), memory)

    def initial(self, memory: Memory) -> tuple[StackState, Tensor | None]:
        """The decoder's state before the first word."""
        raise NotImplementedError


def first_weights(attention: nn.Module | None, memory: Memory) -> Float[Tensor, "sentences key"] | None:
    """The weights before the first step; None where no score looks at them, and steps may be taken all at once."""
    score = getattr(attention, "score", None)
    if not isinstance(score, FeedbackScore):
        return None
    return score.first(memory.at).expand(len(memory.hidden), 1, 1, -1)[:, 0, 0].to(memory.hidden.dtype)


def attend(
    attention: Mechanism,
    query: Float[Tensor, "sentences query query_dim"],
    memory: Memory,
    at: Positions,
    previous: Float[Tensor, "sentences query key"] | None = None,
) -> tuple[Float[Tensor, "sentences query key_dim"], Float[Tensor, "sentences query key"] | None]:
    """c_t = Σ_i α_ti h_i: keys and values are both the memory, with one head. With weights of the step before, also
    the weights.
    """
    hidden, queries = memory.hidden[:, None], query[:, None]
    if previous is None:
        return attention.run(queries, hidden, hidden, at=at, key_features=memory.features)[:, 0], None
    assert isinstance(attention, Attention)
    at = replace(at, previous=previous[:, None])
    context, weights = attention.step(queries, hidden, hidden, at=at, key_features=memory.features)
    return context[:, 0], weights[:, 0]


def attend_row(
    attention: Mechanism,
    query: Float[Tensor, "sentences query_dim"],
    memory: Memory,
    time: int,
    previous: Float[Tensor, "sentences key"] | None,
) -> tuple[Float[Tensor, "sentences key_dim"], Float[Tensor, "sentences key"] | None]:
    """The same for the query at one time."""
    before = None if previous is None else previous[:, None]
    context, weights = attend(attention, query[:, None], memory, memory.at.rows(slice(time, time + 1)), before)
    return context[:, 0], None if weights is None else weights[:, 0]


def attend_in_turn(
    attention: Mechanism, query: Float[Tensor, "sentences query query_dim"], memory: Memory
) -> Float[Tensor, "sentences query key_dim"]:
    """All queries at once, unless the score looks at the weights of the step before: then one after the other."""
    assert isinstance(attention, nn.Module)
    previous, contexts = first_weights(attention, memory), []
    if previous is None:
        return attend(attention, query, memory, memory.at)[0]
    for time, now in enumerate(query.unbind(1)):
        context, previous = attend_row(attention, now, memory, time, previous)
        contexts.append(context)
    return torch.stack(contexts, dim=1)


def attend_step(
    attention: Mechanism, query: Float[Tensor, "rows query_dim"], state: RecurrentState
) -> tuple[Float[Tensor, "rows key_dim"], Float[Tensor, "rows key"] | None]:
    """The same for one decoding step: the hypotheses of a sentence are queries to one memory, which is not copied."""
    memory = state.memory
    grouped = query.view(-1, state.beam, query.shape[-1])
    previous = None if state.previous is None else state.previous.unflatten(0, (-1, state.beam))
    now = torch.full((1, 1, state.beam, 1), state.time, device=query.device)
    at = replace(memory.at, query=now, aligned=False)
    context, weights = attend(attention, grouped, memory, at, previous)
    return context.flatten(0, 1), None if weights is None else weights.flatten(0, 1)


def _by_sentence(
    logits: Float[Tensor, "tokens vocab"], predicted: Int[Tensor, " tokens"], target: Batch
) -> Iterator[tuple[Tensor, Tensor]]:
    lengths = (target.lengths - 1).tolist()
    return zip(logits.split(lengths), predicted.split(lengths), strict=True)


def _rows(state: RecurrentState, rows: Int[Tensor, " new_rows"]) -> RecurrentState:
    layers = tuple(tuple(part[rows] for part in layer) for layer in state.layers)
    feed, previous = (None if part is None else part[rows] for part in (state.feed, state.previous))
    return replace(state, layers=layers, feed=feed, previous=previous)
