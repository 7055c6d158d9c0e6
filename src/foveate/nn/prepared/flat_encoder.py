"""A whole encoder in one kernel, with the keys and values that a decoder looks up.

For a few sentences, calls, dispatch and allocation between the products of a layer cost several times their arithmetic.
`encode.h` computes all layers of some sentences after each other, without padding. A sentence's result does not depend
on the others, to the bit.
"""

import ctypes
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate import native
from foveate.attention import Positions
from foveate.attention.record import note
from foveate.nn.int8 import ProductPanels
from foveate.nn.multihead import KeyValue
from foveate.nn.packing import Packing
from foveate.nn.prepared.flat_block import FlatEncoderBlock, Product, other_shapes
from foveate.nn.prepared.flat_step import COMPILED, LANES, DecoderStep
from foveate.nn.prepared.kernel_weight import KernelWeights, Norm
from foveate.nn.transformer_block import DecoderBlock


class _Layer(ctypes.Structure):
    _fields_ = [
        *((name, ProductPanels) for name in ("joined", "output", "expand", "contract")),
        ("norms", Norm * 2),
        ("scale", ctypes.c_double),
    ]


class _Encoder(ctypes.Structure):
    _fields_ = [
        ("layers", ctypes.POINTER(_Layer)),
        *((name, ctypes.c_int64) for name in ("count", "width", "hidden", "heads", "half", "norm_first", "activation")),
        ("norm", Norm),
        ("memories", ctypes.POINTER(ProductPanels)),
        ("num_memories", ctypes.c_int64),
    ]


class EncoderPass(KernelWeights):
    """Computes the memory of a decoder from embedded source tokens."""

    def __init__(
        self,
        blocks: Sequence[FlatEncoderBlock],
        norm: nn.LayerNorm | None,
        decoder: Sequence[DecoderBlock],
        step: DecoderStep,
    ) -> None:
        """`norm` follows the last block; the cross-attentions of `decoder` look up; `step` is its prepared step."""
        super().__init__()
        self.blocks, self.width, self.dtype, self._memories = blocks, step.width, step.dtype, len(decoder)
        self._hidden = max(block.expand.plain.shape[0] for block in blocks)
        self._heads = blocks[0].heads
        layers = (_Layer * len(blocks))(*map(self._layer, blocks))
        sites = [block.cross_attention for block in decoder]
        memories = [Product.of(site.key, site.value) for site in sites]
        self.structure = _Encoder(
            layers=layers,
            count=len(blocks),
            width=self.width,
            hidden=self._hidden,
            heads=self._heads,
            half=self.dtype is torch.bfloat16,
            norm_first=blocks[0].norm_first,
            activation=1 + COMPILED.index(blocks[0].activation),
            norm=Norm() if norm is None else self.norm_of(norm),
            memories=(ProductPanels * len(memories))(*(self.panels_of(each) for each in memories)),
            num_memories=len(memories),
        )
        self._alive.append(layers)

    @staticmethod
    def refuses(blocks: Sequence[FlatEncoderBlock], decoder: Sequence[DecoderBlock], step: DecoderStep) -> str:
        """Why the kernel cannot compute these blocks for a decoder of that step; empty if it can."""
        if not blocks:
            return "the encoder has no blocks"
        if len({(block.heads, block.norm_first, block.activation) for block in blocks}) > 1:
            return "blocks differ in their heads, norms or activations"
        heads = {blocks[0].heads} | {block.cross_attention.num_heads for block in decoder}
        if len(heads) > 1:
            return f"encoder and decoder have different heads: {sorted(heads)}"
        if reason := other_shapes(blocks, step.width):
            return reason
        sites = [site for block in decoder for site in (block.cross_attention.key, block.cross_attention.value)]
        if any(tuple(site.weight.shape) != (step.width, step.width) for site in sites):
            return "cross-attention has another width"
        products = [part.plain for block in blocks for part in vars(block).values() if isinstance(part, Product)]
        if any(weight.dtype != step.dtype or not weight.is_contiguous() for weight in products):
            return "weights differ in precision or are not contiguous"
        if any(weight.shape[1] % LANES for weight in products):
            return f"widths are not all multiples of {LANES}"
        return ""

    def __call__(
        self, x: Float[Tensor, "tokens model_dim"], packing: Packing, *, watched_at: Positions | None = None
    ) -> tuple[KeyValue, ...]:
        """Keys and values of each decoder layer, of all sentences; zeros at padding.

        `watched_at` holds the positions of the attentions while a recording is on. `x` may be used up.
        """
        shape = (packing.batch, self._heads, packing.length, self.width // self._heads)
        memory = tuple(
            KeyValue(*(torch.zeros(shape, dtype=self.dtype) for _ in range(2))) for _ in range(self._memories)
        )
        watched = None
        if watched_at is not None:
            watched = torch.empty(len(self.blocks), len(x), 3 * self.width, dtype=torch.float32)
        self.into(memory, x, packing.starts, watched=watched)
        if watched is not None and watched_at is not None:
            for block, joined in zip(self.blocks, watched.to(self.dtype), strict=True):
                queries, keys, _ = (
                    packing.unpack(part).unflatten(-1, (self._heads, -1)).transpose(1, 2)
                    for part in joined.chunk(3, -1)
                )
                note(block.site, "self", queries, keys, watched_at)
        return memory

    def into(
        self,
        memory: Sequence[KeyValue],
        x: Float[Tensor, "tokens model_dim"],
        starts: Int[Tensor, " sentences_and_end"],
        *,
        places: Int[Tensor, " sentences"] | None = None,
        watched: Float[Tensor, "layers tokens joined"] | None = None,
    ) -> None:
        """Write the keys and values of sentences into places of a memory, by default in order, up to their ends."""
        x, starts = x.float().contiguous(), starts.contiguous()
        sentences = ctypes.c_int64(len(starts) - 1)
        together = int(self.library.tokens_together(native.address(starts), sentences))
        work = torch.empty(together * (5 * self.width + max(self._hidden, 2 * self.width)), dtype=torch.float32)
        rounded = torch.empty(-(-together // 16) * 16 * max(self._hidden, self.width), dtype=torch.bfloat16)
        addresses = (ctypes.c_void_p * (2 * len(memory)))(*(part.data_ptr() for layer in memory for part in layer))
        self.library.encode(
            ctypes.byref(self.structure),
            *map(native.address, (x, starts)),
            sentences,
            native.address(places),
            addresses,
            ctypes.c_int64(memory[0].key.shape[2]),
            *map(native.address, (work, rounded, watched)),
            native.threads(),
        )

    def _layer(self, block: FlatEncoderBlock) -> _Layer:
        names = ("joined", "output", "expand", "contract")
        products = {name: getattr(block, name) for name in names}
        panels = {name: self.panels_of(each) for name, each in products.items()}
        return _Layer(**panels, norms=(Norm * 2)(*map(self.norm_of, block.norms)), scale=block.scale)
