"""Scores of pairs, Σ_h v_h f(a_ih + b_jh) with f = tanh or a leaky ReLU, on a CPU without the tensor of all terms.

Memory is O(query · hidden + key · hidden + query · key), forward and backward: what the backward pass needs of each
term is computed again. Where no compiler exists, `unavailable` says so, and callers take another way.
"""

import ctypes
from functools import cache, partial
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from foveate import native
from foveate.attention.normaliser import Softmax
from foveate.attention.paths.derivative import by_definition
from foveate.attention.paths.hidden import silence
from foveate.attention.score import PairNetwork

LANES = 16
EXPONENTIALS_FROM = 3
"""From this many queries on, exponentials of the features are taken once and not once per pair."""


@cache
def unavailable() -> str:
    """Why the kernel does not run on this machine; empty where it does."""
    kernels = native.load("foveate.attention.paths", "pairwise.cpp")
    if kernels.library is None:
        return f"no native kernels: {kernels.reason}"
    if kernels.library.size_of_problem() != ctypes.sizeof(_Problem) or not _agrees():
        return "its kernel fails the check against plain torch"
    return ""


def pair_weights(
    query: Float[Tensor, "batch heads query hidden"],
    key: Float[Tensor, "#batch #heads key hidden"],
    vector: Float[Tensor, "#heads hidden"],
    *,
    visible: Bool[Tensor, "#batch #heads #query #key"] | None = None,
    bias: Float[Tensor, "#batch #heads #query #key"] | None = None,
    softmax: bool = True,
    slope: float | None = None,
) -> Float[Tensor, "batch heads query key"]:
    """Softmax over the visible keys of Σ_h v_h f(q_ih + k_jh) + bias_ij, or (softmax=False) that sum itself.

    f is tanh, or with `slope` a leaky ReLU. What is hidden gets 0, and is not even read. All in float32.
    """
    key = key.expand(len(query), query.shape[1], -1, -1)
    if missing := -query.shape[-1] % LANES:
        query, key, vector = (torch.nn.functional.pad(tensor, (0, missing)) for tensor in (query, key, vector))
    weights: Tensor = _PairWeights.apply(
        query.contiguous(), key.contiguous(), vector.contiguous(), bias, visible, softmax, slope
    )
    return weights


class _PairWeights(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        vector: Tensor,
        bias: Tensor | None,
        visible: Tensor | None,
        softmax: bool,
        slope: float | None,
    ) -> Tensor:
        weights = query.new_empty(*query.shape[:3], key.shape[2])
        problem = _problem(query, key, vector, bias, visible, softmax, slope)
        problem.weights = weights.data_ptr()
        _call("forward", problem, query, key)
        ctx.save_for_backward(query, key, vector, bias, visible, weights if softmax else None)
        ctx.slope = slope
        return weights

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, vector, bias, visible, weights = ctx.saved_tensors
        if torch.is_grad_enabled():
            defined = partial(_defined, visible, weights is not None, ctx.slope)
            return (*by_definition(defined, (query, key, vector, bias), grad), None, None, None)
        if weights is not None:
            grad = torch.ops.aten._softmax_backward_data(grad, weights, -1, weights.dtype)
        grad = grad.contiguous()
        grad_query = torch.empty_like(query) if key.shape[2] else torch.zeros_like(query)
        grad_key = torch.empty_like(key)
        grad_vector = query.new_empty(*query.shape[:2], query.shape[3])
        problem = _problem(query, key, vector, bias, visible, weights is not None, ctx.slope)
        problem.grad_scores, problem.grad_vector = grad.data_ptr(), grad_vector.data_ptr()
        problem.grad_query, problem.grad_key = grad_query.data_ptr(), grad_key.data_ptr()
        _call("backward", problem, query, key)
        grad_bias = grad.sum_to_size(bias.shape) if ctx.needs_input_grad[3] else None
        shared = (0, 1) if len(vector) == 1 else (0,)
        return grad_query, grad_key, grad_vector.sum(shared).view_as(vector), grad_bias, None, None, None


def _defined(
    visible: Tensor | None,
    softmax: bool,
    slope: float | None,
    query: Tensor,
    key: Tensor,
    vector: Tensor,
    bias: Tensor | None,
) -> Tensor:
    (key,) = (key,) if visible is None else silence(visible, key)
    scores = PairNetwork(vector=vector, slope=slope).compare(query, key)
    scores = scores if bias is None else scores + bias
    if softmax:
        return scores.softmax(-1) if visible is None else Softmax()(scores, visible)
    return scores if visible is None else torch.where(visible, scores, 0.0)


class _Problem(ctypes.Structure):
    """`Problem` of pairwise.cpp."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("query", "key", "vector", "visible", "bias")),
        *((name, ctypes.c_void_p) for name in ("query_scratch", "key_scratch", "weights", "grad_scores")),
        *((name, ctypes.c_void_p) for name in ("grad_query", "grad_key", "grad_vector")),
        *((name, ctypes.c_int64 * 4) for name in ("visible_stride", "bias_stride")),
        *((name, ctypes.c_int64) for name in ("batch", "heads", "queries", "keys", "hidden", "vector_heads")),
        *((name, ctypes.c_int64) for name in ("softmax", "leaky", "threads")),
        ("slope", ctypes.c_float),
    )


def _problem(
    query: Tensor,
    key: Tensor,
    vector: Tensor,
    bias: Tensor | None,
    visible: Tensor | None,
    softmax: bool,
    slope: float | None,
) -> _Problem:
    shape = batch, heads, queries, keys = (*query.shape[:3], key.shape[2])
    problem = _Problem(
        query=query.data_ptr(),
        key=key.data_ptr(),
        vector=vector.data_ptr(),
        batch=batch,
        heads=heads,
        queries=queries,
        keys=keys,
        hidden=query.shape[3],
        vector_heads=len(vector),
        softmax=softmax,
        leaky=slope is not None,
        threads=torch.get_num_threads(),
        slope=slope or 0.0,
    )
    if visible is not None:
        problem.visible = visible.data_ptr()
        problem.visible_stride[:] = visible.expand(shape).stride()
    if bias is not None:
        problem.bias = bias.data_ptr()
        problem.bias_stride[:] = bias.expand(shape).stride()
    return problem


def _call(name: str, problem: _Problem, query: Tensor, key: Tensor) -> None:
    """Run a kernel, with room for exponentials where they pay."""
    library = native.load("foveate.attention.paths", "pairwise.cpp").library
    if query.shape[2] >= EXPONENTIALS_FROM and not problem.leaky:
        room = torch.empty_like(query), torch.empty_like(key)
        problem.query_scratch, problem.key_scratch = room[0].data_ptr(), room[1].data_ptr()
    getattr(library, name)(ctypes.byref(problem))


def _agrees() -> bool:
    """Whether the kernel gives, for one small case, what plain torch gives."""
    generator = torch.Generator().manual_seed(0)
    # Whoever asks first may stand in autocast, or have another default dtype.
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        query, key = (torch.randn(1, 1, n, 80, generator=generator, dtype=torch.float32) for n in (4, 5))
        vector = torch.randn(1, 80, generator=generator, dtype=torch.float32)
        expected = PairNetwork(vector=vector).compare(query, key)
        return torch.allclose(pair_weights(query, key, vector, softmax=False), expected, atol=1e-4)
