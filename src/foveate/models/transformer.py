"""The Transformer encoder–decoder."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, cast

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn.functional import linear

from foveate.attention import Positions
from foveate.attention.check import require_positive
from foveate.attention.mechanism import shortest
from foveate.attention.record import is_recording
from foveate.config import require_choices
from foveate.data.batch import Batch
from foveate.models.seq2seq import Seq2Seq
from foveate.models.transformer_kernel import Encoding, Prepared, WholeStep, has_methods_of, reads_as_defined
from foveate.models.transformer_state import (
    TransformerState,
    joined_states,
    memory_positions,
    own,
    reordered,
    selected_rows,
    stored_pasts,
)
from foveate.nn.clock import Clock
from foveate.nn.dropout import dropout
from foveate.nn.embed import Input, Tokens, embed, input_of
from foveate.nn.int8 import Int8Weight
from foveate.nn.linear_layer import PackedWeight, may_pack, packed_product, use_int8
from foveate.nn.loss import Predictions
from foveate.nn.multihead import KeyValue
from foveate.nn.packing import Packing
from foveate.nn.past import (
    ROOM_STEP,
    Past,
    attend_to_past,
    no_past,
    standing,
    standing_in,
    with_room,
)
from foveate.nn.position_vector import PositionConfig, SinusoidalConfig, UnitInterval, first_vectors
from foveate.nn.prepared.decoder_run import LARGEST, DecoderRun, SlotRun
from foveate.nn.prepared.flat_block import FlatBlock, FlatBlocks, Sight
from foveate.nn.prepared.flat_encoder import EncoderPass
from foveate.nn.prepared.flat_step import DecoderStep
from foveate.nn.ran import RANConfig, RANEncoder
from foveate.nn.transformer_block import BlockConfig, DecoderBlock, EncodedTokens, EncoderBlock


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Encoder and decoder stacks of equal blocks. The defaults suit some ten thousand sentence pairs."""

    block: BlockConfig = BlockConfig(model_dim=256, num_heads=8, feedforward_dim=1024, norm="pre")
    encoder: RANConfig | None = None
    """An encoder in place of the blocks: "ran", the recurrent attention network for long documents. It has the blocks'
    model_dim and its own num_layers."""
    encoder_layers: int = 3
    decoder_layers: int = 3
    position: PositionConfig = SinusoidalConfig()
    target_position: PositionConfig | Literal["same"] = "same"
    """The positions of the decoder, if they differ from the encoder's."""
    share: Literal["none", "output", "all"] = "output"
    """The shared vocabulary matrices: none; target embedding and output; or all three, which
    requires one vocabulary for source and target."""
    output_bias: bool = False

    def __post_init__(self) -> None:
        require_choices(self)
        require_positive(encoder_layers=self.encoder_layers, decoder_layers=self.decoder_layers)

    @classmethod
    def base(cls) -> "TransformerConfig":
        """The base model of Vaswani et al. 2017, table 3: 6 + 6 layers, 512 wide, 8 heads, 65 M parameters."""
        return cls(block=BlockConfig(), encoder_layers=6, decoder_layers=6, share="all")

    @property
    def positions(self) -> int | None:
        """The length of the longest side in tokens; None without a limit."""
        encoder = () if self.encoder else (self.block.encoder_attention,)
        decoder = (self.block.decoder_attention, self.block.cross_attention)
        return shortest(self.position, self.target_position, *encoder, *decoder)

    def build(self, source_vocab: int | Input, target_vocab: int) -> "Transformer":
        return Transformer(self, source_vocab, target_vocab)


