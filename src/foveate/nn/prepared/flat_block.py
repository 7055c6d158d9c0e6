"""A decoder block as prepared tensors, which computes one step at a time without calling modules.

With a batch of one, calling modules, choosing paths and building masks costs more than the arithmetic. A flat block
computes the same as `DecoderBlock` for one new position of every row, from weights that were concatenated and packed
once. Attention is one kernel (`flat.cpp`) with a compiler, else three products. `tests/laws` compare flat with full
blocks. A block with parts that the flat form does not support (other scores and rules, training) runs itself.
"""

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear

from foveate import native
from foveate.attention import Attention, Positions, Visibility, causal, padding
from foveate.attention.record import note
from foveate.attention.score import dot_factor
from foveate.nn.clock import Clock
from foveate.nn.feedforward import ACTIVATIONS, Activation, FeedForward
from foveate.nn.int8 import Int8Product
from foveate.nn.linear_layer import Linear, may_pack, packed_product, packed_product_add, packed_weight
from foveate.nn.multihead import KeyValue, MultiHeadAttention
from foveate.nn.origin import Origin, is_plain
from foveate.nn.past import write
from foveate.nn.transformer_block import DecoderBlock, EncoderBlock, Residual


@dataclass(frozen=True, eq=False)
class Product:
    """W x + b, with W packed, plain or in int8."""

    plain: Tensor
    """W without packing."""
    bias: Tensor | None
    packed: bool
    int8: Int8Product | None = None

    @classmethod
    def of(cls, *layers: Linear) -> "Product":
        """One product for several layers with the same input."""
        weight = layers[0].weight if len(layers) == 1 else torch.cat(tuple(layer.weight for layer in layers))
        biases: list[Tensor] = [layer.bias for layer in layers if layer.bias is not None]
        bias = torch.cat(biases) if biases else None
        if all(layer.int8 for layer in layers):
            return cls(weight.detach(), bias, False, Int8Product(weight, bias))
        return cls(weight.detach(), bias, may_pack(weight))

    @functools.cached_property
    def weight(self) -> Tensor:
        """W in the layout for multiplication. It is made on first use, because `DecoderStep` has its own layout."""
        return packed_weight(self.plain) if self.packed else self.plain

    def __call__(self, x: Float[Tensor, "rows inputs"], activation: Activation | None = None) -> Tensor:
        if self.int8 is not None:
            y = self.int8(x)
            return y if activation is None else ACTIVATIONS[activation](y)
        if self.packed and activation in (None, "relu"):
            return packed_product(x, self.weight, self.bias, activation or "none")
        y = packed_product(x, self.weight, self.bias) if self.packed else linear(x, self.weight, self.bias)
        return y if activation is None else ACTIVATIONS[activation](y)

    def added_to(self, residual: Float[Tensor, "rows outputs"], x: Float[Tensor, "rows inputs"]) -> Tensor:
        """residual + W x + b."""
        if self.int8 is not None:
            return self.int8(x).add_(residual)
        if self.packed:
            return packed_product_add(x, residual, self.weight, self.bias)
        return linear(x, self.weight, self.bias).add_(residual)


