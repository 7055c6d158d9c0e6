"""The decoder of Show, Attend and Tell: before each word, it looks at a grid of vectors."""

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.attention import AdditiveConfig, Attention, AttentionConfig, Positions, choices, padding
from foveate.attention.check import require_positive, require_rates, require_real
from foveate.attention.mechanism import require_no_segments, shortest
from foveate.config.field import require_choices, setting
from foveate.data.batch import Batch
from foveate.errors import UsageError
from foveate.models.glimpse import Glimpses, draws_places
from foveate.models.recurrent import (
    Memory,
    RecurrentState,
    attend_step,
    beam_queries,
    first_weights,
    joined_rows,
    reinforce_for,
    reinforcement,
    selected_rows,
    with_beam,
)
from foveate.models.seq2seq import Seq2Seq, selected_sentences
from foveate.nn.clock import Clock
from foveate.nn.dropout import dropout
from foveate.nn.embed import Tokens
from foveate.nn.loss import cross_entropy
from foveate.nn.packing import Packing
from foveate.nn.recurrent_layer import Cell, LayerState, RecurrentLayer


@dataclass(frozen=True, kw_only=True)
class GazeConfig:
    """The decoder of Show, Attend and Tell.

    Soft attention is the default. Hard attention, which looks at one place before each word, is
    `attention.normaliser = { kind = "hard", mode = "sample", expectation = 0.5, entropy_weight = 0.002 }` with the
    paper's expectation. It learns better after soft attention than from nothing.
    """

    kind: ClassVar[str] = "gaze"
    embedding_dim: int = 64
    hidden_dim: int = 128
    cell: Cell = "lstm"
    attention: AttentionConfig | None = setting(
        AttentionConfig(score=AdditiveConfig()), "where it looks before a word; none: it sees the mean of the grid only"
    )
    gate: bool = setting(True, "scale the context by a number from 0 to 1, which says whether a word needs the picture")
    penalty: float = setting(1.0, "weight of the loss for places that a caption looks at too little or too much")
    dropout: float = setting(0.1, "on embeddings of words and on the sum before the last layer")

    def __post_init__(self) -> None:
        require_choices(self)
        require_positive(embedding_dim=self.embedding_dim, hidden_dim=self.hidden_dim)
        require_rates(dropout=self.dropout)
        require_real(penalty=self.penalty)
        if self.penalty < 0:
            raise ValueError(f"penalty must be at least 0, got {self.penalty:g}")
        if self.attention is not None:
            require_no_segments(attention=self.attention)

    @property
    def source_positions(self) -> int | None:
        """The largest number of vectors that it can attend to; None without a limit."""
        return shortest(self.attention)

    @property
    def target_positions(self) -> int | None:
        """Recurrent layers write captions of any length."""
        return None

    def build_for(self, memory_dim: int, vocab: int) -> "GazeDecoder":
        return GazeDecoder(self, memory_dim, vocab)


class Gaze(NamedTuple):
    """Teacher-forced logits of the real words, and the weights at every step, which are None unless asked for."""

    logits: Float[Tensor, "tokens vocab"]
    weights: Float[Tensor, "batch step cell"] | None


@dataclass(frozen=True, eq=False)
class GazeState(RecurrentState):
    """The state between two words, with the draws of hard attention."""

    glimpses: Glimpses | None = None
    """None: it looks at the place with the largest weight."""