class Transformer(Seq2Seq[TransformerState]):
    """Encoder: N × (self-attention, feed-forward). Decoder: N × (masked self-attention, attention to the encoder's
    last output, feed-forward). p(y) = softmax(E h), where E may be shared with the embeddings.

    Everything but attention runs on real tokens without padding. Reference: Vaswani et al. 2017.
    """

    def __init__(self, config: TransformerConfig, source_vocab: int | Input, target_vocab: int) -> None:
        super().__init__()
        model_dim = config.block.model_dim
        self.input = input_of(source_vocab)
        if config.share == "all" and self.input != Tokens(target_vocab):
            entries = f"{self.input.vocab} entries" if isinstance(self.input, Tokens) else "none"
            raise ValueError(
                f'share="all" needs one vocabulary, but the source has {entries} and the target '
                f'{target_vocab}. Train one tokeniser on both sides, or choose share="output".'
            )
        self.model_dim, self.dropout = model_dim, config.block.dropout
        self.target_embedding = Tokens(target_vocab).build(model_dim, deviation=model_dim**-0.5)
        self.source_embedding: Any = self.target_embedding
        if config.share != "all":
            self.source_embedding = self.input.build(model_dim, deviation=model_dim**-0.5)
        self.position = config.position.build(model_dim)
        self.target_position = self.position
        if config.target_position != "same":
            self.target_position = config.target_position.build(model_dim)
        elif next(self.position.parameters(), None) is not None:
            self.target_position = config.position.build(model_dim)
        if isinstance(self.target_position, UnitInterval):
            raise ValueError(
                "position goes from 0 to 1, which needs the length of the sequence, and a decoder does not know it. "
                'Give the decoder others: target_position = { kind = "sinusoidal" }.'
            )
        self.encoder = self.made_encoder(config)
        self.decoder = nn.ModuleList(DecoderBlock(config.block) for _ in range(config.decoder_layers))
        layers = (*self.decoder, *(() if isinstance(self.encoder, RANEncoder) else self.encoder))
        self.max_length = shortest(self.position, self.target_position, *layers)
        pre = config.block.norm == "pre"
        self.encoder_norm = nn.LayerNorm(model_dim) if pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(model_dim) if pre else nn.Identity()
        self.output_weight = nn.Parameter(torch.empty(target_vocab, model_dim)) if config.share == "none" else None
        if self.output_weight is not None:
            nn.init.normal_(self.output_weight, std=model_dim**-0.5)
        self._packed, self._flat, self._whole = PackedWeight(), FlatBlocks(), WholeStep(Transformer)
        self._encoding = Encoding(Transformer)
        self._int8_output, self.int8 = Int8Weight(), False
        self.output_bias = nn.Parameter(torch.zeros(target_vocab)) if config.output_bias else None

    @staticmethod
    def made_encoder(config: TransformerConfig) -> nn.ModuleList | RANEncoder:
        """The layers that read the source."""
        if config.encoder is not None:
            return RANEncoder(replace(config.encoder, model_dim=config.block.model_dim))
        return nn.ModuleList(EncoderBlock(config.block) for _ in range(config.encoder_layers))

    def forward(self, source: Batch, target: Batch) -> Float[Tensor, "tokens vocab"]:
        return self.logits(self.hidden(source, target))

    def hidden(self, source: Batch, target: Batch) -> Float[Tensor, "tokens model_dim"]:
        """The decoder's last hidden vectors of the real target positions."""
        encoded, source_packing = self.encode(source)
        inputs = target.ids[:, :-1]
        packing = Packing(target.lengths - 1, inputs.shape[1])
        x = self._embed(self.target_embedding, self.target_position, packing.pack(inputs), packing.place)
        at = Positions.of(inputs.shape[1], inputs.shape[1], device=inputs.device)
        memory_at = memory_positions(inputs.shape[1], source)
        memory = EncodedTokens(encoded, source_packing)
        for block in self._decoder:
            x = block(x, memory, at=at, memory_at=memory_at, packing=packing)
        return self.decoder_norm(x)

    def encode(self, source: Batch) -> tuple[Float[Tensor, "tokens model_dim"], Packing]:
        """The encoder's output for the real source tokens, and their packing."""
        x, packing = self._embedded(source)
        at = memory_positions(packing.length, source)
        if isinstance(self.encoder, RANEncoder):
            return self.encoder_norm(self.encoder(x, packing=packing)), packing
        for block in self.encoder:
            x = block(x, at=at, packing=packing)
        return self.encoder_norm(x), packing

    def _embedded(self, source: Batch) -> tuple[Float[Tensor, "tokens model_dim"], Packing]:
        """The encoder's input for the real source tokens, and their packing."""
        packing = Packing(source.lengths, source.length)
        lengths = None
        if isinstance(self.position, UnitInterval):
            lengths = packing.pack(source.lengths[:, None].expand(source.size, source.length))
        values, places = source.packed(packing)
        return self._embed(self.source_embedding, self.position, values, packing.place, lengths, places), packing

    def predictions(self, source: Batch, target: Batch) -> Predictions:
        if self.output_bias is not None or not torch.is_grad_enabled():
            return super().predictions(source, target)
        return Predictions(self.hidden(source, target), self.output_table)

    @property
    def output_table(self) -> Float[Tensor, "vocab model_dim"]:
        """The output matrix, which may be the target embedding."""
        return self.target_embedding.weight if self.output_weight is None else self.output_weight

    def logits(self, hidden: Float[Tensor, "tokens model_dim"]) -> Float[Tensor, "tokens vocab"]:
        weight = self.output_table
        if self.int8 and not torch.is_grad_enabled():
            return self._int8_output.of((weight,), (self.output_bias,))(hidden)
        if may_pack(weight):
            return packed_product(hidden, self._packed.of(weight), self.output_bias)
        return linear(hidden, weight, self.output_bias)

    def use_int8(self, active: bool = True) -> None:
        """Compute all products with weights in int8, except with gradients (`foveate.nn.int8`), or as before. The
        weights stay.

        Raises ValueError for a weight that is not finite.
        """
        use_int8(self, self.output_table, active)
        self.int8 = active

    def prepared(self) -> Prepared:
        """The kernels and weights by which states without gradients are started and stepped."""
        plain = not torch.is_grad_enabled() and not self.training
        flat = self._flat.of(self._decoder) if plain else None
        whole = None if flat is None else self._whole.of(self, flat)
        return Prepared(flat, whole, None if whole is None else self._encoding.of(self, whole))

    def start(self, source: Batch, beam: int = 1, prepared: Prepared | None = None) -> TransformerState:
        """`prepared` spares the question whether any part of the model has changed since."""
        source = source.widened(ROOM_STEP)
        flat, whole, encoding = self.prepared() if prepared is None else prepared
        memory = self._memory(source, encoding)
        if whole is not None:  # under autocast the projections have another type
            memory = tuple(KeyValue(*(part.to(whole.dtype) for part in layer)) for layer in memory)
        cache = tuple(no_past(block.attention, source.size * beam) for block in self._decoder)
        return TransformerState(
            memory, memory_positions(beam, source), source.lengths.long(), cache, beam, Clock(), flat, whole
        )

    def _memory(self, source: Batch, encoding: EncoderPass | None) -> tuple[KeyValue, ...]:
        """Keys and values of the encoder's output for each layer of the decoder."""
        if encoding is not None:
            at = memory_positions(source.length, source) if is_recording() else None
            return encoding(*self._embedded(source), watched_at=at)
        encoded, packing = self.encode(source)
        projected = (block.cross_attention.remember(encoded, packing=packing) for block in self._decoder)
        return tuple(KeyValue(*(part.contiguous() for part in layer)) for layer in projected)

    def step(
        self, state: TransformerState, token: Int[Tensor, " rows"]
    ) -> tuple[TransformerState, Float[Tensor, "rows vocab"]]:
        prepared = not torch.is_grad_enabled() and not self.training
        if state.slots is not None and not prepared:
            state = own(state)
        clock = state.clock
        cache = tuple(with_room(past, clock) for past in state.cache)
        slots = None if state.slots is None else state.slots.with_room(cast(Tensor, cache[0]).shape[3])
        state = replace(state, cache=cache, clock=clock.ticked(), slots=slots)
        if state.whole is not None and len(token) and prepared:
            return state, self._step_whole(state.whole, state, token, clock)
        place = clock.of_rows(len(token), token.device)
        x = self._embed(self.target_embedding, self.target_position, token, place)
        if state.flat is None or not prepared:
            cache, x = self._step_blocks(state, x, clock)
            state = replace(state, cache=cache)
        else:
            x = _step_flat(state.flat, state, x, clock)
        return state, self.logits(self.decoder_norm(x))

    def _step_whole(
        self, whole: DecoderStep, state: TransformerState, token: Int[Tensor, " rows"], clock: Clock
    ) -> Float[Tensor, "rows vocab"]:
        position = self.target_position(clock.of_sentences(1)).to(whole.dtype)
        watched_at = _standing(state, clock) if is_recording() else None
        inputs = (stored_pasts(state), state.memory, state.memory_lengths)
        return whole(token, position, *inputs, clock=clock, slots=state.slots, watched_at=watched_at)

    def _step_blocks(
        self, state: TransformerState, x: Float[Tensor, "rows model_dim"], clock: Clock
    ) -> tuple[tuple[Past, ...], Float[Tensor, "rows model_dim"]]:
        """The pasts after this step, and the output of the blocks."""
        memory_at, pasts = _memory_standing(state, clock), list[Past]()
        look_back = partial(attend_to_past, at=standing_in(state.cache, clock), clock=clock, pasts=pasts)
        for block, past, memory in zip(self._decoder, state.cache, state.memory, strict=True):
            x = _step_block(block, x, partial(look_back, block.attention, past=past), memory, memory_at)
        return tuple(pasts), x

    def begin_run(self, state: TransformerState, longest: int, beam: int) -> DecoderRun | None:
        """The steps after a state from `start` as C functions, for up to `longest` tokens; None where only `step` knows
        them.
        """
        whole, clock = state.whole, state.clock
        own = has_methods_of(Transformer, self, "step")
        fresh = state.slots is None and clock.rows is None and clock.latest == 0 and state.beam == beam
        if whole is None or not own or not fresh or torch.is_grad_enabled() or self.training or is_recording():
            return None
        if DecoderRun.bytes(whole, len(state.memory_lengths) * state.beam, longest) > LARGEST:
            return None
        positions = partial(first_vectors, self.target_position, self.max_length)
        run = DecoderRun(whole, positions, state.memory, state.beam, longest)
        run.join(torch.arange(len(state.memory_lengths)), state.memory_lengths)
        return run

    def begin_flight(self, places: int, beam: int, earlier: SlotRun | None = None) -> SlotRun | None:
        """The steps of up to `places` sentences that come and go, which may be `earlier` ones; None where only `step`
        knows them.
        """
        _, whole, encoding = self.prepared()
        if whole is None or encoding is None or not reads_as_defined(Transformer, self) or is_recording():
            return None
        embedding = self.source_embedding.weight.detach()
        if embedding.dtype != whole.dtype or not embedding.is_contiguous():
            return None
        if earlier is not None and earlier.serves(whole, encoding, embedding):
            return earlier
        source, target = (
            partial(first_vectors, each, self.max_length) for each in (self.position, self.target_position)
        )
        scale = math.sqrt(self.model_dim)
        return SlotRun(whole, encoding, embedding, scale, (source, target), places=places, beam=beam)

    def select(self, state: TransformerState, rows: Int[Tensor, " new_rows"]) -> TransformerState:
        return selected_rows(state, rows)

    def reorder(self, state: TransformerState, rows: Int[Tensor, " new_rows"]) -> TransformerState:
        """`select`, which uses the state up. The kernel's rows only change where they look for their pasts."""
        return self.select(state, rows) if state.whole is None else reordered(state, rows)

    def join(self, state: TransformerState, later: TransformerState) -> TransformerState:
        """The rows of both states, which this uses up. Rows of the kernel take free slots of the first state.

        Raises ValueError for states with another number of rows for each sentence.
        """
        return joined_states(state, later)

    @property
    def _decoder(self) -> tuple[DecoderBlock, ...]:
        return cast(tuple[DecoderBlock, ...], tuple(self.decoder))

    def _embed(
        self,
        embedding: nn.Module,
        position: nn.Module,
        values: Shaped[Tensor, "tokens *width"],
        place: Int[Tensor, " tokens"],
        lengths: Int[Tensor, " tokens"] | None = None,
        places: Int[Tensor, "tokens axes"] | None = None,
    ) -> Float[Tensor, "tokens model_dim"]:
        x = embed(embedding, values, places) * math.sqrt(self.model_dim)
        x = x + position(place, lengths).to(x.dtype)
        return dropout(x, self.dropout, self.training)


