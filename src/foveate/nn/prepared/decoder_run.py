"""Steps of a decoder as C functions, for loops that do not return to Python between two steps."""

import ctypes
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate import native
from foveate.nn.clock import Clock
from foveate.nn.multihead import KeyValue
from foveate.nn.past import Stored
from foveate.nn.prepared.flat_encoder import EncoderPass
from foveate.nn.prepared.flat_step import LANES, DecoderStep, RowPlaces, layer_caches

LARGEST = 2**28
"""The most bytes of caches that are allotted at once; with more, caches should grow step by step."""
MEMORY = 2**27
"""The most bytes of keys and values of sources in slots, unless one source alone needs more."""
ROOM = 64
"""The tokens, of a source and of a hypothesis, for which slots have room at first."""
PositionVectors = Callable[[int], Float[Tensor, "count model_dim"]]
"""The vectors of the first positions: as many as asked for, or as many as there are."""


class _Run(ctypes.Structure):
    _fields_ = [
        ("decoder", ctypes.c_void_p),
        ("kept", ctypes.c_void_p),
        ("rows", RowPlaces),
        *((name, ctypes.c_void_p) for name in ("positions", "standing")),
        *((name, ctypes.c_void_p) for name in ("counts", "room", "rounded", "queries", "spare")),
        ("threads", ctypes.c_int64),
        ("cells", ctypes.c_int64),
    ]


