"""The causal Transformer language model: Radford et al. 2018 and 2019."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear

from foveate.attention import Positions, causal
from foveate.attention.check import require_positive
from foveate.attention.mechanism import shortest
from foveate.attention.record import is_recorded, is_recording
from foveate.data.batch import Batch
from foveate.models.gpt_kernel import CausalStep
from foveate.models.language_model import LanguageModel, start_by_length
from foveate.models.transformer_kernel import has_methods_of
from foveate.nn.clock import Clock
from foveate.nn.dropout import dropout
from foveate.nn.embed import Tokens
from foveate.nn.int8 import Int8Weight
from foveate.nn.linear_layer import use_int8
from foveate.nn.loss import Predictions
from foveate.nn.multihead import MultiHeadAttention
from foveate.nn.packing import Packing
from foveate.nn.past import (
    Past,
    Summed,
    attend_and_keep,
    attend_further,
    attend_to_past,
    joined,
    moved,
    places_of,
    room_for,
    rows_of,
    selected,
    standing,
    standing_in,
    with_room,
    without,
)
from foveate.nn.position_vector import LearnedConfig, PositionConfig, UnitIntervalConfig, first_vectors
from foveate.nn.prepared.decoder_run import LARGEST, DecoderRun
from foveate.nn.prepared.flat_step import DecoderStep
from foveate.nn.transformer_block import BlockConfig, EncoderBlock

DEVIATION = 0.02
"""The standard deviation of initial embeddings. GPT used it for matrices too, which suits its width; our matrices use
the defaults of their layers.
"""


@dataclass(frozen=True, kw_only=True)
class GPTConfig:
    """A stack of causal blocks. The defaults suit a few megabytes of text."""

    block: BlockConfig = BlockConfig(
        model_dim=256, num_heads=8, feedforward_dim=1024, norm="pre", activation="gelu_tanh"
    )
    """`block.decoder_attention` configures the attention of the layers."""
    num_layers: int = 4
    position: PositionConfig = LearnedConfig(max_length=512)
    tied: bool = True
    """Whether the embedding is also the output matrix."""

    def __post_init__(self) -> None:
        require_positive(num_layers=self.num_layers)
        if isinstance(self.position, UnitIntervalConfig):
            raise ValueError(
                "position goes from 0 to 1, which needs the length of the text, and a language model does not know it. "
                'Choose others: position = { kind = "learned" }.'
            )

    @classmethod
    def tiny(cls) -> "GPTConfig":
        """Two layers, 64 wide, for 256 positions: trains in minutes without an accelerator."""
        return cls(
            block=BlockConfig(
                model_dim=64, num_heads=4, feedforward_dim=256, norm="pre", activation="gelu_tanh", dropout=0.0
            ),
            num_layers=2,
            position=LearnedConfig(max_length=256),
        )

    @classmethod
    def gpt2(cls) -> "GPTConfig":
        """The smallest GPT-2: 12 layers, 768 wide, 1024 positions; 124 M parameters with its 50,257 tokens."""
        block = BlockConfig(
            model_dim=768,
            num_heads=12,
            feedforward_dim=3072,
            norm="pre",
            activation="gelu_tanh",
            attention_dropout=0.1,
        )
        return cls(block=block, num_layers=12, position=LearnedConfig(max_length=1024))

    @property
    def positions(self) -> int | None:
        """The length of the longest input in tokens; None without a limit."""
        return shortest(self.position, self.block.decoder_attention)

    def build(self, vocab: int) -> "GPT":
        return GPT(self, vocab)


@dataclass(frozen=True, eq=False)
class GPTState:
    """The state of a model between two tokens. It can be used for one step only, because the step writes into the room
    of its pasts. To continue a state in two ways, copy it first with `select`.
    """

    pasts: tuple[Past, ...]
    """Per layer, keys and values of the tokens so far, with room for more; for kernel attention, their sum."""
    clock: Clock
    whole: DecoderStep | None = None
    """One kernel for the whole step, if it supports the model."""
    alike: int = 1
    """So many rows after each other have the same past."""


@runtime_checkable
class CausalBlock(Protocol):
    """One layer: causal self-attention and a feed-forward network, each with a residual connection."""

    attention: MultiHeadAttention
    feedforward: Callable[[Tensor], Tensor]
    attention_residual: Callable[[Tensor, Callable[[Tensor], Tensor]], Tensor]
    feedforward_residual: Callable[[Tensor, Callable[[Tensor], Tensor]], Tensor]

    def __call__(self, x: Tensor, *, at: Positions, packing: Packing | None = None) -> Tensor: ...


class CausalTransformer(LanguageModel[GPTState]):
    """h^l = Block_l(h^{l−1}), where each position sees itself and earlier ones;  p(y_{t+1}) = softmax(E norm(h^L_t))

    The common base of GPT and Llama, which choose the blocks and norms.
    """

    def __init__(self, vocab: int, model_dim: int, *, num_layers: int, tied: bool, dropout: float) -> None:
        super().__init__()
        self.num_layers, self.dropout = num_layers, dropout
        self.embedding = Tokens(vocab).build(model_dim)
        self.output_weight = None if tied else nn.Parameter(torch.empty(vocab, model_dim))
        self.blocks: nn.ModuleList
        self.norm: nn.Module
        self._int8_output, self.int8 = Int8Weight(), False

    def forward(self, text: Batch) -> Float[Tensor, "tokens vocab"]:
        return self.logits(self.hidden(text))

    def hidden(self, text: Batch) -> Float[Tensor, "tokens model_dim"]:
        """The last hidden vectors of the real tokens."""
        packing = Packing(text.lengths, text.length)
        x = self._embed(packing.pack(text.ids), packing.place)
        at = Positions.of(text.length, text.length, device=text.ids.device)
        for block in self._layers:
            x = block(x, at=at, packing=packing)
        return self.norm(x)

    def predictions(self, text: Batch) -> Predictions:
        if not torch.is_grad_enabled():
            return super().predictions(text)
        return Predictions(self.hidden(self.read(text)), self.output_table)

    @property
    def output_table(self) -> Float[Tensor, "vocab model_dim"]:
        """The output matrix, which may be the embedding."""
        return self.embedding.weight if self.output_weight is None else self.output_weight

    def logits(self, hidden: Float[Tensor, "tokens model_dim"]) -> Float[Tensor, "tokens vocab"]:
        if self.int8 and not torch.is_grad_enabled():
            return self._int8_output.of((self.output_table,), (None,))(hidden)
        return linear(hidden, self.output_table)

    def use_int8(self, active: bool = True) -> None:
        """Compute all products with weights in int8, except with gradients (`foveate.nn.int8`), or as before. The
        weights stay.

        Raises ValueError for a weight that is not finite.
        """
        use_int8(self, self.output_table, active)
        self.int8 = active

    def start(self, prompt: Batch, beam: int = 1) -> GPTState:
        ids = prompt.ids
        x = self._embed(ids, torch.arange(prompt.length, device=ids.device).expand_as(ids))
        at = Positions.of(prompt.length, prompt.length, device=ids.device)
        pasts: list[Past] = []
        for block in self._layers:
            x = _through(block, x, partial(attend_and_keep, block.attention, at=at, beam=beam, pasts=pasts))
        clock, whole = Clock.of(prompt.lengths.repeat_interleave(beam)), self.prepared()
        if clock.rows is None:
            return GPTState(tuple(pasts), clock, whole, beam)
        if any(isinstance(past, Summed) for past in pasts):  # sums would contain padding
            return start_by_length(self, prompt, beam)
        return GPTState(tuple(without(cast(Tensor, past), clock) for past in pasts), clock, whole, beam)

    def prepared(self) -> DecoderStep | None:
        """The kernel by which states without gradients are stepped; None where the layers themselves step."""
        return None

    def step(self, state: GPTState, token: Int[Tensor, " rows"]) -> tuple[GPTState, Float[Tensor, "rows vocab"]]:
        clock = state.clock
        before, pasts = [with_room(past, clock) for past in state.pasts], list[Past]()
        if state.whole is not None and len(token) and not torch.is_grad_enabled() and not self.training:
            own = (past.to(state.whole.dtype) for past in cast(list[Tensor], before))  # read under autocast
            stored = tuple(past if places_of(past) else past.contiguous() for past in own)
            return GPTState(stored, clock.ticked(), state.whole), self._step_whole(state.whole, stored, token, clock)
        x = self._embed(token, clock.of_rows(len(token), token.device))
        look_back = partial(attend_to_past, at=standing_in(before, clock), clock=clock, pasts=pasts)
        for block, past in zip(self._layers, before, strict=True):
            x = _through(block, x, partial(look_back, block.attention, past=past))
        return GPTState(tuple(pasts), clock.ticked(), state.whole), self.logits(self.norm(x))

    def _step_whole(
        self, whole: DecoderStep, pasts: tuple[Tensor, ...], token: Int[Tensor, " rows"], clock: Clock
    ) -> Float[Tensor, "rows vocab"]:
        raise NotImplementedError

    def extend(self, state: GPTState, ids: Int[Tensor, "rows length"]) -> GPTState:
        if any(isinstance(past, Summed) for past in state.pasts):  # a sum contains all keys or none of these
            for token in ids.unbind(1):
                state, _ = self.step(state, token)
            return state
        clock, (rows, length) = state.clock, ids.shape
        x = self._embed(ids, clock.next(length, rows, ids.device))
        before, pasts = [room_for(past, clock.latest + length) for past in state.pasts], list[Past]()
        look_back = partial(attend_further, at=standing_in(before, clock, length), clock=clock, pasts=pasts)
        for block, past in zip(self._layers, before, strict=True):
            x = _through(block, x, partial(look_back, block.attention, past=past))
        return GPTState(tuple(pasts), clock.ticked(length), state.whole)

    def select(self, state: GPTState, rows: Int[Tensor, " new_rows"]) -> GPTState:
        return GPTState(tuple(selected(past, rows) for past in state.pasts), state.clock.select(rows), state.whole)

    def reorder(self, state: GPTState, rows: Int[Tensor, " new_rows"]) -> GPTState:
        """`select`, which uses the state up. Rows that keep their places are not copied."""
        sites = [cast(nn.Module, block.attention.attention) for block in self._layers]
        if any(map(is_recorded, sites)):  # a record keeps the keys of a state, which must not change
            return self.select(state, rows)
        order = rows.tolist()
        return GPTState(tuple(moved(past, order) for past in state.pasts), state.clock.select(rows), state.whole)

    def join(self, state: GPTState, later: GPTState) -> GPTState:
        counts = (rows_of(state.pasts[0]), rows_of(later.pasts[0]))
        clock = state.clock.joined(later.clock, counts, self.embedding.weight.device)
        pairs = zip(state.pasts, later.pasts, strict=True)
        return GPTState(tuple(joined(*pair, clock.latest) for pair in pairs), clock, state.whole)

    @property
    def position_bytes(self) -> int:
        """The size of the keys and values of one position."""
        attentions = [block.attention for block in self._layers]
        numbers = sum(each.num_kv_heads * (each.head_dim + each.value_head_dim) for each in attentions)
        return numbers * self.embedding.weight.element_size()

    @property
    def _layers(self) -> tuple[CausalBlock, ...]:
        return cast(Any, tuple(self.blocks))

    def _begin(self, *tables: Tensor) -> None:
        """Set initial weights: small tables, and residual branches that are smaller in deeper stacks."""
        own = () if self.output_weight is None else (self.output_weight,)
        for table in (self.embedding.weight, *tables, *own):
            nn.init.normal_(table, std=DEVIATION)
        for block in self._layers:
            for last in (block.attention.output, cast(Any, block.feedforward).contract):
                nn.init.xavier_normal_(last.weight, gain=1 / math.sqrt(2 * self.num_layers))

    def _embed(self, ids: Int[Tensor, "*shape"], place: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape model_dim"]:
        return dropout(self.embedding(ids), self.dropout, self.training)


class GPT(CausalTransformer):
    """h⁰_t = E y_t + p_t;  h^l = Block_l(h^{l−1}), where each position sees itself and earlier ones;
    p(y_{t+1}) = softmax(E LayerNorm(h^L_t))

    Attention is any mechanism of the algebra. Reference: Radford et al. 2019, section 2.3, for pre-norm blocks and the
    last layer norm, and for initial weights of residual branches divided by √(2L).
    """

    def __init__(self, config: GPTConfig, vocab: int) -> None:
        block, model_dim = config.block, config.block.model_dim
        super().__init__(vocab, model_dim, num_layers=config.num_layers, tied=config.tied, dropout=block.dropout)
        self.config = config
        self.position = config.position.build(model_dim)
        looking_back = replace(block, encoder_attention=block.decoder_attention)
        self.blocks = nn.ModuleList(EncoderBlock(looking_back, causal()) for _ in range(config.num_layers))
        self.max_length = shortest(self.position, *self.blocks)
        self.norm = nn.LayerNorm(model_dim) if block.norm == "pre" else nn.Identity()
        self._begin(*self.position.parameters())
        self._kernel = CausalStep(GPT)

    def _embed(self, ids: Int[Tensor, "*shape"], place: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape model_dim"]:
        x = self.embedding(ids)
        return dropout(x + self.position(place).to(x.dtype), self.dropout, self.training)

    def step_refusal(self) -> str:
        """Why the layers themselves step and not one kernel; empty where the kernel does, in inference."""
        return self._kernel.refusal(self)

    def prepared(self) -> DecoderStep | None:
        return None if torch.is_grad_enabled() or self.training else self._kernel.of(self)

    def _step_whole(
        self, whole: DecoderStep, pasts: tuple[Tensor, ...], token: Int[Tensor, " rows"], clock: Clock
    ) -> Float[Tensor, "rows vocab"]:
        position = self.position(clock.of_sentences(1)).to(whole.dtype)
        watched_at = (standing(pasts[0], clock),) if is_recording() else None
        return whole(token, position, pasts, clock=clock, watched_at=watched_at)

    def begin_run(self, state: GPTState, longest: int, beam: int) -> DecoderRun | None:
        """The steps after a state from `start` as C functions, for up to `longest` tokens; None where only `step` knows
        them.
        """
        whole, latest, rows = state.whole, state.clock.latest, rows_of(state.pasts[0])
        own = has_methods_of(GPT, self, "step")
        if whole is None or not own or torch.is_grad_enabled() or self.training or is_recording():
            return None
        room = latest + longest
        if state.alike % beam or room > (self.max_length or room) or DecoderRun.bytes(whole, rows, room) > LARGEST:
            return None
        positions = partial(first_vectors, self.position, self.max_length)
        run = DecoderRun(whole, positions, (), beam, room, places=rows // beam)
        run.go_on(cast(tuple[Tensor, ...], state.pasts), state.clock)
        return run


def _through(block: CausalBlock, x: Tensor, look_back: Callable[[Tensor], Tensor]) -> Tensor:
    """A block whose attention the caller computes."""
    return block.feedforward_residual(block.attention_residual(x, look_back), block.feedforward)