@dataclass(frozen=True, eq=False)
class FlatBlock:
    """The prepared weights of one decoder block."""

    joined: Product
    output: Product
    cross_query: Product
    cross_output: Product
    expand: Product
    contract: Product
    norms: tuple[nn.LayerNorm, nn.LayerNorm, nn.LayerNorm]
    norm_first: bool
    activation: Activation
    heads: int
    scales: tuple[float, float]
    """The scales of the scores in self-attention and in cross-attention."""
    sites: tuple[Attention, Attention]
    """The two attentions, for recordings."""

    @classmethod
    def of(cls, block: DecoderBlock) -> "FlatBlock | None":
        """The flat form of a block; None if only the block itself can compute its result."""
        if not _is_usual(block):
            return None
        attention, cross = block.attention, block.cross_attention
        sites = [site for site in (attention.attention, cross.attention) if isinstance(site, Attention)]
        factors = [dot_factor(site.score, attention.head_dim) or 0.0 for site in sites]
        residuals = (block.attention_residual, block.cross_residual, block.feedforward_residual)
        return cls(
            joined=Product.of(attention.query, attention.key, attention.value),
            output=Product.of(attention.output),
            cross_query=Product.of(cross.query),
            cross_output=Product.of(cross.output),
            expand=Product.of(block.feedforward.expand),
            contract=Product.of(block.feedforward.contract),
            norms=tuple(residual.norm for residual in residuals),  # type: ignore[arg-type]
            norm_first=block.attention_residual.place == "pre",
            activation=block.feedforward.activation,
            heads=attention.num_heads,
            scales=(factors[0], factors[1]),
            sites=(sites[0], sites[1]),
        )

    def step(
        self,
        x: Float[Tensor, "rows model_dim"],
        cache: Float[Tensor, "2 rows heads room head_dim"],
        memory: KeyValue,
        *,
        sight: "Sight",
        watched_at: tuple[Positions, Positions] | None = None,
    ) -> Float[Tensor, "rows model_dim"]:
        """The block's output for the newest position of every row. Writes its keys and values into the cache.

        `watched_at` holds the positions of the two attentions while a recording is on.
        """
        rows, heads = x.shape[0], self.heads
        joined = self.joined(self._before(x, 0)).view(rows, 3, heads, -1)
        write(cache, joined[:, 1:].transpose(0, 1), sight.clock)
        if watched_at is not None:
            note(self.sites[0], "self", joined[:, 0, :, None], cache[0], watched_at[0])
        context = sight.of_past(joined[:, 0], cache, self.scales[0])
        x = self._after(self.output.added_to(x, context), 0)

        query = self.cross_query(self._before(x, 1)).view(rows, heads, -1)
        if watched_at is not None:
            grouped = query.unflatten(0, (memory.key.shape[0], -1)).transpose(1, 2)
            note(self.sites[1], "cross", grouped, memory.key, watched_at[1])
        context = sight.of_memory(query, memory, self.scales[1])
        x = self._after(self.cross_output.added_to(x, context), 1)

        hidden = self.expand(self._before(x, 2), self.activation)
        return self._after(self.contract.added_to(x, hidden), 2)

    def _before(self, x: Tensor, place: int) -> Tensor:
        return self._norm(x, place) if self.norm_first else x

    def _after(self, x: Tensor, place: int) -> Tensor:
        return x if self.norm_first else self._norm(x, place)

    def _norm(self, x: Tensor, place: int) -> Tensor:
        norm = self.norms[place]
        return torch.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


@dataclass(frozen=True, eq=False)
class FlatEncoderBlock:
    """The prepared weights of one block without cross-attention."""

    joined: Product
    output: Product
    expand: Product
    contract: Product
    norms: tuple[nn.LayerNorm, nn.LayerNorm]
    norm_first: bool
    activation: Activation
    heads: int
    scale: float
    site: Attention
    """The attention, for recordings."""

    @classmethod
    def of(cls, block: nn.Module, rule: Visibility | None = None) -> "FlatEncoderBlock | None":
        """The flat form of a block with this rule, by default `padding()`; None if only the block itself can compute
        its result.
        """
        if not isinstance(block, EncoderBlock) or not is_plain(block, EncoderBlock):
            return None
        attention, residuals = block.attention, (block.attention_residual, block.feedforward_residual)
        if not are_usual(residuals, [(attention, padding() if rule is None else rule)], block.feedforward):
            return None
        site = attention.attention
        assert isinstance(site, Attention)
        return cls(
            joined=Product.of(attention.query, attention.key, attention.value),
            output=Product.of(attention.output),
            expand=Product.of(block.feedforward.expand),
            contract=Product.of(block.feedforward.contract),
            norms=tuple(residual.norm for residual in residuals),  # type: ignore[arg-type]
            norm_first=residuals[0].place == "pre",
            activation=block.feedforward.activation,
            heads=attention.num_heads,
            scale=dot_factor(site.score, attention.head_dim) or 0.0,
            site=site,
        )