class GazeDecoder(Seq2Seq[GazeState]):
    """α_t = softmax_i score(h_{t−1}, a_i);  β_t = σ(w · h_{t−1} + b);  ẑ_t = β_t Σ_i α_ti a_i
    h_t = LSTM(h_{t−1}, [E y_{t−1}; ẑ_t]);  p(y_t | a, y_<t) = softmax(L_o (E y_{t−1} + L_h h_t + L_z ẑ_t))

    The vectors a are the places of a grid, and h_0 = tanh(W ā + b), like the LSTM's cell, where ā is their mean.
    Training adds λ Σ_i (1 − Σ_t α_ti)², summed over the places of a picture and the words of its caption, so that
    captions look everywhere. Tutorials average over the places, which weakens λ by their number, and count the weights
    after the end of a caption. With `Hard(mode="sample")`, ẑ_t = β_t a_s for a place s that is drawn, training adds the
    loss of `Reinforce`, and there is no penalty, because drawn weights have no gradient.

    Reference: Xu et al. 2015, equations 1 to 3, 7, 12 to 14.
    """

    def __init__(self, config: GazeConfig, memory_dim: int, vocab: int) -> None:
        super().__init__()
        hidden_dim, width = config.hidden_dim, config.embedding_dim
        self.penalty, self.dropout = config.penalty, config.dropout
        self.target_embedding = Tokens(vocab).build(width, deviation=0.1)
        self.cell = RecurrentLayer(config.cell, width + memory_dim, hidden_dim)
        self.start_hidden = nn.Linear(memory_dim, hidden_dim)
        self.start_cell = nn.Linear(memory_dim, hidden_dim) if config.cell == "lstm" else None
        self.attention: Attention | None = None
        if config.attention is not None:
            attention = config.attention.build(
                query_dim=hidden_dim, key_dim=memory_dim, visibility=padding(), kind="cross"
            )
            assert isinstance(attention, Attention)
            self.attention = attention
        self.reinforce = reinforce_for(self.attention)
        self.gate = nn.Linear(hidden_dim, 1) if config.gate and self.attention is not None else None
        self.from_hidden = nn.Linear(hidden_dim, width)
        self.from_context = nn.Linear(memory_dim, width)
        self.output = nn.Linear(width, vocab)

    def forward(self, source: Batch, target: Batch) -> Float[Tensor, "tokens vocab"]:
        return self._forced(source, target).logits

    def loss(self, source: Batch, target: Batch, *, label_smoothing: float = 0.0) -> Float[Tensor, ""]:
        """Cross-entropy in nats, summed; while training also the penalty, or the loss that trains drawn places."""
        if not self.training:
            return super().loss(source, target, label_smoothing=label_smoothing)
        predicted = self.predicted(target)
        if self.reinforce is not None:
            with choices() as samples:
                logits = self(source, target)
            smoothed = cross_entropy(logits, predicted, label_smoothing=label_smoothing)
            return smoothed + reinforcement(self.reinforce, samples, logits, target)
        logits, weights = self._forced(source, target, weights=self.penalty > 0)
        loss = cross_entropy(logits, predicted, label_smoothing=label_smoothing)
        return loss if weights is None else loss + self.penalty * uneven(weights, source.lengths, target.lengths - 1)

    def start(self, source: Batch, beam: int = 1, *, glimpses: Glimpses | None = None) -> GazeState:
        """Read the grids. With `glimpses`, hard attention draws its places. Raises ValueError for other attention."""
        if glimpses is not None and not draws_places(self.attention):
            raise ValueError("glimpses are drawn by hard attention that has learnt from draws")
        memory, layer = self._remember(source, 1)
        state = GazeState(memory, (layer,), None, 1, Clock(), first_weights(self.attention, memory), glimpses)
        return with_beam(state, beam)

    def step(self, state: GazeState, token: Int[Tensor, " rows"]) -> tuple[GazeState, Float[Tensor, "rows vocab"]]:
        (layer,), previous = state.layers, state.previous
        if self.attention is None:
            context = state.memory.hidden[:, 0].repeat_interleave(state.beam, 0)
        elif state.glimpses is not None:
            context, previous = self._drawn(layer[0], state, state.glimpses)
        else:
            context, previous = attend_step(self.attention, layer[0], state)
        embedded = self.target_embedding(token)
        context, layer = self._advance(embedded, context, layer)
        logits = self._logits(embedded, layer[0], context)
        return replace(state, layers=(layer,), clock=state.clock.ticked(), previous=previous), logits

    def select(self, state: GazeState, rows: Int[Tensor, " new_rows"]) -> GazeState:
        if state.glimpses is None:
            return selected_rows(state, rows)
        sentences = selected_sentences(rows, state.beam, len(state.memory.hidden))
        glimpses = state.glimpses if sentences is None else state.glimpses.select(sentences)
        return replace(selected_rows(state, rows), glimpses=glimpses)

    def join(self, state: GazeState, later: GazeState) -> GazeState:
        """The rows of both states. Raises UsageError for states that draw places, whose noise depends on the time."""
        if state.glimpses is not None or later.glimpses is not None:
            raise UsageError("A decoder that draws its places cannot decode batches in flight. Decode batch by batch.")
        return joined_rows(state, later)

    def _drawn(
        self, query: Float[Tensor, "rows query_dim"], state: GazeState, glimpses: Glimpses
    ) -> tuple[Float[Tensor, "rows memory_dim"], Float[Tensor, "rows cell"] | None]:
        """The vectors of places that are drawn, and weights that are 1 there, if the score needs them."""
        assert self.attention is not None
        grouped, at, previous = beam_queries(query, state)
        if previous is not None:
            at = replace(at, previous=previous[:, None])
        hidden, normaliser = state.memory.hidden, self.attention.normaliser
        explanation = self.attention.explain(grouped[:, None], hidden[:, None], hidden[:, None], at=at)
        scores, visible = explanation.scores, explanation.visible
        distribution = normaliser.tile(scores, visible, normaliser.statistic(scores, visible))
        place = glimpses.places(distribution[:, 0], state.clock.latest)
        context = hidden.take_along_dim(place[..., None], 1).flatten(0, 1)
        if previous is None:
            return context, None
        return context, torch.zeros_like(previous).scatter(-1, place[..., None], 1.0).flatten(0, 1)

    def _forced(self, source: Batch, target: Batch, *, weights: bool = False) -> Gaze:
        length = target.ids.shape[1] - 1
        memory, layer = self._remember(source, length)
        embedded = self._drop(self.target_embedding(target.ids[:, :-1]))
        hidden, contexts, looks, previous = [], [], [], first_weights(self.attention, memory)
        for time, here in enumerate(embedded.unbind(1)):
            context, look = self._look(layer[0], memory, time, previous, weights)
            previous = None if previous is None else look
            context, layer = self._advance(here, context, layer)
            hidden.append(layer[0])
            contexts.append(context)
            looks.append(look)
        packing = Packing(target.lengths - 1, length)
        parts = (embedded, torch.stack(hidden, 1), torch.stack(contexts, 1))
        logits = self._logits(*(packing.pack(part) for part in parts))
        real = [look for look in looks if look is not None]
        return Gaze(logits, torch.stack(real, 1) if weights and real else None)

    def _look(
        self, query: Tensor, memory: Memory, time: int, previous: Tensor | None, weights: bool
    ) -> tuple[Float[Tensor, "batch memory_dim"], Float[Tensor, "batch cell"] | None]:
        """The context of one step, and its weights where they are needed: without them, faster paths may run."""
        if self.attention is None:
            return memory.hidden[:, 0], None
        at, keys = memory.at.rows(slice(time, time + 1)), memory.hidden[:, None]
        if previous is not None:
            at = replace(at, previous=previous[:, None, None])
        query, features = query[:, None, None], memory.features
        if previous is None and not weights:
            return self.attention.run(query, keys, keys, at=at, key_features=features)[:, 0, 0], None
        context, look = self.attention.step(query, keys, keys, at=at, key_features=features)
        return context[:, 0, 0], look[:, 0, 0]

    def _remember(self, source: Batch, queries: int) -> tuple[Memory, LayerState]:
        """The grid as memory for `queries` steps, and the state before the first word."""
        real = torch.arange(source.length, device=source.values.device) < source.lengths[:, None]
        hidden = torch.where(real[..., None], source.features, 0.0)
        count = source.lengths.clamp(min=1)[:, None]
        mean = (hidden.sum(1, dtype=torch.promote_types(hidden.dtype, torch.float32)) / count).to(hidden.dtype)
        starts = [self.start_hidden] if self.start_cell is None else [self.start_hidden, self.start_cell]
        layer = tuple(torch.tanh(start(mean)) for start in starts)
        if self.attention is None:
            return Memory(mean[:, None], Positions.of(queries, 1), ()), layer
        at = replace(Positions.of(queries, source.length, key_lengths=source.lengths), zeroed=True)
        return Memory(hidden, at, (), self.attention.key_features(hidden[:, None])), layer

    def _advance(self, embedded: Tensor, context: Tensor, layer: LayerState) -> tuple[Tensor, LayerState]:
        if self.gate is not None:
            context = self.gate(layer[0]).sigmoid() * context
        return context, self.cell.step(torch.cat([embedded, context], -1), layer)

    def _logits(
        self,
        embedded: Float[Tensor, "tokens embedding_dim"],
        hidden: Float[Tensor, "tokens hidden_dim"],
        context: Float[Tensor, "tokens memory_dim"],
    ) -> Float[Tensor, "tokens vocab"]:
        return self.output(self._drop(embedded + self.from_hidden(hidden) + self.from_context(context)))

    def _drop(self, x: Float[Tensor, "*shape dim"]) -> Float[Tensor, "*shape dim"]:
        return dropout(x, self.dropout, self.training)


def uneven(
    weights: Float[Tensor, "batch step cell"], cells: Int[Tensor, " batch"], steps: Int[Tensor, " batch"]
) -> Float[Tensor, ""]:
    """Σ_i (1 − Σ_t α_ti)² over the real places and steps of each row, summed over rows, in float32 at least.

    >>> weights = torch.tensor([[[0.5, 0.5], [0.0, 1.0]], [[0.5, 0.5], [0.0, 1.0]]])
    >>> uneven(weights, torch.tensor([2, 2]), torch.tensor([2, 1]))  # (0.5² + 0.5²) + (0.5² + 0.5²)
    tensor(1.)
    """
    _, length, width = weights.shape
    real = torch.arange(length, device=weights.device) < steps[:, None]
    there = torch.arange(width, device=weights.device) < cells[:, None]
    precise = weights.to(torch.promote_types(weights.dtype, torch.float32))
    total = torch.where(real[..., None], precise, 0.0).sum(1)
    return torch.where(there, (1 - total).square(), 0.0).sum()
