"""The common base of the recurrent encoder–decoders: embeddings, an encoder, and an explicit state."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad

from foveate.attention import Attention, Mechanism, Positions, Reinforce, choices
from foveate.attention.claim import restriction
from foveate.attention.mechanism import shortest
from foveate.attention.normaliser import Choice
from foveate.attention.score import FeedbackScore
from foveate.data.batch import Batch
from foveate.models.seq2seq import Seq2Seq, selected_sentences
from foveate.nn.clock import Clock
from foveate.nn.dropout import dropout
from foveate.nn.embed import Input, Tokens, embed, input_of
from foveate.nn.loss import cross_entropy
from foveate.nn.recurrent_layer import RecurrentEncoder, StackState, joined_layers


@dataclass(frozen=True, eq=False)
class Memory:
    """The input of a decoder: one hidden vector h_i per source token."""

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

    def joined(self, later: "Memory") -> "Memory":
        """The memory of both batches' sentences."""
        lengths = torch.cat([each.at.key_lengths.expand(len(each.hidden), 1, 1, 1) for each in (self, later)])
        hidden = padded(self.hidden, later.hidden)
        assert hidden is not None
        at = Positions.of(1, hidden.shape[1], key_lengths=lengths.flatten())
        features = padded(self.features, later.features, axis=2)
        return replace(self, hidden=hidden, at=replace(at, zeroed=True), final=(), features=features)


@dataclass(frozen=True, eq=False)
class RecurrentState:
    """The state of a decoder between two words."""

    memory: Memory
    layers: StackState
    """The state of every layer, one row per hypothesis."""
    feed: Float[Tensor, "rows feed_dim"] | None
    """Luong's h̃ of the last step, with input feeding."""
    beam: int
    clock: Clock
    previous: Float[Tensor, "rows key"] | None = None
    """The weights of the last step, if the score depends on them."""


AnyState = TypeVar("AnyState", bound=RecurrentState)


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
        """Set the attention. A normaliser that samples also sets `reinforce`, which trains it."""
        assert isinstance(attention, nn.Module)
        self.attention: Mechanism = attention
        self.max_length = shortest(attention)
        self.reinforce = reinforce_for(attention)

    def encode(self, source: Batch, queries: int = 1) -> Memory:
        """Encode the sources for `queries` decoder positions."""
        embedded = embed(self.source_embedding, source.values, source.places)
        hidden, final = self.encoder(self.drop(embedded), source.lengths)
        at = Positions.of(queries, source.length, key_lengths=source.lengths)
        return Memory(hidden, replace(at, zeroed=True), final)  # the encoder's outputs are zero at padding

    def loss(self, source: Batch, target: Batch, *, label_smoothing: float = 0.0) -> Float[Tensor, ""]:
        """Cross-entropy; for attention with sampled positions, also the loss that trains the sampling."""
        if self.reinforce is None or not self.training:
            return super().loss(source, target, label_smoothing=label_smoothing)
        with choices() as samples:
            logits = self(source, target)
        loss = cross_entropy(logits, self.predicted(target), label_smoothing=label_smoothing)
        return loss + reinforcement(self.reinforce, samples, logits, target)

    def drop(self, x: Float[Tensor, "*shape dim"]) -> Float[Tensor, "*shape dim"]:
        return dropout(x, self.dropout, self.training)

    def start(self, source: Batch, beam: int = 1) -> RecurrentState:
        memory = self.remember(self.encode(source))
        layers, feed = self.initial(memory)
        return with_beam(RecurrentState(memory, layers, feed, 1, Clock(), self.first_weights(memory)), beam)

    def select(self, state: RecurrentState, rows: Int[Tensor, " new_rows"]) -> RecurrentState:
        return selected_rows(state, rows)

    def join(self, state: RecurrentState, later: RecurrentState) -> RecurrentState:
        return joined_rows(state, later)

    def remember(self, memory: Memory) -> Memory:
        """Add the part of the score that depends on the keys alone, if the model has attention."""
        return memory

    def first_weights(self, memory: Memory) -> Float[Tensor, "sentences key"] | None:
        """The weights before the first step, if the score depends on them."""
        return first_weights(getattr(self, "attention", None), memory)

    def initial(self, memory: Memory) -> tuple[StackState, Tensor | None]:
        """The decoder's state before the first word."""
        raise NotImplementedError


def with_beam(state: AnyState, beam: int) -> AnyState:
    """A state with one row per sentence, repeated for `beam` hypotheses of each."""
    if beam == 1:
        return state
    hidden = state.memory.hidden
    rows = torch.arange(len(hidden), device=hidden.device).repeat_interleave(beam)
    return replace(_rows(state, rows), beam=beam)


def selected_rows(state: AnyState, rows: Int[Tensor, " new_rows"]) -> AnyState:
    """The state of the selected rows, and the memory of their sentences."""
    sentences = selected_sentences(rows, state.beam, len(state.memory.hidden))
    memory = state.memory if sentences is None else state.memory.select(sentences)
    return replace(_rows(state, rows), memory=memory)