class FlatBlocks:
    """The flat forms of a decoder's blocks, made on first use and again after any part of the blocks has changed."""

    def __init__(self) -> None:
        self._origin = Origin()

    def of(self, blocks: tuple[DecoderBlock, ...]) -> tuple[FlatBlock, ...] | None:
        """The flat blocks; None if any block has no flat form."""

        def make() -> tuple[FlatBlock, ...] | None:
            flat = [FlatBlock.of(block) for block in blocks]
            # torch does not count writes to inference tensors
            usual = None not in flat and not any(w.is_inference() for block in blocks for w in block.parameters())
            return tuple(flat) if usual else None  # type: ignore[arg-type]

        packs = bool(blocks) and may_pack(blocks[0].attention.query.weight)
        return self._origin.made(make, *blocks, packs, *_of_scores(blocks))

    def __deepcopy__(self, memo: object) -> "FlatBlocks":
        return FlatBlocks()

    def __reduce__(self) -> tuple[type["FlatBlocks"], tuple[()]]:
        return FlatBlocks, ()


def _of_scores(blocks: tuple[DecoderBlock, ...]) -> list[object]:
    """The attributes of scores that are not modules: a scale may be one of them."""
    scores = [getattr(a.attention, "score", None) for block in blocks for a in (block.attention, block.cross_attention)]
    return [value for score in scores for value in getattr(score, "__dict__", {}).values()]


