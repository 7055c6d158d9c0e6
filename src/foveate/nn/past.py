"""The past of a self-attention: keys and values of the positions so far, with room for those to come."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from foveate.attention import Positions
from foveate.nn.multihead import KeyValue, MultiHeadAttention

ROOM_STEP = 16
"""Rooms are multiples of this many positions: CPU kernels run short, odd lengths several times slower."""

Past = Float[Tensor, "2 rows heads _ head_dim"]
"""Keys, then values. The room is larger than what is filled."""


def past_of(memory: KeyValue, beam: int = 1) -> Past:
    """The past after positions that were attended to all at once, for `beam` rows of each."""
    past = torch.stack([memory.key, memory.value]).repeat_interleave(beam, dim=1)
    return _widened(past, -past.shape[3] % ROOM_STEP)


def with_room(past: Past, time: int) -> Past:
    """The same past with a free place at `time`; it grows by its own length, so that copying stays rare."""
    return past if time < past.shape[3] else _widened(past, max(ROOM_STEP, past.shape[3]))


def standing(past: Past, time: int) -> Positions:
    """Where the query of a step stands. What is still free lies after it."""
    at = Positions.of(1, past.shape[3], query_start=time, device=past.device)
    return replace(at, zeroed=True)


def attend_to_past(
    attention: MultiHeadAttention, x: Float[Tensor, "rows model_dim"], *, past: Past, time: int, at: Positions
) -> Float[Tensor, "rows model_dim"]:
    """One new position of every row attends to all up to itself; its key and value are written into the past."""
    queries, new = attention.project(x[:, None])
    past[:, :, :, time] = torch.stack(new)[:, :, :, 0]
    return attention.attend(queries, KeyValue(past[0], past[1]), at=at)[:, 0]


def attend_and_keep(
    attention: MultiHeadAttention,
    x: Float[Tensor, "batch length model_dim"],
    *,
    at: Positions,
    beam: int,
    pasts: list[Past],
) -> Float[Tensor, "batch length model_dim"]:
    """Self-attention of all positions at once, which leaves its keys and values as a past for `beam` rows of each."""
    queries, memory = attention.project(x)
    pasts.append(past_of(memory, beam))
    return attention.attend(queries, memory, at=at) if x.shape[1] else torch.zeros_like(x)


def _widened(past: Past, places: int) -> Past:
    if not places:
        return past
    return torch.cat([past, past.new_zeros(*past.shape[:3], places, past.shape[4])], 3)
