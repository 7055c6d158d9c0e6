"""Additive attention (Bahdanau et al. 2015) and GATv2 over all pairs without the (query, key, hidden) tensor.

On a CPU, `pairwise.cpp` computes Σ_h v_h f(a_ih + b_jh), with f = tanh or a leaky ReLU. What the backward pass needs of
each term is computed again. Where no compiler exists, `unavailable` says so, and another path runs.
"""

import ctypes
from functools import cache, partial
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import dropout as drop
from torch.nn.functional import pad

from foveate import native
from foveate.attention.normaliser import Softmax, softmax_temperature
from foveate.attention.paths import pairwise_triton
from foveate.attention.paths.derivative import by_definition
from foveate.attention.paths.hidden import nothing_to_silence, silence, weigh
from foveate.attention.paths.materialised import visible_keys
from foveate.attention.paths.path import (
    Cost,
    Formula,
    Inputs,
    ShippedPath,
    context_type,
    count_pairs,
    cutting_reasons,
    share_heads,
    tracing_reasons,
)
from foveate.attention.paths.recomputation import by_rows
from foveate.attention.position import Positions, traced
from foveate.attention.score import PairNetwork, checked_form, form_of
from foveate.attention.score.form import terms

ROOM = 2**26
"""Bytes for the weights; where they would take more, queries are processed block by block."""
FEW = 4
"""Up to this many queries, a kernel computes contexts in less time than a matrix product."""
LANES = 16
EXPONENTIALS_FROM = 3
"""From this many queries on, exponentials of the features are taken once and not once per pair."""


