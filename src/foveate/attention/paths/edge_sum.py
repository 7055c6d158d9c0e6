"""Softmax attention over the edges of a graph in one kernel each way (`edge_sum.cpp`), for products and for small
networks over pairs, such as the scores of GAT and GATv2.

No tensor has a row for each edge: what is kept for the backward pass is a weight for each edge and head. Without a
compiler, `unavailable` says so, and plain torch computes the same.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd import forward_ad

from foveate import native
from foveate.attention.paths.derivative import by_definition
from foveate.attention.position import traced
from foveate.attention.score import PairNetwork
from foveate.attention.score.form import Product

LIMIT = 2**31
"""Nodes and edges are numbered in 32 bits."""
WORD = 2**32
"""Random numbers for dropout are below."""


@dataclass(frozen=True, eq=False)
class Lists:
    """Edges, sorted by target and then by source, as lists of each node's edges."""

    source: Int[Tensor, " edges"]
    target: Int[Tensor, " edges"]
    queries: int
    keys: int

    @cached_property
    def into(self) -> tuple[Tensor, Tensor]:
        """The number of the first edge into each target, and the source of each edge."""
        return _ends(self.target, self.queries), self.source.int()

    @cached_property
    def out(self) -> tuple[Tensor, Tensor, Tensor]:
        """The place of the first edge out of each source in a list, the numbers of these edges, and their targets."""
        number = self.source.argsort(stable=True)
        return _ends(self.source, self.keys), number.int(), self.target[number].int()


def _ends(nodes: Int[Tensor, " edges"], count: int) -> Int[Tensor, " nodes_and_one"]:
    degree = nodes.bincount(minlength=count)
    return torch.cat([degree.new_zeros(1), degree.cumsum(0)]).int()


@cache
def unavailable() -> str:
    """Why the kernel does not run on this machine; empty where it does."""
    kernels = native.load("foveate.attention.paths", "edge_sum.cpp")
    if kernels.library is None:
        return f"no native kernels: {kernels.reason}"
    if kernels.library.size_of_problem() != ctypes.sizeof(_Problem) or not _agrees():
        return "its kernel fails the check against plain torch"
    return ""


def serves(form: object, query: Tensor, value: Tensor, edges: int) -> bool:
    """Whether the kernel computes this attention: float32 on a CPU, where no program is being traced."""
    shipped = isinstance(form, Product) and form.features_at is None
    shipped = shipped or (isinstance(form, PairNetwork) and form.between is None)
    small = max(edges, query.shape[2], value.shape[2]) < LIMIT and min(query.shape) > 0 and min(value.shape) > 0
    plain = query.device.type == value.device.type == "cpu" and query.dtype == value.dtype == torch.float32
    tangents = forward_ad._current_level >= 0  # the kernel would lose them
    return shipped and small and plain and not tangents and not traced() and not unavailable()


def neighbour_context(
    form: Product | PairNetwork,
    query: Float[Tensor, "batch heads query feature"],
    key: Float[Tensor, "batch heads key feature"],
    value: Float[Tensor, "batch heads key value_head_dim"],
    lists: Lists,
    *,
    bias: Float[Tensor, "#batch #heads edges"] | None = None,
    temperature: float = 1.0,
    dropout: float = 0.0,
) -> Float[Tensor, "batch heads query value_head_dim"]:
    """Σ_e α_e v_source(e) over the edges e into each node, from the features of queries and keys.

    All in float32. The noise of dropout follows from torch's seed.
    """
    slope, scale, vector = None, 1.0, None
    if isinstance(form, Product):
        query, scale = form.scaled(query)
    else:
        slope = form.slope
        vector = query.new_ones(1, query.shape[-1]) if form.vector is None else form.vector.float()
    seed = int(torch.randint(2**62, ())) if dropout else 0
    setting = _Setting(slope, scale, temperature, dropout, seed)

    def context(number: int) -> Tensor:
        sides = (_example(part, number) for part in (query, key, value))
        of_edges = None if bias is None else _example(bias, number if len(bias) > 1 else 0).T
        result: Tensor = _Context.apply(*sides, vector, of_edges, lists, setting.of_example(number))
        return result[None]

    return context(0) if len(query) == 1 else torch.cat([context(number) for number in range(len(query))])


