"""Between softmax and a hard choice: weights that sum to 1, many of them exactly 0."""

import ctypes
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from foveate import native
from foveate.attention.check import require_real
from foveate.attention.normaliser.normaliser import Rows, Scores, Visible, Weights, closed, possible, precise, shown
from foveate.attention.position import traced


class _Threshold:
    """α_ij = max(0, (a − 1) e_ij − τ_i)^{1/(a−1)}; the statistic of a row is τ_i, and ∞ for an empty row."""

    @property
    def alpha(self) -> float:
        raise NotImplementedError

    def __call__(self, scores: Scores, visible: Visible) -> Weights:
        if not scores.shape[-1]:
            return scores
        mapped = traced() and not torch.compiler.is_compiling()
        weights: Tensor = (_Mapped if mapped else _Sparse).apply(precise(scores), visible, self.alpha)
        return weights.to(scores.dtype)

    def statistic(self, scores: Scores, visible: Visible) -> Rows:
        if not scores.shape[-1]:
            return precise(scores).new_full(scores.shape[:-1], torch.inf)
        if self.alpha > 2:  # its threshold lies so near to the largest score that float32 may not tell them apart
            scores = scores.double()
        visible = possible(scores, visible)
        top = _top(scores, visible)
        threshold = _threshold(closed(precise(scores.detach()), visible) - top, self.alpha) + top * (self.alpha - 1)
        return torch.where(visible.any(-1), threshold[..., 0], torch.inf)

    def tile(self, scores: Scores, visible: Visible, statistic: Rows, *, first: int = 0) -> Weights:
        threshold = torch.where(statistic.isinf(), 0.0, statistic)[..., None]
        above = scores.to(torch.promote_types(scores.dtype, statistic.dtype)) * (self.alpha - 1) - threshold
        return shown(_power(above, self.alpha), visible).to(scores.dtype)


@dataclass(frozen=True)
class Sparsemax(_Threshold):
    """α_ij = max(0, e_ij − τ_i) with τ_i such that the row sums to 1

    The Euclidean projection of the scores onto the simplex. Reference: Martins and Astudillo 2016, algorithm 1.

    >>> scores, visible = torch.tensor([[[[2.0, 1.5, 0.2]]]]), torch.ones(1, 1, 1, 1, dtype=torch.bool)
    >>> Sparsemax()(scores, visible).flatten()
    tensor([0.7500, 0.2500, 0.0000])
    """

    symbol: ClassVar[str] = "sparsemax"
    alpha: ClassVar[float] = 2.0

    def build(self) -> "Sparsemax":
        return self

    def header(self) -> dict[str, str]:
        return {"kind": "sparsemax"}


@dataclass(frozen=True)
class Entmax(_Threshold):
    """α_ij = max(0, (a − 1) e_ij − τ_i)^{1/(a−1)} with τ_i such that the row sums to 1

    `alpha` leads from softmax (towards 1) over 1.5 to sparsemax (2) and beyond. Newton's steps compute τ to the last
    bits of the dtype; the gradient is exact. Reference: Peters et al. 2019, equation 7 and proposition 2.

    >>> scores, visible = torch.tensor([[[[2.0, 1.5, 0.2]]]]), torch.ones(1, 1, 1, 1, dtype=torch.bool)
    >>> Entmax()(scores, visible).flatten()
    tensor([0.6740, 0.3260, 0.0000])
    """

    alpha: float = 1.5

    def __post_init__(self) -> None:
        require_real(alpha=self.alpha)
        if self.alpha <= 1:
            raise ValueError(f"alpha={self.alpha} must be greater than 1; at 1 it is softmax")

    def build(self) -> "Entmax":
        return self

    @property
    def symbol(self) -> str:
        return f"entmax_{self.alpha:g}"

    def header(self) -> dict[str, str | float]:
        return {"kind": "entmax", "alpha": self.alpha}


