"""Additive attention on a GPU: softmax over Σ_h v_h tanh(a_ih + b_jh) and its context in kernels written in Triton.

Memory is O((query + key) · hidden). The backward pass computes weights again, for as many queries at a time as `ROOM`
holds, and nothing is added atomically: the same inputs give the same gradients, bit for bit. This package does not
depend on Triton: `unavailable` says why there are no kernels, and another path runs.
"""

import importlib.util
import math
from dataclasses import dataclass
from functools import cache, partial, reduce
from types import ModuleType
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from foveate.attention.normaliser import Softmax, softmax_temperature
from foveate.attention.paths.derivative import by_definition
from foveate.attention.paths.hidden import nothing_to_silence, silence, weigh
from foveate.attention.paths.materialised import ChunkedPath, visible_keys
from foveate.attention.paths.path import Cost, Formula, Inputs, share_heads, tracing_reasons
from foveate.attention.position import Positions
from foveate.attention.score import PairNetwork, checked_form
from foveate.attention.score.form import terms
from foveate.attention.visibility import Visibility

UNBOUNDED = 2**30
"""More positions than any sequence has."""
FAR = 10.0
"""Heads with larger features are computed without e^{2a} e^{2b}, whose products of two could overflow."""
WIDEST = 256
"""Wider values do not fit beside the scores of a tile: for them, scores are computed first, block by block."""
ROOM = 2**28
"""Bytes for weights and their gradients, where they are stored."""
TILE = 64
BLOCKS_WANTED = 264
"""With fewer blocks of queries, tiles shrink, so that every multiprocessor gets one."""


@dataclass(frozen=True, eq=False)
class Sight:
    """The keys that a query sees: those within [position − left, position + right], and not hidden by the mask."""

    mask: Bool[Tensor, "#batch #heads #query #key"] | None = None
    query_at: Int[Tensor, "#batch #heads query 1"] | None = None
    key_at: Int[Tensor, "#batch #heads 1 key"] | None = None
    left: int = 0
    right: int = 0


def reasons(formula: Formula, query: Tensor) -> list[str]:
    """Why the kernels do not serve this attention on this GPU; empty when they do."""
    reasons_against = []
    if query.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        reasons_against.append(f"computes in float32, not in {query.dtype}")
    if softmax_temperature(formula.normaliser) is None:
        reasons_against.append(f"on a GPU only softmax, not {formula.normaliser}")
    if formula.reweight is not None:
        reasons_against.append("weights are reweighted after softmax")
    reasons_against += tracing_reasons()
    if not reasons_against and (missing := unavailable(query.device)):
        reasons_against.append(missing)
    return reasons_against