def _example(part: Tensor, number: int) -> Tensor:
    """One example of a batch; the gradient of a view of a single one is not copied."""
    return part.squeeze(0) if len(part) == 1 else part[number]


@dataclass(frozen=True)
class _Setting:
    slope: float | None
    scale: float
    temperature: float
    dropout: float
    seed: int

    def of_example(self, number: int) -> "_Setting":
        """Other noise for each example of a batch."""
        return _Setting(self.slope, self.scale, self.temperature, self.dropout, self.seed + number * 0x632BE59BD9B4E019)


class _Context(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        vector: Tensor | None,
        bias: Tensor | None,
        lists: Lists,
        setting: _Setting,
    ) -> Tensor:
        heads = query.shape[0]
        weights = value.new_empty(len(lists.source), heads)
        context = value.new_empty(lists.queries, heads, value.shape[2])
        _run("forward", query, key, value, vector, bias, lists, setting, weights=weights, context=context)
        ctx.save_for_backward(query, key, value, vector, bias, weights)
        ctx.lists, ctx.setting = lists, setting
        return context.transpose(0, 1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, vector, bias, weights = ctx.saved_tensors
        lists, setting = ctx.lists, ctx.setting
        if torch.is_grad_enabled():
            defined: Callable[..., Tensor] = partial(_defined, lists, setting)
            return (*by_definition(defined, (query, key, value, vector, bias), grad), None, None)
        heads, dim = query.shape[0], query.shape[2]
        to_query, to_key = (query.new_empty(nodes, heads, dim) for nodes in (lists.queries, lists.keys))
        to_value = value.new_empty(lists.keys, heads, value.shape[2])
        blocks = -(-lists.queries // int(_library().nodes_of_a_block()))
        to_vector, to_scores = query.new_empty(blocks, heads, dim), torch.empty_like(weights)
        outputs = {"grad_query": to_query, "grad_key": to_key, "grad_value": to_value}
        outputs |= {"grad_vector": to_vector, "grad_scores": to_scores, "weights": weights}
        grad = grad.transpose(0, 1).contiguous()
        _run("backward", query, key, value, vector, bias, lists, setting, grad_context=grad, **outputs)
        of_vector = None if vector is None else to_vector.sum((0, 1) if len(vector) == 1 else (0,)).view_as(vector)
        of_bias = None if bias is None else to_scores.sum_to_size(bias.shape)
        to_query, to_key, to_value = (part.transpose(0, 1) for part in (to_query, to_key, to_value))
        return to_query, to_key, to_value, of_vector, of_bias, None, None


def _defined(
    lists: Lists,
    setting: _Setting,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    vector: Tensor | None,
    bias: Tensor | None,
) -> Float[Tensor, "heads query value_head_dim"]:
    """The same in torch's own operations, with the same noise."""
    form = Product(scale=setting.scale) if vector is None else PairNetwork(vector=vector, slope=setting.slope)
    scores = form.pairs(query[None, :, lists.target], key[None, :, lists.source])[0]
    scores = (scores if bias is None else scores + bias.T) / setting.temperature
    into = lists.target.expand_as(scores)
    highest = scores.detach().new_full((len(query), lists.queries), -torch.inf)
    highest = highest.scatter_reduce(1, into, scores.detach(), "amax")
    powers = (scores - torch.where(highest == -torch.inf, 0.0, highest)[:, lists.target]).exp()
    total = torch.zeros_like(highest).index_add(1, lists.target, powers)
    weights = powers / torch.where(total == 0, 1.0, total)[:, lists.target]
    if setting.dropout:
        weights = weights * _noise(setting, len(query), len(lists.source)).T
    weighed = weights[..., None] * value[:, lists.source]
    return weighed.new_zeros(len(query), lists.queries, value.shape[2]).index_add(1, lists.target, weighed)


def _noise(setting: _Setting, heads: int, edges: int) -> Float[Tensor, "edges heads"]:
    """The factors by which dropout multiplies weights."""
    problem, factors = _Problem(heads=heads), torch.empty(edges, heads, dtype=torch.float32)
    _set(problem, setting)
    _library().noise(ctypes.byref(problem), native.address(factors), ctypes.c_int64(edges))
    return factors


class _Problem(ctypes.Structure):
    """`Problem` of edge_sum.cpp."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("query", "key", "value", "vector", "bias")),
        *((name, ctypes.c_void_p) for name in ("first", "source", "out_first", "out_edge", "out_target")),
        *((name, ctypes.c_void_p) for name in ("weights", "context", "grad_context", "grad_scores")),
        *((name, ctypes.c_void_p) for name in ("grad_query", "grad_key", "grad_value", "grad_vector")),
        *((name, ctypes.c_int64) for name in ("queries", "keys", "heads", "dim", "value_dim")),
        ("bias_heads", ctypes.c_int64),
        *((name, ctypes.c_int64) for name in ("query_node", "query_head", "key_node", "key_head")),
        *((name, ctypes.c_int64) for name in ("value_node", "value_head", "kind", "drops")),
        ("seed", ctypes.c_uint64),
        ("threads", ctypes.c_int64),
        *((name, ctypes.c_float) for name in ("slope", "scale", "cooling", "kept")),
    )


def _set(problem: _Problem, setting: _Setting) -> None:
    problem.slope, problem.scale = setting.slope or 0.0, setting.scale
    problem.cooling, problem.seed = 1 / setting.temperature, setting.seed % 2**64
    problem.drops = min(round(setting.dropout * WORD), WORD)
    problem.kept = 1 / (1 - setting.dropout) if setting.dropout < 1 else 0.0


def _run(
    name: str,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    vector: Tensor | None,
    bias: Tensor | None,
    lists: Lists,
    setting: _Setting,
    **others: Tensor,
) -> None:
    """Run a kernel. Rows may be apart from each other, but not their numbers."""
    sizes = {"queries": lists.queries, "keys": lists.keys, "heads": len(query)}
    problem = _Problem(**sizes, dim=query.shape[2], value_dim=value.shape[2], threads=torch.get_num_threads())
    _set(problem, setting)
    rows = {side: _rows(part) for side, part in (("query", query), ("key", key), ("value", value))}
    for side, part in rows.items():
        setattr(problem, f"{side}_head", part.stride(0))
        setattr(problem, f"{side}_node", part.stride(1))
    first, source = lists.into
    tensors = {**rows, **others, "first": first, "source": source}
    if vector is not None:
        problem.kind = 1 if setting.slope is not None else 2
        tensors["vector"] = vector.expand(len(query), -1).contiguous()
    if bias is not None:
        problem.bias_heads = bias.shape[1]
        tensors["bias"] = bias.contiguous()
    if name == "backward":
        tensors["out_first"], tensors["out_edge"], tensors["out_target"] = lists.out
    for field, tensor in tensors.items():
        setattr(problem, field, tensor.data_ptr())
    getattr(_library(), name)(ctypes.byref(problem))


def _rows(part: Float[Tensor, "heads nodes dim"]) -> Float[Tensor, "heads nodes dim"]:
    """The same numbers, with those of a row beside each other; of rows of one number, those of all heads."""
    beside = part.stride(0) == 1 if part.shape[2] == 1 else part.stride(2) == 1
    return part if beside else part.transpose(0, 1).contiguous().transpose(0, 1)


def _library() -> ctypes.CDLL:
    library = native.load("foveate.attention.paths", "edge_sum.cpp").library
    assert library is not None
    return library


def _agrees() -> bool:
    """Whether kernel and plain torch agree in one small case."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        query, key, value = (torch.randn(2, 4, 9, generator=generator, dtype=torch.float32) for _ in range(3))
        lists = Lists(torch.tensor([1, 2, 0, 3, 1]), torch.tensor([0, 0, 1, 1, 3]), 4, 4)
        setting = _Setting(0.2, 1.0, 2.0, 0.5, 7)
        vector = torch.randn(2, 9, generator=generator, dtype=torch.float32)
        context = _Context.apply(query, key, value, vector, None, lists, setting)
        return torch.allclose(context, _defined(lists, setting, query, key, value, vector, None), atol=1e-5)
