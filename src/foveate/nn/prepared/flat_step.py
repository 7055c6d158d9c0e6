"""A whole step of a decoder in one kernel.

The products of a step are too small to hide the cost of calls, dispatch and allocation between them. `flat.cpp` reads
weights from panels in the order of their use and computes everything else in float32, including the logits. A row's
result does not depend on the other rows, to the bit.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate import native
from foveate.attention import Positions
from foveate.attention.record import note
from foveate.nn.clock import Clock
from foveate.nn.int8 import Int8Product, ProductPanels
from foveate.nn.multihead import KeyValue
from foveate.nn.past import places_of
from foveate.nn.prepared.flat_block import FlatBlock, FlatEncoderBlock, Product, kernels, other_shapes
from foveate.nn.prepared.kernel_weight import KernelWeights, Norm
from foveate.nn.prepared.slot import Slots

LANES = 16
COMPILED = ("relu", "gelu", "silu", "gelu_tanh")
"""The activations of the kernel, numbered from 1."""


class _Layer(ctypes.Structure):
    _fields_ = [
        *((name, ProductPanels) for name in ("joined", "output", "cross_query", "cross_output", "expand", "contract")),
        ("norms", Norm * 3),
        ("scales", ctypes.c_double * 2),
    ]


class _Decoder(ctypes.Structure):
    _fields_ = [
        ("layers", ctypes.POINTER(_Layer)),
        *((name, ctypes.c_int64) for name in ("count", "width", "heads", "half", "norm_first", "activation")),
        ("embedding", ctypes.c_void_p),
        ("scale", ctypes.c_double),
        ("norm", Norm),
        ("logits", ProductPanels),
    ]


class LayerCache(ctypes.Structure):
    """The past of a layer and, with cross-attention, its memory."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("cache", "key", "value")]