class DecoderRun:
    """A decoder's steps for sentences that begin at different times, each in a place of its own. `address` goes to the
    functions `step` and `select` (`flat.cpp`, `Run`).
    """

    def __init__(
        self,
        step: DecoderStep,
        positions: PositionVectors,
        memory: Sequence[KeyValue],
        beam: int,
        room: int,
        places: int | None = None,
    ) -> None:
        """`positions` are added to the embeddings. The memory has a place for every sentence or, with `places`, cells
        in which the sources of that many sentences stand side by side; it is empty without cross-attention. There is
        room for hypotheses of `room` tokens.
        """
        step.require_dtype(*(part for each in memory for part in each))
        self.vocab, self.beam, self.memory, self.room = step.vocab, beam, tuple(memory), 0
        self._step, self._positions, self._run = step, positions, _Run()
        self._memory_room, places = (0, places) if places else (memory[0].key.shape[2], len(memory[0].key))
        self._of_sentences, self._lengths = torch.zeros(2, places, dtype=torch.int64)
        self._of_rows, self._times = torch.zeros(2, places * beam, dtype=torch.int64)
        self._cache, self._tables = list[Tensor](), list[Tensor]()
        self._run.rows.beam = beam
        self.address = ctypes.addressof(self._run)
        self.step, self.select = (
            ctypes.cast(function, ctypes.c_void_p).value
            for function in (step.library.run_step, step.library.run_select)
        )
        self._allot(room)

    @property
    def rows(self) -> int:
        """The number of hypotheses of all sentences."""
        return int(self._run.rows.count)

    @staticmethod
    def bytes(step: DecoderStep, rows: int, longest: int) -> int:
        """The size of the caches."""
        return 2 * rows * longest * step.width * step.dtype.itemsize * len(step.blocks)

    def join(self, places: Int[Tensor, " sentences"], lengths: Int[Tensor, " sentences"]) -> None:
        """Begin sentences, whose sources of these lengths stand in places of the memory, after the others."""
        places, lengths = places.contiguous(), lengths.contiguous()
        self._step.library.run_join(
            ctypes.byref(self._run), *map(native.address, (places, places, lengths)), ctypes.c_int64(len(places))
        )

    def go_on(self, pasts: Sequence[Stored], clock: Clock) -> None:
        """Begin all sentences after prompts that were read. The rows of a sentence share the past of the first one."""
        count = torch.arange(len(self._of_sentences))
        self.join(count, torch.zeros_like(count))
        self._times.copy_(clock.of_rows(len(self._times)))
        used = clock.latest
        for cache, past in zip(self._cache, pasts, strict=True):
            cache[:, :: self.beam, :, :used] = past[:, :: self.beam, :, :used]
        for table in self._tables[:1]:
            table[:, :used] = torch.arange(len(table))[:, None] // self.beam * self.beam

    def _allot(self, room: int) -> None:
        """Make room for this many tokens, and tell the kernel where everything stands."""
        step, run, before, rows = self._step, self._run, self.room, len(self._of_rows)
        used = self._of_rows[: run.rows.count]
        heads, self.room = step.decoder.heads, -(-room // LANES) * LANES
        shape = (2, rows, heads, self.room, step.width // heads)
        cache = [torch.empty(shape, dtype=step.dtype) for _ in step.blocks]
        tables = [torch.empty(rows, self.room, dtype=torch.int32) for _ in range(2)] if self.beam > 1 else []
        for new, old in zip(cache, self._cache, strict=False):
            new[:, used, :, :before] = old[:, used]
        if tables and self._tables:
            now = next(table for table in self._tables if table.data_ptr() == run.rows.table)
            tables[0][: len(used), :before] = now[: len(used)]
        self._cache, self._tables = cache, tables
        self._point()

    def _point(self) -> None:
        """Tell the kernel where everything stands."""
        step, run, rows = self._step, self._run, len(self._of_rows)
        if self._tables and run.rows.table == self._tables[1].data_ptr():
            self._tables.reverse()  # the kernel exchanges them at every choice of rows
        layers = layer_caches(self._cache, self.memory)
        sizes = step.sizes(rows)
        buffers = [torch.empty(size, dtype=kind) for size, kind in sizes.values()]
        positions = self._positions(self.room).to(step.dtype).contiguous()
        standing = torch.empty(rows, step.width, dtype=step.dtype)
        table, spare = [each.data_ptr() for each in self._tables] or (None, None)
        places = RowPlaces(
            *(run.rows.count, self.beam, 0, self._times.data_ptr(), self._lengths.data_ptr()),
            *(rows, self.room, self._memory_room, self._of_sentences.data_ptr(), self._of_rows.data_ptr(), table),
        )
        addresses = (part.data_ptr() for part in (positions, standing, *buffers))
        whole = (ctypes.addressof(step.decoder), ctypes.addressof(layers))
        cells = len(self.memory[0].key) if self.memory else 0
        new = _Run(*whole, places, *addresses, spare, torch.get_num_threads(), cells)
        ctypes.memmove(self.address, ctypes.addressof(new), ctypes.sizeof(new))
        self._alive: list[Any] = [layers, buffers, positions, standing]


class _Input(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("embedding", "positions")),
        ("scale", ctypes.c_double),
        ("vocab", ctypes.c_int64),
    ]


class SlotRun(DecoderRun):
    """A decoder's steps for sentences that come and go, with the encoder of their sources."""

    def __init__(
        self,
        step: DecoderStep,
        encoding: EncoderPass,
        embedding: Float[Tensor, "vocab model_dim"],
        scale: float,
        positions: tuple[PositionVectors, PositionVectors],
        *,
        places: int,
        beam: int,
    ) -> None:
        """The encoder reads `scale` times the embeddings and the first of the `positions`, which are those of sources
        and of targets. There are up to `places` sentences.
        """
        self._encoding, self._embedding, self._scale, self._source_positions = encoding, embedding, scale, positions[0]
        self._usual = places * ROOM
        super().__init__(step, positions[1], _memory(step, self._usual), beam, ROOM, places)
        self._read(ROOM)

    def serves(self, step: DecoderStep, encoding: EncoderPass, embedding: Float[Tensor, "vocab model_dim"]) -> bool:
        """Whether this can go on with these weights; not if it has grown, so that its memory is released."""
        same = step is self._step and encoding is self._encoding
        return not self.has_grown and same and embedding.data_ptr() == self._embedding.data_ptr()

    @property
    def has_grown(self) -> bool:
        """Whether long sources or hypotheses have needed more than the usual memory."""
        return max(self.room, len(self._places)) > ROOM or self._cells > self._usual

    @property
    def _cells(self) -> int:
        """The tokens of sources for which there is memory."""
        return len(self.memory[0].key)

    def most(self, length: int) -> int:
        """The most sentences whose hypotheses may have so many tokens, at least one."""
        return max(1, LARGEST // self.bytes(self._step, self.beam, length))

    def board(self, sources: Sequence[Sequence[int]], places: Sequence[int]) -> int:
        """Encode sources and begin their sentences, after the others, in free places. Returns how many of the first
        have begun: others wait until there is memory. If nothing is in flight, at least one begins.

        Raises ValueError for a source with more tokens than there are positions, IndexError for an unknown token.
        """
        lengths = list(map(len, sources))
        tokens, numbers = ctypes.c_int64 * sum(lengths), ctypes.c_int64 * len(sources)
        longest = max(lengths, default=0)
        if longest > len(self._places):
            self._read(max(longest, 2 * len(self._places)))
        if longest > len(self._places):  # the kernel would read what lies behind them
            raise ValueError(
                f"A source has {longest} tokens, but the model has {len(self._places)} positions. Shorten it, or train "
                "with a larger position.max_length."
            )
        self._run.threads = torch.get_num_threads()
        begun = self._step.library.run_board(
            *map(ctypes.byref, (self._run, self._encoding.structure, self._input)),
            tokens(*itertools.chain.from_iterable(sources)),
            *(numbers(*part) for part in (lengths, places)),
            ctypes.c_int64(len(sources)),
        )
        if begun < 0:
            raise IndexError(f"A source has tokens that are not in the vocabulary of {len(self._embedding)}.")
        if begun < len(sources) and self._grows(sum(lengths[begun:]), lengths[begun]):
            begun += self.board(sources[begun:], places[begun:])
        return int(begun)

    def require_room(self, tokens: int) -> None:
        """Make room for hypotheses of so many tokens."""
        if tokens > self.room:
            self._allot(max(2 * self.room, tokens))

    def _grows(self, tokens: int, first: int) -> bool:
        """Make more memory for sources of so many tokens, the first of so many. Whether there was any to be had."""
        before, memory = self._cells, self.memory
        most = MEMORY // (2 * self._step.width * self._step.dtype.itemsize * len(memory))
        if not self._run.rows.count:
            most = max(most, first)
        cells = min(most, before + max(before, tokens))
        if cells <= before:
            return False
        self.memory = _memory(self._step, cells)
        for new, old in zip(self.memory, memory, strict=True):
            for part, former in zip(new, old, strict=True):
                part[:before] = former
        self._point()
        return True

    def _read(self, length: int) -> None:
        """Tell the encoder where its input stands, for sources of up to so many tokens."""
        self._places = self._source_positions(length).to(self._step.dtype).contiguous()
        addresses = self._embedding.data_ptr(), self._places.data_ptr()
        self._input = _Input(*addresses, self._scale, len(self._embedding))

    def keep(self, rows: Int[Tensor, " new_rows"]) -> None:
        """Go on with these rows only."""
        self._step.library.run_select(ctypes.byref(self._run), native.address(rows), ctypes.c_int64(len(rows)))


def _memory(step: DecoderStep, cells: int) -> tuple[KeyValue, ...]:
    """Memory for sources of so many tokens together."""
    return tuple(KeyValue(*(torch.empty(cells, step.width, dtype=step.dtype) for _ in range(2))) for _ in step.blocks)
