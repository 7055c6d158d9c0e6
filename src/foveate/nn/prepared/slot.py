"""Slots: where the pasts and the memories of a decoder's rows stand in caches that are never reordered.

Beam search replaces hypotheses by others at every step. Instead of their keys and values, a table is reordered: it says
at which row of the cache each earlier position of a hypothesis stands. A row always writes to its own slot, and other
sentences take the slots of those that have left.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Int, Int32
from torch import Tensor
from torch.nn.functional import pad

from foveate.nn.clock import Clock
from foveate.nn.multihead import KeyValue
from foveate.nn.past import Stored, without


@dataclass(frozen=True, eq=False)
class Slots:
    """The slots of sentences with `beam` rows each."""

    beam: int
    of_sentences: Int[Tensor, " sentences"]
    """The slot of each sentence: its place in the memory."""
    of_rows: Int[Tensor, " rows"]
    """The row of the cache to which each row writes."""
    table: Int32[Tensor, "rows room"] | None
    """The row of the cache at which each earlier position stands; None for a beam of 1, which reads its own row."""

    @classmethod
    def of(cls, sentences: Int[Tensor, " sentences"], beam: int, room: int) -> "Slots":
        """Slots whose rows read what they write."""
        rows = (sentences[:, None] * beam + torch.arange(beam)).flatten()
        table = None if beam == 1 else rows[:, None].to(torch.int32).expand(-1, room).contiguous()
        return cls(beam, sentences, rows, table)

    def reordered(self, rows: Int[Tensor, " new_rows"], sentences: Int[Tensor, " new_sentences"] | None) -> "Slots":
        """The slots after rows continue others of their sentence, and only some sentences go on."""
        table = None if self.table is None else self.table.index_select(0, rows)
        if sentences is None:
            return Slots(self.beam, self.of_sentences, self.of_rows, table)
        of_rows = self.of_rows.view(-1, self.beam)[sentences].flatten()
        return Slots(self.beam, self.of_sentences[sentences], of_rows, table)

    def with_room(self, room: int) -> "Slots":
        """The same slots with a table for this many positions."""
        if self.table is None or self.table.shape[1] >= room:
            return self
        return replace(self, table=pad(self.table, (0, room - self.table.shape[1])))

    def joined(self, later: "Slots") -> "Slots":
        """These slots, then others."""
        table = None
        if self.table is not None and later.table is not None:
            room = max(self.table.shape[1], later.table.shape[1])
            table = torch.cat([each.with_room(room).table for each in (self, later)])  # type: ignore[misc]
        sentences = torch.cat([self.of_sentences, later.of_sentences])
        return Slots(self.beam, sentences, torch.cat([self.of_rows, later.of_rows]), table)

    def free(self, places: int, count: int) -> Int[Tensor, " free"]:
        """Up to `count` slots among these places that no sentence has."""
        taken = torch.zeros(places, dtype=torch.bool)
        taken[self.of_sentences] = True
        return (~taken).nonzero()[:count, 0]

    def gathered(self, cache: Stored, clock: Clock) -> Stored:
        """The past of each row as if it had been reordered itself, with zeros in its free room."""
        if self.table is None:
            return without(cache.index_select(1, self.of_rows), clock)
        places = torch.arange(cache.shape[3])
        gathered = cache.transpose(2, 3)[:, self.table[:, : cache.shape[3]].long(), places]
        return without(gathered.transpose(2, 3), clock).contiguous()

    def remembered(self, memory: KeyValue) -> KeyValue:
        """The memory of each sentence."""
        return KeyValue(*(part.index_select(0, self.of_sentences) for part in memory))


def filled(cache: Tensor, new: Tensor, at: Int[Tensor, " new"], *, axis: int, places: int, room: int) -> Tensor:
    """A cache with `new` at these places of an axis, written in place unless it needs more places or more room.

    The room is the last axis but one.
    """
    more, longer = places - cache.shape[axis], room - cache.shape[-2]
    if more > 0 or longer > 0:
        shape = list(cache.shape)
        shape[axis], shape[-2] = max(places, shape[axis]), max(room, shape[-2])
        larger = cache.new_zeros(shape)
        larger.narrow(axis, 0, cache.shape[axis]).narrow(-2, 0, cache.shape[-2]).copy_(cache)
        cache = larger
    count = new.shape[-2]
    if count:  # what an empty past leaves in its places is never read
        cache.narrow(-2, count, cache.shape[-2] - count).index_fill_(axis, at, 0.0)
        cache.narrow(-2, 0, count).index_copy_(axis, at, new)
    return cache