class Sight:
    """The keys that a step sees: the positions up to each row's time, and each sentence's real memory."""

    def __init__(
        self,
        memory: KeyValue,
        lengths: Int[Tensor, " sentences"],
        cache: Float[Tensor, "2 rows heads room head_dim"],
        *,
        clock: Clock,
        step: int,
    ) -> None:
        """Without kernels, the number of positions is rounded up to a multiple of `step`, and later ones are masked."""
        self.clock, self.lengths = clock, lengths.contiguous()
        dim = cache.shape[-1]
        kinds = {cache.dtype, memory.key.dtype, memory.value.dtype}
        fits = kinds <= {torch.float32, torch.bfloat16} and cache.device.type == "cpu" and dim % 16 == 0
        self.library = kernels() if fits and dim <= 256 and memory.key.is_contiguous() else None
        if self.library is not None:
            return
        count = clock.latest + 1
        self.past = cache.new_zeros(1, 1, count + -count % step)
        if clock.rows is None:
            self.past[:, :, count:] = -torch.inf
        else:
            later = torch.arange(self.past.shape[-1], device=cache.device) > clock.rows[:, None]
            rows = self.past.expand(len(later), -1, -1).masked_fill(later[:, None], -torch.inf)
            self.past = rows.repeat_interleave(cache.shape[2], dim=0)
        real = torch.arange(memory.key.shape[2], device=lengths.device) < lengths[:, None]
        hidden = torch.zeros_like(real, dtype=cache.dtype).masked_fill_(~real, -torch.inf)
        self.memory_bias = hidden[:, None].expand(-1, memory.key.shape[1], -1).flatten(0, 1)[:, None]

    def of_past(
        self,
        query: Float[Tensor, "rows heads head_dim"],
        cache: Float[Tensor, "2 rows heads room head_dim"],
        scale: float,
    ) -> Float[Tensor, "rows values"]:
        rows, heads, dim = query.shape
        if self.library is not None:
            counts = None if self.clock.rows is None else self.clock.rows + 1
            return self._by_kernel(query, cache[0], cache[1], self.clock.latest + 1, counts, scale)
        keys, values = (part.flatten(0, 1)[:, : self.past.shape[-1]] for part in cache)
        return _attend(query.reshape(rows * heads, 1, dim), keys, values, self.past, scale).view(rows, -1)

    def of_memory(
        self, query: Float[Tensor, "rows heads head_dim"], memory: KeyValue, scale: float
    ) -> Float[Tensor, "rows values"]:
        if self.library is not None:
            return self._by_kernel(query, memory.key, memory.value, 0, self.lengths, scale)
        rows, heads, dim = query.shape
        sentences = memory.key.shape[0]
        grouped = query.view(sentences, -1, heads, dim).transpose(1, 2).flatten(0, 1)
        context = _attend(grouped, memory.key.flatten(0, 1), memory.value.flatten(0, 1), self.memory_bias, scale)
        return context.unflatten(0, (sentences, heads)).transpose(1, 2).reshape(rows, -1)

    def _by_kernel(
        self, query: Tensor, key: Tensor, value: Tensor, count: int, counts: Tensor | None, scale: float
    ) -> Tensor:
        assert self.library is not None
        rows, heads, dim = query.shape
        kind, query, value = query.dtype, query.to(key.dtype), value.to(key.dtype)  # autocast may have changed some
        context = query.new_empty(rows, heads * dim)
        sizes = (query.dtype is torch.bfloat16, rows, rows // key.shape[0], heads, dim, key.shape[2], count)
        self.library.attend(
            native.address(query),
            ctypes.c_int64(query.stride(0)),
            native.address(key),
            native.address(value),
            *map(ctypes.c_int64, sizes),
            native.address(counts),
            ctypes.c_double(scale),
            native.address(context),
            native.threads(),
        )
        return context.to(kind)


@functools.cache
def kernels() -> ctypes.CDLL | None:
    """The compiled kernel, or None without a compiler."""
    return native.load("foveate.nn.prepared", "flat.cpp").library


def _attend(
    query: Float[Tensor, "products query head_dim"],
    key: Float[Tensor, "products key head_dim"],
    value: Float[Tensor, "products key head_dim"],
    bias: Float[Tensor, "#products 1 key"],
    scale: float,
) -> Float[Tensor, "products query head_dim"]:
    """softmax(scale · Q Kᵀ + B) V"""
    scores = torch.baddbmm(bias, query, key.mT, alpha=scale)
    weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(scores.dtype)
    return torch.bmm(weights, value)


def _is_usual(block: DecoderBlock) -> bool:
    """Whether the flat form computes this block exactly: no part has another class, hooks or a replaced method."""
    residuals = (block.attention_residual, block.cross_residual, block.feedforward_residual)
    attentions = ((block.attention, causal()), (block.cross_attention, padding()))
    return (
        is_plain(block, DecoderBlock)
        and are_usual(residuals, attentions, block.feedforward)
        and block.attention.num_heads == block.cross_attention.num_heads
        and block.attention.head_dim == block.cross_attention.head_dim
    )


def are_usual(
    residuals: Sequence[Residual], attentions: Sequence[tuple[MultiHeadAttention, Visibility]], feedforward: FeedForward
) -> bool:
    """Whether the parts of a block compute exactly what their classes define, with usual attentions."""
    expected: list[tuple[object, type[nn.Module]]] = [(feedforward, FeedForward)]
    expected += [(attention, MultiHeadAttention) for attention, _ in attentions]
    expected += [(residual, Residual) for residual in residuals]
    if not all(is_plain(part, kind) for part, kind in expected):
        return False
    inner: list[tuple[object, type[nn.Module]]] = [(residual.norm, nn.LayerNorm) for residual in residuals]
    inner += [(layer, Linear) for layer in (feedforward.expand, feedforward.contract)]
    for attention, _ in attentions:
        inner += [(layer, Linear) for layer in (attention.query, attention.key, attention.value, attention.output)]
        inner.append((attention.attention, Attention))
    return (
        all(is_plain(part, kind) for part, kind in inner)
        and len({residual.place for residual in residuals}) == 1
        and all(residual.norm.weight is not None and residual.norm.bias is not None for residual in residuals)
        and all(_attends_usually(*each) for each in attentions)
    )


def _attends_usually(attention: MultiHeadAttention, visibility: Visibility) -> bool:
    """Whether an attention is softmax over dot products under this rule, with equal heads for queries and keys."""
    site = attention.attention
    return (
        isinstance(site, Attention)
        and site.is_plain
        and dot_factor(site.score, attention.head_dim) is not None
        and site.visibility == visibility
        and attention.num_heads == attention.num_kv_heads
        and attention.head_dim == attention.value_head_dim
        and len({layer.bias is None for layer in (attention.query, attention.key, attention.value)}) == 1
    )


def other_shapes(blocks: Sequence[FlatBlock | FlatEncoderBlock], width: int) -> str:
    """Why a kernel with one width, and one width between the layers of a feed-forward network, cannot compute these
    blocks; empty if it can.
    """
    hidden = blocks[0].expand.plain.shape[0]
    for block in blocks:
        shapes = {"joined": (3 * width, width), "output": (width, width)}
        shapes |= {"expand": (hidden, width), "contract": (width, hidden)}
        if isinstance(block, FlatBlock):
            shapes |= {"cross_query": (width, width), "cross_output": (width, width)}
        for name, shape in shapes.items():
            if (actual := tuple(getattr(block, name).plain.shape)) != shape:
                return f"the weights {name} of a block have the shape {list(actual)}, not {list(shape)}"
    return ""