class _Sparse(torch.autograd.Function):
    """dα = J de; J is symmetric, so that it makes gradients too. Sparsemax is the case a = 2."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, visible: Tensor, alpha: float) -> Tensor:
        weights = _forward(scores, visible, alpha)
        ctx.save_for_backward(weights)
        ctx.alpha = alpha
        return weights

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (weights,) = ctx.saved_tensors
        return _backward(weights, grad, ctx.alpha), None, None


class _Mapped(_Sparse):
    """The same as `torch.func` needs it, which takes longer to call, and which `torch.compile` refuses."""

    generate_vmap_rule = True

    @staticmethod
    def forward(scores: Tensor, visible: Tensor, alpha: float) -> Tensor:  # type: ignore[override]
        return _forward(scores, visible, alpha)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, float], output: Tensor) -> None:
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)
        ctx.alpha = inputs[2]

    @staticmethod
    def jvp(ctx: Any, change: Tensor, *_: None) -> Tensor:
        (weights,) = ctx.saved_tensors
        return _backward(weights, change, ctx.alpha)


def _forward(scores: Scores, visible: Visible, alpha: float) -> Weights:
    if _has_kernel(scores, alpha):
        weights = torch.empty_like(scores, memory_format=torch.contiguous_format)
        _call("forward", scores, alpha, visible, scores.contiguous(), weights)
        return weights
    visible = possible(scores, visible)
    # Below the largest score, where the 1 is not rounded away by scores in the thousands.
    below = closed(scores, visible) - _top(scores, visible)
    weights = shown(_power(below * (alpha - 1) - _threshold(below, alpha), alpha), visible)
    if alpha <= 2:
        return weights
    # Beyond sparsemax a weight near the threshold changes more than the threshold does, by its rounding too.
    return weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)


def _backward(weights: Weights, change: Scores, alpha: float) -> Weights:
    """J de = s ∘ (de − (s · de) / Σ s) with s = α^{2−a} on the support."""
    if not torch.is_grad_enabled() and _has_kernel(weights, alpha):
        answer = torch.empty_like(weights)
        _call("backward", weights, alpha, None, weights, change.contiguous(), answer)
        return answer
    support = weights != 0
    slope = torch.where(support, torch.where(support, weights, 1.0) ** (2 - alpha), 0.0)
    total = slope.sum(-1, keepdim=True)
    mean = (slope * change).sum(-1, keepdim=True) / torch.where(total > 0, total, 1.0)
    return slope * (change - mean)


@torch.no_grad()
def _threshold(below: Tensor, alpha: float) -> Tensor:
    """τ of rows whose largest score is 0: where Σ max(0, (a − 1) e_j − τ)^p is 1, with p = 1 / (a − 1).

    For p ≥ 1 the p-norm is convex in τ and at least 1 at −1, so Newton's steps go up to τ and not beyond. For p < 1,
    and in a traced program, which cannot ask whether it has arrived, τ is computed by bisection.
    """
    scaled, power = below * (alpha - 1), 1 / (alpha - 1)
    if power < 1 or traced():
        return _bisected(scaled, alpha)
    threshold, before = torch.full_like(below[..., :1], -1.0), torch.zeros_like(below[..., :1])
    for _ in range(64):
        above = (scaled - threshold).relu()
        if power == 1:
            count = above.sign().sum(-1, keepdim=True)
            threshold, ends = threshold + (above.sum(-1, keepdim=True) - 1) / count, torch.equal(count, before)
            before = count
        else:
            lower = above if power == 2 else above ** (power - 1)
            norm = (above * lower).sum(-1, keepdim=True) ** (1 / power)
            step = (norm - 1) * norm ** (power - 1) / lower.sum(-1, keepdim=True)
            # The next error is the square of this one.
            threshold, ends = threshold + step, not bool((step > torch.finfo(below.dtype).eps ** 0.5 / 8).any())
        if ends:
            break
    return threshold


def _bisected(scaled: Tensor, alpha: float) -> Tensor:
    """Bisection of the logarithm of −τ, which is at most 1 and at least what n equal scores have, n^(1 − a): so little
    for many keys and a large a that bisection of τ itself would end before its first digit.
    """
    far = torch.zeros_like(scaled[..., :1])
    near = torch.full_like(far, (1 - alpha) * math.log(scaled.shape[-1]))
    for _ in range(60 if scaled.dtype == torch.float64 else 32):
        middle = (near + far) / 2
        fits = _power(scaled + middle.exp(), alpha).sum(-1, keepdim=True) >= 1
        far, near = torch.where(fits, middle, far), torch.where(fits, near, middle)
    return -far.exp()


def _power(above: Tensor, alpha: float) -> Tensor:
    return above.relu() if alpha == 2 else above.relu() ** (1 / (alpha - 1))


def _top(scores: Scores, visible: Visible) -> Tensor:
    """The largest visible score of each row, as a constant: all weights are those of scores moved by one number."""
    return closed(precise(scores.detach()), visible).amax(-1, keepdim=True)


# ---- the kernel ------------------------------------------------------------------------------------------------------


class _Sizes(ctypes.Structure):
    """`Sizes` of sparse.cpp."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("batch", "heads", "queries", "keys", "power", "threads")),
        ("visible_stride", ctypes.c_int64 * 4),
    )


def _has_kernel(scores: Tensor, alpha: float) -> bool:
    """Whether the kernel serves: float32 on a CPU, sparsemax and 1.5-entmax."""
    if scores.dtype != torch.float32 or scores.device.type != "cpu" or alpha not in (1.5, 2.0):
        return False
    return not traced() and native.load(*_FILE).library is not None


def _call(name: str, scores: Tensor, alpha: float, visible: Tensor | None, *tensors: Tensor) -> None:
    sizes = _Sizes(*scores.shape, round(1 / (alpha - 1)), torch.get_num_threads())
    if visible is not None:
        sizes.visible_stride[:] = visible.expand(scores.shape).stride()
    places = [ctypes.c_void_p(visible.data_ptr())] if visible is not None else []
    places += [native.address(tensor) for tensor in tensors]
    getattr(native.load(*_FILE).library, name)(ctypes.byref(sizes), *places)


_FILE = ("foveate.attention.normaliser", "sparse.cpp")