def cost(formula: Formula, query: Tensor, key: Tensor, *, training: bool) -> Cost:
    """Features are stored twice, once transposed; a bias, and a mask that depends on the query, are stored in full."""
    matrices, hidden, least = query.shape[0] * query.shape[1], terms(formula.score), 16
    queries = -(-query.shape[2] // least) * least
    pairs = float(matrices * queries * key.shape[2])
    room = 8.0 * matrices * (queries + key.shape[2]) * hidden
    if any(part.reads_query_position for part in formula.visibility.split().rest):
        room += query.shape[0] * query.shape[2] * key.shape[2]
    room += 0.0 if formula.bias is None else 4.0 * query.shape[1] * query.shape[2] * key.shape[2]
    room += min(float(ROOM), 8.0 * pairs) if training else 0.0
    return Cost(5.0 * pairs * hidden, room)


def sight_under(rule: Visibility, at: Positions) -> Sight:
    """The rule as the kernels read it: how far a query sees, and a mask for the rest."""
    (left, right), pads, rest = rule.split()
    masks = [part(at) for part in rest]
    if pads and at.real is not None:
        masks.append(at.real)
    mask = reduce(torch.logical_and, masks) if masks else None
    if left == right == math.inf:
        return Sight(mask)
    near, far = (int(min(count, UNBOUNDED)) for count in (left, right))
    return Sight(mask, at.query, at.key, near, far)


def context(inputs: Inputs) -> Tensor:
    """The context. Where weights are dropped, or a value that only some queries see is not finite, plain torch computes
    it block by block.
    """
    formula, query, key, value, at, features, dropout = inputs
    form, rule, heads = checked_form(formula.score), formula.visibility, query.shape[1]
    temperature = softmax_temperature(formula.normaliser)
    assert temperature is not None
    keys, values = share_heads(key, heads) if features is None else None, share_heads(value, heads)
    shown = None
    if not nothing_to_silence(rule, at):
        shown = visible_keys(rule, at, max(1, ROOM // max(1, query.shape[0] * heads * key.shape[2])))
        (values,) = silence(shown, values)
        keys = None if keys is None else silence(shown, keys)[0]
    if dropout or (rule.reads_query_position and not bool(values.detach().isfinite().all())):
        return ChunkedPath().context(inputs)
    if keys is not None:
        features = form.of_key(keys)
    elif shown is not None and features is not None:
        (features,) = silence(shown, features.expand(-1, heads, -1, -1))
    assert features is not None
    queries = form.of_query(query)
    form.require_agreement(formula.score, queries, features)
    vector = form.vector.float() / temperature
    bias = None if formula.bias is None else formula.bias(at).float() / temperature
    return attend(queries, features, vector, values, sight=sight_under(rule, at), bias=bias, leak=form.slope)


@cache
def unavailable(device: torch.device) -> str:
    """Why the kernels do not run on this device; empty where they do."""
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed"
    if torch.version.hip is not None:
        return "its kernels use an instruction that only NVIDIA's GPUs have"
    try:
        with torch.inference_mode(False), torch.enable_grad(), torch.autocast(device.type, enabled=False):
            return "" if _agrees(device) else "its kernels fail the check against plain torch"
    except Exception as error:  # a compiler, a driver or a device that is too old: all have errors of their own
        return f"triton fails here: {type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"


def attend(
    query: Float[Tensor, "batch heads query hidden"],
    key: Float[Tensor, "batch #heads key hidden"],
    vector: Float[Tensor, "#heads hidden"],
    value: Float[Tensor, "batch heads key value_dim"],
    *,
    sight: Sight | None = None,
    bias: Float[Tensor, "#batch #heads #query #key"] | None = None,
    leak: float | None = None,
) -> Float[Tensor, "batch heads query value_dim"]:
    """softmax_j(Σ_h v_h tanh(q_ih + k_jh) + bias_ij) over the visible keys, times the values.

    With `leak`, a leaky ReLU of that slope stands for tanh.

    Computed in float32. A query that sees nothing gets zeros. A value that is not finite must be seen by all or none.
    """
    key = key.expand(len(query), query.shape[1], -1, -1)
    sides = query.float(), key.float(), vector.float(), value.contiguous()
    context: Tensor = _Attend.apply(*sides, bias, (sight or Sight(), leak))
    return context


_Kind = tuple[Sight, float | None]
"""The keys that queries see, and the slope of the leaky ReLU; None: tanh."""


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, vector: Tensor, value: Tensor, bias: Tensor | None, kind: _Kind
    ) -> Tensor:
        call = _Call(query, key, vector, bias, *kind)
        context, statistic = call.attend(value) if value.shape[3] <= WIDEST else call.attend_by_blocks(value)
        ctx.save_for_backward(query, key, vector, value, bias, context, statistic)
        ctx.kind = kind
        return context

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, vector, value, bias, context, statistic = ctx.saved_tensors
        if torch.is_grad_enabled():
            return (*by_definition(partial(_defined, *ctx.kind), (query, key, vector, value, bias), grad), None)
        call = _Call(query, key, vector, bias, *ctx.kind)
        return (*call.gradients(value, context, statistic, grad, wants_bias=ctx.needs_input_grad[4]), None)


def _defined(
    sight: Sight, leak: float | None, query: Tensor, key: Tensor, vector: Tensor, value: Tensor, bias: Tensor | None
) -> Tensor:
    visible = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=query.device) if sight.mask is None else sight.mask
    if sight.query_at is not None and sight.key_at is not None:
        behind = sight.query_at - sight.key_at
        visible = visible & (behind <= sight.left) & (-behind <= sight.right)
    key, values = silence(visible, key, value.float())
    scores = PairNetwork(vector=vector, slope=leak).compare(query, key)
    scores = scores if bias is None else scores + bias
    return weigh(Softmax()(scores, visible), values, visible).to(value.dtype)


class _Call:
    """The inputs as the kernels read them."""

    def __init__(
        self, query: Tensor, key: Tensor, vector: Tensor, bias: Tensor | None, sight: Sight, leak: float | None
    ) -> None:
        self.kernels = _kernels()
        self.batch, self.heads, self.queries, _ = query.shape
        self.keys, self.hidden = key.shape[2], query.shape[3] + query.shape[3] % 2
        self.vector, self.bias, self.query = _even(vector).contiguous(), bias, query
        self.leak = leak
        near = _near(query) & _near(key)
        self.near = near if leak is None else torch.zeros_like(near)
        self.by_row = tuple(self._padded(features) for features in (query, key))
        self.by_unit = tuple(features.mT.contiguous() for features in self.by_row)
        self.seen, self.seen_arguments = sight, self._visible(sight)
        self.bias_strides = (0, 0, 0, 0) if bias is None else self._strides(bias)
        self.grid_heads = self.batch * self.heads

    def attend(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """Context and log-sum-exp, without weights in memory."""
        context = value.new_empty(self.batch, self.heads, self.queries, value.shape[3])
        statistic = self.query.new_empty(self.batch, self.heads, self.queries)
        rows, warps = self._rows(value.shape[3])
        self._launch(
            self.kernels.attend, -(-self.queries // rows), warps, *self.by_unit, self.vector, value, self.near,
            *self.seen_arguments[:3], self.bias, context, statistic, *self._sizes(), self.queries, self.keys,
            value.shape[3], **self._flags(), **_tile(rows, warps), WIDTH=max(16, _power(value.shape[3])),
        )  # fmt: skip
        return context, statistic

    def attend_by_blocks(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """The same with scores in memory, for some queries at a time."""
        contexts, statistics = [], []
        for first, last in self._blocks():
            scores = self.query.new_empty(self.batch, self.heads, last - first, self.keys)
            self._weigh(first, last, scores)
            statistic = scores.logsumexp(-1)
            shift = torch.where(statistic == -torch.inf, 0.0, statistic)
            weights = scores.sub_(shift[..., None]).exp_()
            contexts.append(weights.to(value.dtype) @ value)
            statistics.append(shift)
        return torch.cat(contexts, 2), torch.cat(statistics, 2)

    def gradients(
        self, value: Tensor, context: Tensor, statistic: Tensor, grad: Tensor, *, wants_bias: bool
    ) -> tuple[Tensor | None, ...]:
        """The gradients of query features, key features, vector, value and bias."""
        grad, precise = grad.float(), value.float()
        inner = (grad * context.float()).sum(-1)
        slopes = [torch.zeros_like(features) for features in self.by_row]
        grad_value, values = torch.zeros_like(precise), self.query.new_zeros(self.grid_heads, self.hidden)
        grad_bias = torch.zeros_like(self.bias, dtype=torch.float32) if wants_bias and self.bias is not None else None
        for first, last in self._blocks():
            here = grad[:, :, first:last]
            slope = here @ precise.mT
            weights = torch.empty_like(slope)
            self._weigh(first, last, weights, slope, statistic, inner)
            grad_value += weights.mT @ here
            if grad_bias is not None:
                part = grad_bias if grad_bias.shape[2] == 1 else grad_bias[:, :, first:last]
                part += slope.sum_to_size(part.shape)
            values += self._differentiate(0, slope, slopes[0], first, last)
            self._differentiate(1, slope, slopes[1], first, last)
        of_slope, of_value = (4, -2) if self.leak is None else (1, 1)
        factor = of_slope * self.vector.unsqueeze(1)
        lengths, hidden = (self.queries, self.keys), self.query.shape[3]
        of_features = [(x * factor)[:, :, :length, :hidden] for x, length in zip(slopes, lengths, strict=True)]
        # Σ_ij of the gradient of scores is 0 under softmax: of tanh = 1 − 2r only r remains.
        shared = (0, 1) if len(self.vector) == 1 else (0,)
        total = values.view(self.batch, self.heads, self.hidden).sum(shared)
        of_vector = of_value * total.view_as(self.vector)[:, :hidden]
        return *of_features, of_vector, grad_value.to(value.dtype), grad_bias

    def _weigh(self, first: int, last: int, weights: Tensor, *rest: Tensor) -> None:
        """Writes scores into `weights`; given their gradient, statistic and inner products, weights and gradients."""
        slope, statistic, inner = rest or (None, None, None)
        rows = 32
        tiles = -(-(last - first) // rows) * -(-self.keys // TILE)
        self._launch(
            self.kernels.weigh, tiles, 4, *self.by_unit, self.vector, self.near, *self.seen_arguments[:3], self.bias,
            statistic, inner, weights, slope, *self._sizes(), self.queries, self.keys, first, last, **self._flags(),
            SCORES=not rest, **_tile(rows, 4),
        )  # fmt: skip

    def _differentiate(self, side: int, slope: Tensor, slopes: Tensor, first: int, last: int) -> Tensor:
        """Adds to the slopes of queries `first` to `last` (side 0) or of keys; returns the share of the vector."""
        mine, other, strides = self.by_row[side], self.by_row[1 - side], (self.keys, 1)
        if side == 0:
            mine, slopes = mine[:, :, first:last], slopes[:, :, first:last]
        else:
            other, strides = other[:, :, first:last], (1, self.keys)
        counts = (last - first, self.keys) if side == 0 else (self.keys, last - first)
        rows, units = 32, min(64, max(16, _power(self.hidden)))
        tiles = -(-counts[0] // rows)
        values = self.query.new_empty(self.grid_heads, tiles, self.hidden)
        self._launch(
            self.kernels.differentiate, tiles * -(-self.hidden // units), 4, mine, other, self.near, slope, slopes,
            values, mine.stride(1), other.stride(1), slopes.stride(1), slope.stride(1), *strides, self.leak or 0.0,
            *counts, HIDDEN=self.hidden, LEAKY=self.leak is not None, VALUES=side == 0, PLAIN=self._flags()["PLAIN"],
            ROWS=rows, UNITS=units,
        )  # fmt: skip
        return values.sum(1)

    def _launch(self, kernel: Any, tiles: int, warps: int, *arguments: object, **constants: object) -> None:
        if tiles * self.grid_heads:
            with torch.cuda.device_of(self.query):
                kernel[(tiles * self.grid_heads,)](*arguments, **constants, num_warps=warps)

    def _sizes(self) -> tuple[Any, ...]:
        padded = (features.shape[2] for features in self.by_row)
        vector_stride = self.hidden if len(self.vector) > 1 else 0
        return (*padded, *self.seen_arguments[3:4], self.bias_strides, self.seen.left, self.seen.right, self.heads,
                vector_stride, self.leak or 0.0)  # fmt: skip

    def _flags(self) -> dict[str, Any]:
        parts = {"MASKED": self.seen.mask, "SPANNED": self.seen.query_at, "BIASED": self.bias}
        present = {name: part is not None for name, part in parts.items()}
        return {"HIDDEN": self.hidden, "LEAKY": self.leak is not None, "PLAIN": not self.query.is_cuda, **present}

    def _visible(self, sight: Sight) -> tuple[Any, ...]:
        """Mask and positions, and all their strides."""
        mask = None if sight.mask is None else sight.mask.view(torch.uint8)
        strides = (0, 0, 0, 0) if mask is None else self._strides(mask)
        positions, ahead = [], []
        for at in (sight.query_at, sight.key_at):
            at = None if at is None else at.flatten(2).to(torch.int32).contiguous()
            positions.append(at)
            ahead += [0, 0] if at is None else [at.stride(axis) if at.shape[axis] > 1 else 0 for axis in (0, 1)]
        return mask, *positions, (*strides, *ahead)

    def _strides(self, tensor: Tensor) -> tuple[int, ...]:
        return tensor.expand(self.batch, self.heads, self.queries, self.keys).stride()

    def _padded(self, features: Tensor) -> Tensor:
        """Exponentials of the features, or the features in heads that are not near, padded to whole tiles."""
        operand = torch.where(self.near[..., None, None], (2 * features).exp(), features)
        return pad(_even(operand), (0, 0, 0, -features.shape[2] % TILE)).contiguous()

    def _rows(self, width: int) -> tuple[int, int]:
        """The number of queries in a tile, and the number of warps that work on it."""
        rows = 64 if width <= 64 else 32
        while rows > 16 and self.grid_heads * -(-self.queries // rows) < BLOCKS_WANTED:
            rows //= 2
        return rows, 8 if width > 128 and rows > 16 else 4

    def _blocks(self) -> list[tuple[int, int]]:
        rows = max(16, ROOM // max(1, 8 * self.grid_heads * self.keys) // 16 * 16)
        return [(first, min(first + rows, self.queries)) for first in range(0, max(self.queries, 1), rows)]


def _near(features: Tensor) -> Bool[Tensor, "batch heads"]:
    """False for NaN too."""
    return (features.abs() <= FAR).flatten(2).all(-1)


def _even(features: Tensor) -> Tensor:
    return pad(features, (0, features.shape[-1] % 2))


def _tile(rows: int, warps: int) -> dict[str, int]:
    """A tile's size, and how many rows and columns of it are each thread's own: about as many of both."""
    pairs = rows * TILE // (32 * warps)
    mine = 1 << (pairs.bit_length() - 1) // 2
    return {"ROWS": rows, "COLUMNS": TILE, "MY_ROWS": mine, "MY_COLUMNS": pairs // mine}


def _power(count: int) -> int:
    return 1 << max(count - 1, 0).bit_length()


@cache
def _kernels() -> ModuleType:
    from foveate.attention.paths import pairwise_triton_kernel

    return pairwise_triton_kernel


def _agrees(device: torch.device) -> bool:
    """Whether the kernels and plain torch agree in one small case, forward and backward."""
    generator = torch.Generator().manual_seed(0)
    shapes = ((1, 2, 5, 6), (1, 2, 7, 6), (2, 6), (1, 2, 7, 4))
    tensors = [torch.randn(shape, generator=generator, dtype=torch.float32) for shape in shapes]
    inputs = [tensor.to(device).requires_grad_() for tensor in tensors]
    query, key, vector, value = inputs
    scores = PairNetwork(vector=vector).compare(query, key)
    contexts = (scores.softmax(-1) @ value, attend(query, key, vector, value))
    answers = [[context, *torch.autograd.grad(context.square().sum(), inputs)] for context in contexts]
    return all(torch.allclose(one, other, atol=1e-3, rtol=1e-2) for one, other in zip(*answers, strict=True))
