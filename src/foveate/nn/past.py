"""The past of a self-attention: its state after the positions so far.

Most attentions keep keys and values, with room for later ones, and a step costs more the longer the past is. Kernel
attention (linear, Performer) keeps one sum, so that the cost of a step is constant.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.attention import Positions
from foveate.attention.efficient import RunningSum, running_sum
from foveate.attention.record import is_recorded, note
from foveate.nn.clock import Clock
from foveate.nn.multihead import KeyValue, MultiHeadAttention

ROOM_STEP = 16
"""Room is allocated in multiples of this many positions: CPU kernels are several times slower on short, odd lengths."""

Stored = Float[Tensor, "2 _ heads _ head_dim"]
"""Keys, then values, of every row. The fourth axis, the room, is longer than the past."""


@dataclass(frozen=True, eq=False)
class Summed:
    """The past of kernel attention."""

    total: RunningSum
    stored: Stored | None
    """Keys and values, only if a recording was on when the past began."""


Past = Stored | Summed


def past_of(attention: MultiHeadAttention, memory: KeyValue, beam: int = 1) -> Past:
    """The past after positions that were computed all at once, repeated for `beam` rows of each."""
    memory = KeyValue(*(part.repeat_interleave(beam, dim=0) for part in memory))
    dropped = attention.training and attention.dropout > 0  # dropout cannot be applied to a sum
    total = None if dropped else running_sum(attention.attention, *memory)
    if total is None:
        return _stored(memory)
    return Summed(total, _stored(memory) if is_recorded(total.attention) else None)


def no_past(attention: MultiHeadAttention, rows: int) -> Past:
    """The past before the first position."""
    weight, heads = attention.key.weight, attention.num_kv_heads
    dims = (attention.head_dim, attention.value_head_dim)
    return past_of(attention, KeyValue(*(weight.new_zeros(rows, heads, 0, dim) for dim in dims)))


def with_room(past: Past, clock: Clock) -> Past:
    """The same past with a free position at each row's time. It doubles when it grows, so that copies are rare."""
    if isinstance(past, Summed):
        return past if past.stored is None else replace(past, stored=_with_room(past.stored, clock.latest))
    return _with_room(past, clock.latest)


def room_for(past: Past, positions: int) -> Past:
    """The same past with room for at least this many positions."""
    if isinstance(past, Summed):
        return past if past.stored is None else replace(past, stored=_room_for(past.stored, positions))
    return _room_for(past, positions)


def selected(past: Past, rows: Int[Tensor, " new_rows"]) -> Past:
    """The past of the selected rows."""
    if isinstance(past, Summed):
        stored = None if past.stored is None else past.stored.index_select(1, rows)
        return Summed(past.total.select(rows), stored)
    return past.index_select(1, rows)


def moved(past: Past, rows: Sequence[int]) -> Past:
    """The past of the selected rows, which uses this one up: a row that keeps its place is not copied.

    That is so where no row is taken from a place that another one gets.
    """
    places = [place for place, row in enumerate(rows) if place != row]
    sources = [rows[place] for place in places]
    if isinstance(past, Summed) or len(rows) > past.shape[1] or not set(places).isdisjoint(sources):
        device = past.total.total.device if isinstance(past, Summed) else past.device
        return selected(past, torch.tensor(rows, dtype=torch.int64, device=device))
    for place, source in zip(places, sources, strict=True):
        past[:, place] = past[:, source]
    return past[:, : len(rows)]


def rows_of(past: Past) -> int:
    """The number of rows."""
    return len(past.total.total) if isinstance(past, Summed) else past.shape[1]


def places_of(past: Stored) -> int:
    """The number of rows for which there is memory: joined pasts have some to spare. 0 if rows do not follow each
    other.
    """
    _, _, heads, room, dim = past.shape
    dense = past.stride()[1:] == (heads * room * dim, room * dim, dim, 1)
    return past.stride(0) // past.stride(1) if dense else 0


def joined(past: Past, later: Past, latest: int) -> Past:
    """The rows of both pasts, with room for `latest` positions. This uses up the first one: it may keep its memory,
    with places for rows that come later.

    Raises ValueError for sums if only one of the two was recorded.
    """
    if isinstance(past, Summed) and isinstance(later, Summed):
        if (past.stored is None) != (later.stored is None):
            raise ValueError("One of two states was recorded and the other was not: they cannot be joined.")
        stored = None
        if past.stored is not None and later.stored is not None:
            stored = _joined(past.stored, later.stored, latest)
        return Summed(past.total.joined(later.total), stored)
    assert isinstance(past, Tensor)
    assert isinstance(later, Tensor)
    return _joined(past, later, latest)


def without(past: Stored, clock: Clock) -> Stored:
    """The same past with zeros at and after each row's time."""
    used = torch.arange(past.shape[3], device=past.device) < clock.of_rows(past.shape[1], past.device)[:, None]
    return past.masked_fill(~used[:, None, :, None], 0.0)


def write(past: Stored, new: Float[Tensor, "2 rows heads head_dim"], clock: Clock) -> None:
    """Write keys and values in place at each row's time."""
    if clock.rows is None:
        past[:, :, :, clock.latest] = new
    else:
        past[:, torch.arange(past.shape[1], device=past.device), :, clock.rows] = new.transpose(0, 1)


