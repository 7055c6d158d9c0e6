"""The state of a Transformer's decoder between two words, and how rows of states are selected, reordered and joined."""

from dataclasses import dataclass, replace
from typing import cast

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import pad

from foveate.attention import Positions
from foveate.data.batch import Batch
from foveate.models.seq2seq import selected_sentences
from foveate.nn.clock import Clock
from foveate.nn.multihead import KeyValue
from foveate.nn.past import Past, Stored, joined, selected
from foveate.nn.prepared.flat_block import FlatBlock
from foveate.nn.prepared.flat_step import DecoderStep
from foveate.nn.prepared.slot import Slots, filled

TABLE_ROWS = 64
"""The rows from which on a table of slots is faster than copies of the pasts."""


@dataclass(frozen=True, eq=False)
class TransformerState:
    """The state of a decoder between two words. It can be used for one step only, like a `GPTState`."""

    memory: tuple[KeyValue, ...]
    """Per layer, keys and values of the encoder's output: one per sentence, shared by its hypotheses."""
    memory_at: Positions
    memory_lengths: Int[Tensor, " sentences"]
    cache: tuple[Past, ...]
    """Per layer, keys and values of the words so far, with room for more; for kernel attention, their sum."""
    beam: int
    clock: Clock
    flat: tuple[FlatBlock, ...] | None = None
    """The decoder's blocks prepared for single steps, if they have a flat form."""
    whole: DecoderStep | None = None
    """One kernel for the whole step, if it supports the model and the number of rows."""
    slots: Slots | None = None
    """The places of rows and sentences in `cache` and `memory`, once the kernel's rows were reordered or joined."""


def memory_positions(queries: int, source: Batch) -> Positions:
    """Positions of source tokens as keys. Unpacked projections are zero at padding."""
    at = Positions.of(queries, source.length, key_lengths=source.lengths)
    return replace(at, zeroed=True)


def stored_pasts(state: TransformerState) -> tuple[Stored, ...]:
    """The pasts of flat blocks, which are keys and values."""
    return cast(tuple[Stored, ...], state.cache)


def selected_rows(state: TransformerState, rows: Int[Tensor, " new_rows"]) -> TransformerState:
    """A copy of the selected rows."""
    state = own(state)
    part, sentences = _selected_part(state, rows)
    if sentences is not None:
        memory = tuple(KeyValue(*(part.index_select(0, sentences) for part in layer)) for layer in state.memory)
        part = replace(part, memory=memory)
    return replace(part, cache=tuple(selected(past, rows) for past in state.cache))


def reordered(state: TransformerState, rows: Int[Tensor, " new_rows"]) -> TransformerState:
    """The selected rows of a state of the kernel, whose caches stay as they are."""
    slots = state.slots
    if slots is None:
        if len(rows) < TABLE_ROWS:
            return selected_rows(state, rows)
        slots = _slots(state)
    if len(rows) == len(slots.of_rows):  # all sentences go on, and rows continue others of their own sentence
        return replace(state, slots=slots.reordered(rows, None))
    part, sentences = _selected_part(state, rows)
    return replace(part, slots=slots.reordered(rows, sentences))


def joined_states(state: TransformerState, later: TransformerState) -> TransformerState:
    """The rows of both states, which this uses up. Rows of the kernel take free slots of the first state.

    Raises ValueError for states with another number of rows for each sentence.
    """
    if state.beam != later.beam:
        raise ValueError(f"States with {state.beam} and {later.beam} rows for each sentence cannot be joined.")
    if state.whole is not None and state.whole is later.whole:
        return _boarded(state, own(later))
    return _joined(own(state), own(later))


def _selected_part(
    state: TransformerState, rows: Int[Tensor, " new_rows"]
) -> tuple[TransformerState, Int[Tensor, " new_sentences"] | None]:
    """The state of the selected rows but for its caches, and the sentences; None if these are all in order."""
    sentences = selected_sentences(rows, state.beam, len(state.memory_lengths))
    if state.clock.rows is not None:
        state = replace(state, clock=state.clock.select(rows))
    if sentences is None:
        return state, None
    lengths = state.memory_lengths[sentences]
    return replace(state, memory_at=state.memory_at.select(sentences), memory_lengths=lengths), sentences


def _slots(state: TransformerState) -> Slots:
    """The slots of a state, which has them or has its rows in order."""
    if state.slots is not None:
        return state.slots
    return Slots.of(torch.arange(len(state.memory_lengths)), state.beam, stored_pasts(state)[0].shape[3])


def own(state: TransformerState) -> TransformerState:
    """The state with a copy of its rows and sentences in order, if they stood in slots."""
    slots = state.slots
    if slots is None:
        return state
    cache = tuple(slots.gathered(past, state.clock) for past in stored_pasts(state))
    return replace(state, cache=cache, memory=tuple(map(slots.remembered, state.memory)), slots=None)


def _boarded(state: TransformerState, later: TransformerState) -> TransformerState:
    """The state with the rows of another one in free slots. Where these do not suffice, there are twice as many."""
    count, places, beam = len(later.memory_lengths), len(state.memory[0].key), state.beam
    slots = _slots(state)
    needed = len(state.memory_lengths) + count
    places = places if needed <= places else max(2 * places, needed)
    room = max(part[0].shape[3] for part in map(stored_pasts, (state, later)))
    source_room = max(part.memory[0].key.shape[2] for part in (state, later))
    new = Slots.of(slots.free(places, count), beam, room)
    memory = tuple(
        KeyValue(
            *(
                filled(*parts, new.of_sentences, axis=0, places=places, room=source_room)
                for parts in zip(*pair, strict=True)
            )
        )
        for pair in zip(state.memory, later.memory, strict=True)
    )
    cache = tuple(
        filled(*pair, new.of_rows, axis=1, places=places * beam, room=room)
        for pair in zip(stored_pasts(state), stored_pasts(later), strict=True)
    )
    return replace(_joined_part(state, later, source_room), memory=memory, cache=cache, slots=slots.joined(new))


def _joined(state: TransformerState, later: TransformerState) -> TransformerState:
    """The rows of two states one after the other."""
    room = max(part.memory[0].key.shape[2] for part in (state, later))
    part = _joined_part(state, later, room)
    memory = tuple(
        KeyValue(
            *(
                torch.cat([pad(each, (0, 0, 0, room - each.shape[2])) for each in parts])
                for parts in zip(*pair, strict=True)
            )
        )
        for pair in zip(state.memory, later.memory, strict=True)
    )
    pairs = zip(state.cache, later.cache, strict=True)
    return replace(part, memory=memory, cache=tuple(joined(*pair, part.clock.latest) for pair in pairs))


def _joined_part(state: TransformerState, later: TransformerState, room: int) -> TransformerState:
    """The state of both states' rows but for its caches."""
    lengths = torch.cat([state.memory_lengths, later.memory_lengths])
    at = replace(Positions.of(state.beam, room, key_lengths=lengths), zeroed=True)
    rows = (len(state.memory_lengths) * state.beam, len(later.memory_lengths) * state.beam)
    clock = state.clock.joined(later.clock, rows, lengths.device)
    return replace(state, memory_lengths=lengths, memory_at=at, clock=clock)
