"""Steps of a decoder as C functions, for loops that do not return to Python between two steps."""

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.nn.multihead import KeyValue
from foveate.nn.prepared.flat_step import LANES, DecoderStep, LayerCache, RowPlaces
from foveate.nn.prepared.slot import Slots

LARGEST = 2**28
"""The most bytes of caches that are allotted at once; with more, caches should grow step by step."""


class _Run(ctypes.Structure):
    _fields_ = [
        ("decoder", ctypes.c_void_p),
        ("kept", ctypes.c_void_p),
        ("rows", RowPlaces),
        *((name, ctypes.c_void_p) for name in ("positions", "counts", "room", "rounded", "queries", "spare")),
        ("threads", ctypes.c_int64),
    ]


class DecoderRun:
    """A decoder from its first step on. `address` goes to the functions `step` and `select` (`flat.cpp`, `Run`)."""

    def __init__(
        self,
        step: DecoderStep,
        positions: Float[Tensor, "longest model_dim"],
        memory: Sequence[KeyValue],
        lengths: Int[Tensor, " sentences"],
        beam: int,
    ) -> None:
        """`positions` are added to the embeddings of each time; there is room for as many tokens."""
        self.vocab, sentences = step.vocab, len(lengths)
        rows, room = sentences * beam, -(-len(positions) // LANES) * LANES
        sizes = step.sizes(rows, max(room, memory[0].key.shape[2]))
        cache = [torch.empty(2 * rows * room * step.width, dtype=step.dtype) for _ in memory]
        slots = Slots.of(torch.arange(sentences), beam, room)
        buffers = [torch.empty(size, dtype=kind) for size, kind in sizes.values()]
        spare = None if slots.table is None else torch.empty_like(slots.table)
        own = (positions.to(step.dtype).contiguous(), lengths.clone(), slots.of_sentences.clone(), slots.of_rows)
        layers = (LayerCache * len(cache))(
            *(
                LayerCache(past.data_ptr(), each.key.data_ptr(), each.value.data_ptr())
                for past, each in zip(cache, memory, strict=True)
            )
        )
        places = RowPlaces(
            *(rows, beam, 0, None, own[1].data_ptr(), rows, room, memory[0].key.shape[2]),
            *(own[2].data_ptr(), own[3].data_ptr(), None if slots.table is None else slots.table.data_ptr()),
        )
        self._run = _Run(
            *(ctypes.addressof(step.decoder), ctypes.addressof(layers), places, own[0].data_ptr()),
            *(buffer.data_ptr() for buffer in buffers),
            *(None if spare is None else spare.data_ptr(), torch.get_num_threads()),
        )
        self._alive: list[Any] = [step, cache, memory, own, slots, spare, buffers, layers]
        self.address = ctypes.addressof(self._run)
        self.step, self.select = (
            ctypes.cast(function, ctypes.c_void_p).value
            for function in (step.library.run_step, step.library.run_select)
        )

    @staticmethod
    def bytes(step: DecoderStep, rows: int, longest: int) -> int:
        """The size of the caches."""
        return 2 * rows * longest * step.width * step.dtype.itemsize * len(step.blocks)