def standing(past: Stored, clock: Clock, length: int = 1) -> Positions:
    """The positions of the queries of a step, or of `length` tokens at once. Unused room lies after them."""
    at = Positions.of(length, past.shape[3], query_start=clock.latest, device=past.device)
    if clock.rows is not None:
        at = replace(at, query=clock.next(length, past.shape[1], past.device)[:, None, :, None])
    return replace(at, zeroed=True)


def standing_in(pasts: Sequence[Past], clock: Clock, length: int = 1) -> Positions | None:
    """The positions of the queries, common to all layers, so that rules are evaluated once; None if all pasts are sums,
    which have no positions.
    """
    stored = next((past for past in pasts if not isinstance(past, Summed)), None)
    return None if stored is None else standing(stored, clock, length)


def attend_to_past(
    attention: MultiHeadAttention,
    x: Float[Tensor, "rows model_dim"],
    *,
    past: Past,
    at: Positions | None,
    clock: Clock,
    pasts: list[Tensor | Summed],
) -> Float[Tensor, "rows model_dim"]:
    """Attend from one new position of every row to all positions up to itself, and append the new past to `pasts`.

    Keys and values are written in place into the room of the past; sums are new tensors. `at` comes from `standing_in`.
    """
    queries, new = attention.project(x[:, None])
    if not isinstance(past, Summed):
        write(past, torch.stack(new)[:, :, :, 0], clock)
        pasts.append(past)
        return attention.attend(queries, KeyValue(past[0], past[1]), at=at)[:, 0]
    total = past.total.and_then(*new)
    pasts.append(Summed(total, _watched(past, queries, new, clock)))
    return attention.output(total.context(queries).transpose(1, 2).flatten(-2))[:, 0]


def attend_further(
    attention: MultiHeadAttention,
    x: Float[Tensor, "rows length model_dim"],
    *,
    past: Stored,
    at: Positions | None,
    clock: Clock,
    pasts: list[Tensor | Summed],
) -> Float[Tensor, "rows length model_dim"]:
    """`attend_to_past` from several new positions of every row at once; each sees itself and earlier ones."""
    queries, new = attention.project(x)
    rows, length = x.shape[:2]
    both = torch.stack(tuple(new))
    if clock.rows is None:
        past[:, :, :, clock.latest : clock.latest + length] = both
    else:
        place = clock.next(length, rows, past.device)
        past[:, torch.arange(rows, device=past.device)[:, None], :, place] = both.permute(1, 3, 0, 2, 4)
    pasts.append(past)
    return attention.attend(queries, KeyValue(past[0], past[1]), at=at)


def attend_and_keep(
    attention: MultiHeadAttention,
    x: Float[Tensor, "batch length model_dim"],
    *,
    at: Positions,
    beam: int,
    pasts: list[Tensor | Summed],
) -> Float[Tensor, "batch length model_dim"]:
    """Self-attention of all positions at once. Appends the past, for `beam` rows of each, to `pasts`."""
    queries, memory = attention.project(x)
    pasts.append(past_of(attention, memory, beam))
    return attention.attend(queries, memory, at=at) if x.shape[1] else torch.zeros_like(x)


def _watched(past: Summed, queries: Tensor, new: KeyValue, clock: Clock) -> Stored | None:
    """Keys and values after a step, for a recording; the sum does not contain them."""
    attention, stored = past.total.attention, past.stored
    recorded = is_recorded(attention)
    if stored is None and recorded:
        if clock.latest:
            raise ValueError(
                f"{type(attention).__name__} keeps a sum instead of keys, and the recording began after the first "
                "position. Start decoding inside `with record(model)`."
            )
        stored = torch.zeros_like(torch.stack(new)).expand(-1, -1, -1, ROOM_STEP, -1).clone()
    if stored is not None:
        write(stored, torch.stack(new)[:, :, :, 0], clock)
    if stored is not None and recorded:
        note(attention, attention.kind, queries, stored[0], standing(stored, clock))
    return stored


def _room_for(past: Stored, positions: int) -> Stored:
    return _widened(past, max(0, positions + -positions % ROOM_STEP - past.shape[3]))


def _stored(memory: KeyValue) -> Stored:
    past = torch.stack(tuple(memory))
    return _widened(past, -past.shape[3] % ROOM_STEP)


def _with_room(past: Stored, time: int) -> Stored:
    return past if time < past.shape[3] else _widened(past, max(ROOM_STEP, past.shape[3]))


def _joined(past: Stored, later: Stored, latest: int) -> Stored:
    room, rows = latest + -latest % ROOM_STEP, past.shape[1]
    total, used = rows + later.shape[1], min(later.shape[3], room)
    if places_of(past) < total or not room <= past.shape[3] <= 2 * room:
        shape = (2, max(2 * rows, total), past.shape[2], room, past.shape[4])
        larger, length = past.new_empty(shape)[:, :rows], min(past.shape[3], room)
        larger[:, :, :, :length], larger[:, :, :, length:] = past[:, :, :, :length], 0.0
        past = larger
    both = past.as_strided((2, total, *past.shape[2:]), past.stride(), past.storage_offset())
    both[:, rows:, :, :used], both[:, rows:, :, used:] = later[:, :, :, :used], 0.0
    return both


def _widened(past: Stored, places: int) -> Stored:
    if not places:
        return past
    return torch.cat([past, past.new_zeros(*past.shape[:3], places, past.shape[4])], 3)