class RowPlaces(ctypes.Structure):
    """The places of rows in time and in the caches (`Rows` of `flat.cpp`)."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("count", "beam", "latest")),
        *((name, ctypes.c_void_p) for name in ("times", "lengths")),
        *((name, ctypes.c_int64) for name in ("places", "cache_room", "memory_room")),
        *((name, ctypes.c_void_p) for name in ("of_sentences", "of_rows", "table")),
    ]


class DecoderStep(KernelWeights):
    """Computes the next logits from the newest token of each row."""

    def __init__(
        self,
        blocks: tuple[FlatBlock, ...] | tuple[FlatEncoderBlock, ...],
        embedding: Float[Tensor, "vocab model_dim"],
        scale: float,
        norm: nn.LayerNorm | None,
        output: Float[Tensor, "vocab model_dim"],
        output_bias: Float[Tensor, " vocab"] | None,
    ) -> None:
        """`scale` multiplies embeddings; `norm` follows the last block. The logits are in int8 if the blocks are."""
        super().__init__()
        self._alive.append(embedding)
        self.blocks, first = blocks, blocks[0]
        self.dtype, self.width, self.vocab = embedding.dtype, embedding.shape[1], len(embedding)
        self._hidden = first.expand.plain.shape[0]
        int8 = None if first.expand.int8 is None else Int8Product(output, output_bias)
        layers = (_Layer * len(blocks))(*map(self._layer, blocks))
        self.decoder = _Decoder(
            layers=layers,
            count=len(blocks),
            width=self.width,
            heads=first.heads,
            half=self.dtype is torch.bfloat16,
            norm_first=first.norm_first,
            activation=1 + COMPILED.index(first.activation),
            embedding=embedding.data_ptr(),
            scale=scale,
            norm=Norm() if norm is None else self.norm_of(norm),
            logits=self.panels_of(Product(output, output_bias, False, int8)),
        )
        self._alive.append(layers)

    @staticmethod
    def refuses(blocks: Sequence[FlatBlock | FlatEncoderBlock], embedding: Tensor, output: Tensor) -> str:
        """Why the kernel cannot compute these blocks; empty if it can."""
        if kernels() is None:
            return "the kernel is not compiled"
        if embedding.device.type != "cpu" or embedding.dtype not in (torch.float32, torch.bfloat16):
            return f"weights are {embedding.dtype} on {embedding.device.type}, not float32 or bfloat16 on a CPU"
        if len({(block.heads, block.norm_first, block.activation) for block in blocks}) > 1:
            return "blocks differ in their heads, norms or activations"
        if len(output) != len(embedding):
            return f"there are {len(embedding)} embeddings and {len(output)} rows of the output"
        products = [part.plain for block in blocks for part in vars(block).values() if isinstance(part, Product)]
        head_dim = embedding.shape[1] // blocks[0].heads
        widths = {weight.shape[1] for weight in products} | {head_dim}
        if any(width % LANES for width in widths) or head_dim > 16 * LANES:
            return f"widths of {sorted(widths)} are not all multiples of {LANES}"
        if reason := other_shapes(blocks, embedding.shape[1]):
            return reason
        if any(
            weight.dtype != embedding.dtype or not weight.is_contiguous() for weight in (embedding, output, *products)
        ):
            return "weights differ in precision or are not contiguous"
        return ""

    def require_dtype(self, *parts: Tensor) -> None:
        """Raises TypeError for keys and values in another type than the weights, which the kernel would misread."""
        for part in parts:
            if part.dtype != self.dtype:
                raise TypeError(f"The state of a decoder has keys or values in {part.dtype}, its weights {self.dtype}.")

    @staticmethod
    def _require(rows: int, sentences: int, places: int) -> None:
        """Raises ValueError for other rows than those of the state."""
        if rows != places or rows % sentences:
            raise ValueError(
                f"A step got {rows} tokens for a state with {places} rows and {sentences} sentences. Give a token for "
                "each row."
            )

    def __call__(
        self,
        token: Int[Tensor, " rows"],
        position: Float[Tensor, "#rows model_dim"],
        cache: Sequence[Float[Tensor, "2 places heads room head_dim"]],
        memory: Sequence[KeyValue] = (),
        lengths: Int[Tensor, " sentences"] | None = None,
        *,
        clock: Clock,
        slots: Slots | None = None,
        watched_at: tuple[Positions, ...] | None = None,
    ) -> Float[Tensor, "rows vocab"]:
        """Logits after the tokens at each row's time, whose keys and values are written into the cache. The memory must
        be contiguous, and the cache but for places to spare (`places_of`); they have one place for each row and
        sentence unless `slots` says where these stand. Without cross-attention there is no memory.

        `watched_at` holds the positions of the attentions while a recording is on.
        """
        token, position = token.long().contiguous(), position.contiguous()
        lengths = None if lengths is None else lengths.contiguous()
        rows, sentences, room = len(token), len(token if lengths is None else lengths), cache[0].shape[3]
        self._require(rows, sentences, cache[0].shape[1] if slots is None else len(slots.of_rows))
        self.require_dtype(*cache, *(part for each in memory for part in each))
        memory_room = memory[0].key.shape[2] if memory else 0
        kinds = self.sizes(rows).values()
        counts, work, rounded, queries = (torch.empty(size, dtype=kind) for size, kind in kinds)
        logits = torch.empty(rows, self.vocab, dtype=torch.float32)
        caches = layer_caches(cache, memory)
        tables = (None, None, None) if slots is None else (slots.of_sentences, slots.of_rows, slots.table)
        times, source_lengths, of_sentences, of_rows, table = (
            None if part is None else part.data_ptr() for part in (clock.rows, lengths, *tables)
        )
        stand = RowPlaces(
            *(rows, rows // sentences, clock.latest, times, source_lengths),
            *(places_of(cache[0]), room, memory_room, of_sentences, of_rows, table),
        )
        if not self.library.step(
            ctypes.byref(self.decoder),
            caches,
            ctypes.byref(stand),
            *map(native.address, (token, position)),
            ctypes.c_int64(self.width if len(position) > 1 else 0),
            *map(native.address, (counts, work, rounded, queries, logits)),
            native.threads(),
        ):
            raise IndexError(f"tokens {token.tolist()} are not all in the vocabulary of {self.vocab}")
        if watched_at is not None:
            if slots is not None:
                cache = [slots.gathered(past, clock.ticked()) for past in cache]
                memory = [slots.remembered(each) for each in memory]
            watched = queries.view(len(self.blocks), 2, rows, self.decoder.heads, -1)
            self._note(watched.to(self.dtype), cache, memory, watched_at)
        return logits

    def sizes(self, rows: int) -> dict[str, tuple[int, torch.dtype]]:
        """The numbers that the kernel needs memory for, and their types, with so many rows."""
        return {
            "counts": (rows, torch.int64),
            "room": (rows * (6 * self.width + self._hidden), torch.float32),
            "rounded": (-(-rows // 16) * 16 * max(self._hidden, self.width), torch.bfloat16),
            "queries": (len(self.blocks) * 2 * rows * self.width, torch.float32),
        }

    def _note(
        self,
        queries: Float[Tensor, "layers 2 rows heads head_dim"],
        cache: Sequence[Tensor],
        memory: Sequence[KeyValue],
        at: tuple[Positions, ...],
    ) -> None:
        layers: Sequence[FlatBlock | FlatEncoderBlock] = self.blocks
        for number, (block, (own, cross), past) in enumerate(zip(layers, queries, cache, strict=True)):
            site = block.sites[0] if isinstance(block, FlatBlock) else block.site
            note(site, "self", own[:, :, None], past[0], at[0])
            if isinstance(block, FlatBlock):
                key = memory[number].key
                note(block.sites[1], "cross", cross.unflatten(0, (len(key), -1)).transpose(1, 2), key, at[1])

    def _layer(self, block: FlatBlock | FlatEncoderBlock) -> _Layer:
        parts = {name: part for name, part in vars(block).items() if isinstance(part, Product)}
        products = {name: self.panels_of(part) for name, part in parts.items()}
        norms = list(map(self.norm_of, block.norms))
        if isinstance(block, FlatEncoderBlock):
            norms, scales = [norms[0], Norm(), norms[1]], (block.scale, 0.0)
        else:
            scales = block.scales
        return _Layer(**products, norms=(Norm * 3)(*norms), scales=(ctypes.c_double * 2)(*scales))


def layer_caches(cache: Sequence[Tensor], memory: Sequence[KeyValue]) -> Any:
    """The places of all layers in memory, for the kernel."""
    sources: list[Any] = [(each.key.data_ptr(), each.value.data_ptr()) for each in memory] or [()] * len(cache)
    pairs = zip(cache, sources, strict=True)
    return (LayerCache * len(cache))(*(LayerCache(past.data_ptr(), *source) for past, source in pairs))
