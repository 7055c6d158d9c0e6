"""Softmax attention over short sequences without padding, in one kernel forward and one backward (`short.cpp`).

The tokens of all sentences are concatenated, and each token has all heads side by side, like the output of the
projections. No padded batch and no mask is built, and nothing is computed for padding. If `refuses` returns a reason,
the caller has to use `Attention.run`.
"""

import ctypes
import functools
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate import native
from foveate.attention.attention import Attention
from foveate.attention.explanation import is_explaining
from foveate.attention.mechanism import Mechanism
from foveate.attention.paths.derivative import by_definition
from foveate.attention.paths.dot import attended
from foveate.attention.position import transformed
from foveate.attention.score import dot_factor
from foveate.attention.visibility import causal, padding

LONGEST = 128
"""Beyond this number of positions, products of matrices are faster than this kernel, which uses float32 vectors."""


@functools.cache
def kernels() -> ctypes.CDLL | None:
    """The compiled kernels, or None without a compiler."""
    return native.load("foveate.attention.paths", "short.cpp").library


def refuses(attention: Mechanism, x: Float[Tensor, "tokens dim"], *, head_dim: int, longest: int) -> list[str]:
    """Why this attention cannot use the packed kernel on projections of `x`, in sentences of up to `longest` tokens."""
    reasons = []
    if not isinstance(attention, Attention) or not attention.is_plain or dot_factor(attention.score, head_dim) is None:
        reasons.append("made for dot products under softmax")
    if transformed():
        reasons.append("its kernel has no derivatives for torch.func")
    if is_explaining():
        reasons.append("keeps no weights, and all are wanted")
    if attention.visibility not in (causal(), padding()):
        reasons.append(f"made for causal() and padding(), not for {attention.visibility}")
    if x.device.type != "cpu" or x.dtype not in (torch.float32, torch.bfloat16):
        reasons.append(f"made for float32 and bfloat16 on CPUs, not for {x.dtype} on {x.device.type}")
    if head_dim % 16 or head_dim > 256:
        reasons.append(f"made for heads of 16, 32, … 256 numbers, not of {head_dim}")
    if longest > LONGEST:
        reasons.append(f"made for up to {LONGEST} positions, not for {longest}")
    if not reasons and kernels() is None:
        reasons.append("needs a C++ compiler")
    return reasons


def attend(
    attention: Attention,
    query: Float[Tensor, "tokens joined"],
    memory: Float[Tensor, "memory_tokens keys_and_values"] | None,
    starts: tuple[Int[Tensor, " sentences_and_end"], Int[Tensor, " sentences_and_end"]],
    heads: int,
) -> Float[Tensor, "tokens values"]:
    """The contexts of all heads side by side, for an attention without `refuses`.

    `memory` contains [keys; values] of every token. Without it, `query` contains [queries; keys; values]. `starts` are
    the first tokens of the sentences of queries and of keys, followed by the number of tokens. The caller has to record
    the attention.
    """
    kind = query.dtype
    if kind not in (torch.float32, torch.bfloat16):  # of projections under autocast
        memory = None if memory is None else memory.float()
        return attend(attention, query.float(), memory, starts, heads).to(kind)
    width = query.shape[1] if memory is not None else query.shape[1] // 3
    scale = dot_factor(attention.score, width // heads)
    return _Packed.apply(query, memory, *starts, heads, attention.visibility == causal(), scale)


class _Packed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        memory: Tensor | None,
        query_starts: Tensor,
        key_starts: Tensor,
        heads: int,
        causal: bool,
        scale: float,
    ) -> Tensor:
        library = kernels()
        assert library is not None
        inputs = query, memory
        query = query.contiguous()
        memory = None if memory is None else memory.to(query.dtype).contiguous()
        width = query.shape[1] if memory is not None else query.shape[1] // 3
        context = query.new_empty(len(query), width)
        ctx.rest = (
            *(ctypes.c_int64(size) for size in (len(query_starts) - 1, heads, width // heads, int(causal))),
            ctypes.c_double(scale),
        )
        half = ctypes.c_int64(query.dtype is torch.bfloat16)
        starts = (native.address(query_starts), native.address(key_starts))
        output = native.address(context)
        library.forward(*_parts(query, memory, width), half, *starts, *ctx.rest, output, native.threads())
        ctx.save_for_backward(query, memory, query_starts, key_starts, *inputs)
        ctx.width, ctx.formula = width, (heads, causal, scale)
        return context

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        library = kernels()
        assert library is not None
        query, memory, query_starts, key_starts, *inputs = ctx.saved_tensors
        if torch.is_grad_enabled():
            defined = partial(_defined, query_starts.tolist(), key_starts.tolist(), *ctx.formula)
            return (*by_definition(defined, inputs, grad), None, None, None, None, None)
        grad = grad.to(query.dtype).contiguous()
        to_query = torch.empty_like(query)
        to_memory = None if memory is None else torch.empty_like(memory)
        half = ctypes.c_int64(query.dtype is torch.bfloat16)
        starts = (native.address(query_starts), native.address(key_starts))
        outputs = _parts(to_query, to_memory, ctx.width)[::2]
        inputs = (*_parts(query, memory, ctx.width), half, *starts, *ctx.rest)
        library.backward(*inputs, native.address(grad), *outputs, native.threads())
        return to_query, to_memory, None, None, None, None, None


def _defined(
    query_starts: list[int],
    key_starts: list[int],
    heads: int,
    causal: bool,
    scale: float,
    query: Tensor,
    memory: Tensor | None,
) -> Tensor:
    """The definition: the attention of one sentence after the other."""
    query, key, value = query.chunk(3, -1) if memory is None else (query, *memory.to(query.dtype).chunk(2, -1))
    contexts = []
    for (first, last), (begin, end) in zip(pairwise(query_starts), pairwise(key_starts), strict=True):
        cut = (query[first:last], key[begin:end], value[begin:end])
        q, k, v = (part.unflatten(-1, (heads, -1)).transpose(0, 1)[None] for part in cut)
        place = torch.arange(end - begin)
        visible = (place <= torch.arange(last - first)[:, None])[None, None] if causal else None
        contexts.append(attended(q, k, v, scale, visible=visible)[0].transpose(0, 1).flatten(1))
    return torch.cat(contexts)


def _parts(query: Tensor, memory: Tensor | None, width: int) -> tuple[ctypes.c_void_p | ctypes.c_int64, ...]:
    """The addresses of queries, keys and values, each with the distance between tokens."""
    places = [(query, 0), (query, 1), (query, 2)] if memory is None else [(query, 0), (memory, 0), (memory, 1)]
    parts: list[ctypes.c_void_p | ctypes.c_int64] = []
    for tensor, place in places:
        parts.append(ctypes.c_void_p(tensor.data_ptr() + place * width * tensor.element_size()))
        parts.append(ctypes.c_int64(tensor.shape[1]))
    return tuple(parts)