class AdditivePath(ShippedPath):
    """vᵀ tanh(W_q q + W_k k) in one native kernel, with softmax or before any other normaliser; leaky ReLU for tanh in
    those of graph attention (GATv2).

    Hidden pairs cost nothing. Memory is O((query + key) · hidden) and the weights, or a block of them. On a GPU the
    kernels are Triton's and hold softmax and the context too: no weights are kept, and other normalisers are refused.
    """

    name = "additive"
    by_kind = True

    def refuses(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> list[str]:
        reasons = []
        form = form_of(formula.score)
        if not isinstance(form, PairNetwork) or form.vector is None or form.between is not None:
            reasons.append(f"{type(formula.score).__name__} is not a sum of tanh or leaky ReLU")
        if key.device.type not in ("cpu", "cuda"):
            reasons.append(f"made for CPUs and CUDA, not for {key.device.type}")
        if reasons:
            return reasons
        if key.device.type == "cuda":
            return pairwise_triton.reasons(formula, query)
        if query.dtype not in (torch.float32, torch.bfloat16):
            reasons.append(f"computes in float32, not in {query.dtype}")
        reasons += tracing_reasons()
        if query.shape[2] > _rows(query, key):
            reasons += cutting_reasons(formula)
        if not reasons and (missing := unavailable()):
            reasons.append(missing)
        return reasons

    def cost(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> Cost:
        if key.device.type == "cuda":
            return pairwise_triton.cost(formula, query, key, training=torch.is_grad_enabled())
        matrices, hidden = query.shape[0] * query.shape[1], terms(formula.score)
        features = 2.0 * (query.shape[2] + key.shape[2]) * hidden
        weights = 3.0 * min(_rows(query, key), query.shape[2]) * key.shape[2]
        return Cost(5.0 * count_pairs(query, key) * hidden, 4.0 * matrices * (features + weights))

    def context(self, inputs: Inputs) -> Tensor:
        formula, query, key, _, at, _, dropout = inputs
        if key.device.type == "cuda":
            return pairwise_triton.context(inputs)
        form, rule, rows, shown = checked_form(formula.score), formula.visibility, _rows(query, key), None
        visible = rule(at) if rule.hides and query.shape[2] <= rows else None
        if rule.hides and not nothing_to_silence(rule, at):
            shown = visible_keys(rule, at, rows) if visible is None else visible
        features, values = _features_and_values(inputs, form, shown)

        def block(query: Tensor, at: Positions, features: Tensor, values: Tensor) -> Tensor:
            here = rule(at) if rule.hides and visible is None else visible
            weights = _weights(formula, form, form.of_query(query), features, here, at)
            return _weighed(drop(weights, dropout) if dropout else weights, query, values, here)

        return by_rows(block, query, at, rows, features.float(), values)


def looked_back(
    inputs: Inputs,
) -> tuple[Float[Tensor, "batch heads query value_head_dim"], Float[Tensor, "batch heads query key"]] | None:
    """Context and weights of one query whose score depends on the weights of the step before: U f is added to the keys.

    None for another score, and where the kernel does not run.
    """
    formula, query, _, _, at, _, _ = inputs
    form, rule, kind = form_of(formula.score), formula.visibility, (query.shape[2], query.dtype, query.device.type)
    if not isinstance(form, PairNetwork) or form.between is None or form.vector is None:
        return None
    if kind != (1, torch.float32, "cpu") or traced() or unavailable():
        return None
    visible = rule(at) if rule.hides else None
    features, values = _features_and_values(inputs, form, None if nothing_to_silence(rule, at) else visible)
    queries, between = form.of_query(query), form.between(query, at)[:, :, 0]
    form.require_agreement(formula.score, queries, between)
    weights = _weights(formula, form, queries, features + between, visible, at)
    return _weighed(weights, query, values, visible), weights


def _features_and_values(inputs: Inputs, form: PairNetwork, visible: Tensor | None) -> tuple[Tensor, Tensor]:
    """Features of the keys, and values. Those that no query sees are zeroed, unless the kernel does not read them."""
    query, key, features = inputs.query, inputs.key, inputs.key_features
    values = share_heads(inputs.value, query.shape[1])
    if visible is not None and not suits_few(query, values):
        (values,) = silence(visible, values)
    if features is None:
        key = share_heads(key, query.shape[1])
        features = form.of_key(key if visible is None else silence(visible, key)[0])
    return features, values


_ALL = torch.ones(1, 1, 1, 1, dtype=torch.bool)


def _weights(
    formula: Formula, form: PairNetwork, query: Tensor, key: Tensor, visible: Tensor | None, at: Positions
) -> Float[Tensor, "batch heads query key"]:
    """The weights, from the features of queries and of keys."""
    assert form.vector is not None
    form.require_agreement(formula.score, query, key)
    softmax = softmax_temperature(formula.normaliser) == 1.0
    bias = None if formula.bias is None else formula.bias(at).float()
    sides = query.float(), key.float(), form.vector.float()
    weights = pair_weights(*sides, visible=visible, bias=bias, softmax=softmax, slope=form.slope)
    if not softmax:
        weights = formula.normaliser(weights, _ALL if visible is None else visible)
    return weights if formula.reweight is None else weights * formula.reweight(at).exp().float()


def _weighed(weights: Tensor, query: Tensor, value: Tensor, visible: Tensor | None) -> Tensor:
    """The context; hidden values are zeros already, or are not read."""
    if suits_few(query, value):
        return weigh_few(weights, value, visible).to(context_type(value))
    return weigh(weights.to(value.dtype), value, _ALL if visible is None else visible)


def _rows(query: Tensor, key: Tensor) -> int:
    return max(1, ROOM // max(1, 4 * query.shape[0] * query.shape[1] * key.shape[2]))


# ---- the kernels for CPUs --------------------------------------------------------------------------------------------


@cache
def unavailable() -> str:
    """Why the kernels do not run on this machine; empty where they do."""
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
        query, key, vector = (pad(tensor, (0, missing)) for tensor in (query, key, vector))
    sides = query.contiguous(), key.contiguous(), vector.contiguous()
    weights: Tensor = _PairWeights.apply(*sides, bias, visible, softmax, slope)
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
        _score("forward", query, key, vector, bias, visible, softmax, slope, weights=weights)
        ctx.save_for_backward(query, key, vector, bias, visible, weights if softmax else None)
        ctx.softmax, ctx.slope = softmax, slope
        return weights

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, vector, bias, visible, weights = ctx.saved_tensors
        if torch.is_grad_enabled():
            defined = partial(_defined, visible, ctx.softmax, ctx.slope)
            return (*by_definition(defined, (query, key, vector, bias), grad), None, None, None)
        if weights is not None:
            grad = torch.ops.aten._softmax_backward_data(grad, weights, -1, weights.dtype)
        grad = grad.contiguous()
        to_query = torch.empty_like(query) if key.shape[2] else torch.zeros_like(query)
        to_key, to_vector = torch.empty_like(key), query.new_empty(*query.shape[:2], query.shape[3])
        outputs = {"grad_query": to_query, "grad_key": to_key, "grad_vector": to_vector}
        _score("backward", query, key, vector, bias, visible, ctx.softmax, ctx.slope, grad_scores=grad, **outputs)
        to_bias = grad.sum_to_size(bias.shape) if ctx.needs_input_grad[3] else None
        shared = (0, 1) if len(vector) == 1 else (0,)
        return to_query, to_key, to_vector.sum(shared).view_as(vector), to_bias, None, None, None


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


def suits_few(query: Tensor, value: Tensor) -> bool:
    """Whether queries are so few that a kernel computes their contexts."""
    return query.shape[2] <= FEW and query.dtype == value.dtype == torch.float32


def weigh_few(
    weights: Float[Tensor, "batch heads query key"],
    value: Float[Tensor, "batch heads key value_head_dim"],
    visible: Bool[Tensor, "#batch #heads #query #key"] | None,
) -> Float[Tensor, "batch heads query value_head_dim"]:
    """Σ_j α_ij v_j over the visible j, which reads no hidden value."""
    context: Tensor = _Weigh.apply(weights.contiguous(), value.contiguous(), visible)
    return context


class _Weigh(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, value: Tensor, visible: Tensor | None) -> Tensor:
        ctx.save_for_backward(weights, value, visible)
        context = value.new_empty(*weights.shape[:3], value.shape[3])
        _few("weigh", weights, value, visible, context)
        return context

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, value, visible = ctx.saved_tensors
        if torch.is_grad_enabled():
            return *by_definition(partial(_defined_context, visible), (weights, value), grad), None
        to_weights, to_value = torch.empty_like(weights), torch.empty_like(value)
        _few("weigh_backward", weights, value, visible, grad.contiguous(), to_weights, to_value)
        return to_weights, to_value, None


def _defined_context(visible: Tensor | None, weights: Tensor, value: Tensor) -> Tensor:
    if visible is None:
        return weights @ value
    (value,) = silence(visible, value)
    return weigh(torch.where(visible, weights, 0.0), value, visible)


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


def _problem(shape: tuple[int, ...], visible: Tensor | None) -> _Problem:
    batch, heads, queries, keys = shape
    problem = _Problem(batch=batch, heads=heads, queries=queries, keys=keys, threads=torch.get_num_threads())
    if visible is not None:
        problem.visible = visible.data_ptr()
        problem.visible_stride[:] = visible.expand(shape).stride()
    return problem


def _score(
    name: str,
    query: Tensor,
    key: Tensor,
    vector: Tensor,
    bias: Tensor | None,
    visible: Tensor | None,
    softmax: bool,
    slope: float | None,
    **others: Tensor,
) -> None:
    """Run a kernel of scores, with room for exponentials where they pay."""
    shape = (*query.shape[:3], key.shape[2])
    problem = _problem(shape, visible)
    problem.hidden, problem.vector_heads, problem.softmax = query.shape[3], len(vector), softmax
    problem.leaky, problem.slope = slope is not None, slope or 0.0
    others |= {"query": query, "key": key, "vector": vector}
    if bias is not None:
        others["bias"] = bias
        problem.bias_stride[:] = bias.expand(shape).stride()
    if query.shape[2] >= EXPONENTIALS_FROM and slope is None:
        others |= {"query_scratch": torch.empty_like(query), "key_scratch": torch.empty_like(key)}
    for field, tensor in others.items():
        setattr(problem, field, tensor.data_ptr())
    _run(name, problem)


def _few(name: str, weights: Tensor, value: Tensor, visible: Tensor | None, *others: Tensor) -> None:
    problem = _problem(weights.shape, visible)
    problem.weights = weights.data_ptr()
    _run(name, problem, ctypes.c_int64(value.shape[3]), *map(native.address, (value, *others)))


def _run(name: str, problem: _Problem, *arguments: object) -> None:
    getattr(native.load("foveate.attention.paths", "pairwise.cpp").library, name)(ctypes.byref(problem), *arguments)


def _agrees() -> bool:
    """Whether kernel and plain torch agree in one small case."""
    generator = torch.Generator().manual_seed(0)
    # The first call may run under autocast, or with another default dtype.
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        query, key = (torch.randn(1, 1, n, 80, generator=generator, dtype=torch.float32) for n in (4, 5))
        vector = torch.randn(1, 80, generator=generator, dtype=torch.float32)
        expected = PairNetwork(vector=vector).compare(query, key)
        return torch.allclose(pair_weights(query, key, vector, softmax=False), expected, atol=1e-4)