def _standing(state: TransformerState, clock: Clock) -> tuple[Positions, Positions]:
    """The positions of a flat step's queries among the target words and among the source words."""
    return standing(stored_pasts(state)[0], clock), _memory_standing(state, clock)


def _memory_standing(state: TransformerState, clock: Clock) -> Positions:
    now = clock.of_sentences(state.beam, state.memory_at.device)[:, None, None, None]
    return replace(state.memory_at, query=now.expand(-1, -1, state.beam, -1), aligned=False)


def _step_flat(
    blocks: tuple[FlatBlock, ...], state: TransformerState, x: Float[Tensor, "rows model_dim"], clock: Clock
) -> Float[Tensor, "rows model_dim"]:
    """One step through all blocks, with their prepared weights."""
    stored = stored_pasts(state)
    sight = Sight(state.memory[0], state.memory_lengths, stored[0], clock=clock, step=ROOM_STEP)
    watched_at = _standing(state, clock) if is_recording() else None
    for block, cache, memory in zip(blocks, stored, state.memory, strict=True):
        x = block.step(x, cache, memory, sight=sight, watched_at=watched_at)
    return x


def _step_block(
    block: DecoderBlock,
    x: Float[Tensor, "rows model_dim"],
    look_back: Callable[[Tensor], Tensor],
    memory: KeyValue,
    memory_at: Positions,
) -> Float[Tensor, "rows model_dim"]:
    """One decoder block for one new position of every row; `look_back` is its self-attention."""

    def cross(x: Tensor) -> Tensor:
        grouped = x.view(len(memory.key), -1, x.shape[-1])
        queries = block.cross_attention.queries(grouped)
        return block.cross_attention.attend(queries, memory, at=memory_at).flatten(0, 1)

    x = block.attention_residual(x, look_back)
    x = block.cross_residual(x, cross)
    return block.feedforward_residual(x, block.feedforward)