def joined_rows(state: AnyState, later: AnyState) -> AnyState:
    """The rows of both states, with the memories of both.

    Raises ValueError for states with another number of rows for each sentence.
    """
    if state.beam != later.beam:
        raise ValueError(f"States with {state.beam} and {later.beam} rows for each sentence cannot be joined.")
    rows = (len(state.layers[0][0]), len(later.layers[0][0]))
    return replace(
        state,
        memory=state.memory.joined(later.memory),
        layers=joined_layers(state.layers, later.layers),
        feed=padded(state.feed, later.feed),
        previous=padded(state.previous, later.previous),
        clock=state.clock.joined(later.clock, rows, state.memory.hidden.device),
    )


def padded(first: Tensor | None, second: Tensor | None, axis: int = 1) -> Tensor | None:
    """The rows of both, the shorter ones with zeros at the end of an axis; None without them."""
    if first is None or second is None:
        return None
    longest, behind = max(first.shape[axis], second.shape[axis]), first.dim() - 1 - axis
    return torch.cat([pad(part, (0, 0) * behind + (0, longest - part.shape[axis])) for part in (first, second)])


def first_weights(attention: Mechanism | nn.Module | None, memory: Memory) -> Float[Tensor, "sentences key"] | None:
    """The weights before the first step; None if the score does not use them, so that steps can run in parallel."""
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
    """c_t = Σ_i α_ti h_i: keys and values are both the memory, with one head. Also returns the weights if those of the
    step before are given.
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
    """`attend` for the query at one time."""
    before = None if previous is None else previous[:, None]
    context, weights = attend(attention, query[:, None], memory, memory.at.rows(slice(time, time + 1)), before)
    return context[:, 0], None if weights is None else weights[:, 0]


def attend_in_turn(
    attention: Mechanism, query: Float[Tensor, "sentences query query_dim"], memory: Memory
) -> Float[Tensor, "sentences query key_dim"]:
    """All queries at once, or one after the other if the score depends on the weights of the step before."""
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
    """`attend` for one decoding step: the hypotheses of a sentence are queries to one memory, which is not copied."""
    grouped, at, previous = beam_queries(query, state)
    context, weights = attend(attention, grouped, state.memory, at, previous)
    return context.flatten(0, 1), None if weights is None else weights.flatten(0, 1)


def beam_queries(
    query: Float[Tensor, "rows query_dim"], state: RecurrentState
) -> tuple[Float[Tensor, "sentences beam query_dim"], Positions, Float[Tensor, "sentences beam key"] | None]:
    """The queries of a sentence's hypotheses side by side, their positions, and the weights of the step before."""
    previous = None if state.previous is None else state.previous.unflatten(0, (-1, state.beam))
    now = state.clock.of_sentences(state.beam, query.device)[:, None, None, None].expand(-1, -1, state.beam, -1)
    return query.view(-1, state.beam, query.shape[-1]), replace(state.memory.at, query=now, aligned=False), previous


def reinforce_for(attention: Mechanism | None) -> Reinforce | None:
    """The loss that trains the attention if its normaliser samples."""
    normaliser = getattr(attention, "normaliser", None)
    if normaliser is None or not restriction(normaliser, "learns_from_reward"):
        return None
    return Reinforce(reward_weight=normaliser.reward_weight, entropy_weight=normaliser.entropy_weight)


def reinforcement(
    reinforce: nn.Module, samples: list[Choice], logits: Float[Tensor, "tokens vocab"], target: Batch
) -> Float[Tensor, ""]:
    """The loss that trains sampled attention, from its choices at each step and the teacher-forced logits."""
    words = _by_sentence(logits, Seq2Seq.predicted(target), target)
    rewards = torch.stack([-cross_entropy(*sentence) for sentence in words])
    real = torch.arange(target.ids.shape[1] - 1, device=logits.device) < target.lengths[:, None] - 1
    choice = Choice(*(torch.cat(parts, -1) * real[:, None] for parts in zip(*samples, strict=True)))
    loss: Tensor = reinforce(rewards.detach(), [choice])
    return loss


def _by_sentence(
    logits: Float[Tensor, "tokens vocab"], predicted: Int[Tensor, " tokens"], target: Batch
) -> Iterator[tuple[Tensor, Tensor]]:
    lengths = (target.lengths - 1).tolist()
    return zip(logits.split(lengths), predicted.split(lengths), strict=True)


def _rows(state: AnyState, rows: Int[Tensor, " new_rows"]) -> AnyState:
    layers = tuple(tuple(part[rows] for part in layer) for layer in state.layers)
    clock = state.clock.select(rows)
    feed, previous = (None if part is None else part[rows] for part in (state.feed, state.previous))
    return replace(state, layers=layers, feed=feed, previous=previous, clock=clock)
