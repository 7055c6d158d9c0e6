"""The training loss of models that predict tokens."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.attention.paths.derivative import by_definition
from foveate.attention.position import transformed
from foveate.nn import bfloat16
from foveate.nn.exponential import exponentials_


@dataclass(frozen=True, eq=False)
class Loss:
    """A loss as a sum and the number of its terms (tokens), so that batches of different sizes add up exactly.

    `metrics` are sums over the same tokens; the log divides them by the count.
    """

    total: Float[Tensor, ""]
    count: int
    metrics: Mapping[str, Tensor | float] = field(default_factory=dict)


def cross_entropy(
    logits: Float[Tensor, "tokens vocab"], target: Int[Tensor, " tokens"], *, label_smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """Σ_t [ (1 − ε) · −log p(y_t) + ε · mean_v −log p(v) ], in nats, summed over tokens, in float32 at least.

    Label smoothing spreads ε evenly over the vocabulary (Szegedy et al. 2016; Vaswani et al. 2017, section 5.4).
    """
    precise = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return torch.nn.functional.cross_entropy(precise, target, label_smoothing=label_smoothing, reduction="sum")


def mixed_cross_entropy(
    logits: Float[Tensor, "examples labels"],
    target: Int[Tensor, " examples"],
    other: Int[Tensor, " examples"],
    shares: Float[Tensor, " examples"],
    *,
    label_smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Σ_i [ λ_i · CE(logits_i, y_i) + (1 − λ_i) · CE(logits_i, z_i) ], in nats, for blended examples with two labels.

    Reference: Zhang et al. 2018, "mixup", section 2.
    """
    precise = logits.to(torch.promote_types(logits.dtype, torch.float32))
    own, others = (
        torch.nn.functional.cross_entropy(precise, labels, label_smoothing=label_smoothing, reduction="none")
        for labels in (target, other)
    )
    return (shares * own + (1 - shares) * others).sum()


@dataclass(frozen=True, eq=False)
class Predictions:
    """The teacher-forced logits of tokens; or their hidden vectors and the output matrix, so that the loss can be
    computed in fewer passes over the logits.
    """

    vectors: Float[Tensor, "tokens dim"]
    weight: Float[Tensor, "vocab dim"] | None = None

    def cross_entropy(self, target: Int[Tensor, " tokens"], *, label_smoothing: float = 0.0) -> Float[Tensor, ""]:
        """`cross_entropy` of the logits."""
        if self.weight is None:
            return cross_entropy(self.vectors, target, label_smoothing=label_smoothing)
        return projected_cross_entropy(self.vectors, self.weight, target, label_smoothing=label_smoothing)

    def first(self, count: int) -> "Predictions":
        """Those of the first tokens."""
        return Predictions(self.vectors[:count], self.weight)

    def logits(self, rows: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """The logits of some of the tokens."""
        chosen = self.vectors[rows]
        return chosen if self.weight is None else torch.nn.functional.linear(chosen, self.weight)


def projected_cross_entropy(
    hidden: Float[Tensor, "tokens model_dim"],
    weight: Float[Tensor, "vocab model_dim"],
    target: Int[Tensor, " tokens"],
    *,
    label_smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """`cross_entropy(hidden @ weight.mT, target)` for training, with both gradients computed on the way.

    Logits exist once, in the dtype of autocast, and become exp(logit − max) in place. The terms of label smoothing and
    of the target are subtracted outside that matrix, in float32: with ε for the smoothing, V the size of the
    vocabulary, s the softmax and E_y the rows of the targets,

        ∂/∂hidden = s E − (1 − ε) E_y − (ε / V) Σ_v E_v

    so that in bfloat16 the gradient is about ten times as exact as through logits, in fewer passes over memory.
    """
    device = hidden.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
    kernels = bfloat16.applies(hidden, weight)
    with torch.autocast(device, enabled=False):
        if transformed():
            return _defined(target, label_smoothing, hidden, weight)
        return _ProjectedCrossEntropy.apply(hidden, weight, target, label_smoothing, dtype, kernels)


class _ProjectedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, target: Tensor, smoothing: float, dtype: torch.dtype, kernels: bool
    ) -> Tensor:
        precise = torch.promote_types(weight.dtype, torch.float32)
        everything, answer, inner = weight.sum(0, dtype=precise), weight[target].to(precise), hidden.to(precise)
        spread = smoothing / len(weight)
        softmax = _by_kernels if kernels else _by_torch
        total, to_hidden, to_weight = softmax(hidden, weight, dtype)
        logit = (1 - smoothing) * (inner * answer).sum(-1) + spread * (inner @ everything)
        to_hidden.sub_(answer, alpha=1 - smoothing).sub_(everything, alpha=spread)
        to_weight.index_add_(0, target, inner.to(to_weight.dtype), alpha=smoothing - 1)
        to_weight.sub_(inner.sum(0), alpha=spread)
        ctx.save_for_backward(to_hidden.to(hidden.dtype), to_weight.to(weight.dtype), hidden, weight, target)
        ctx.smoothing = smoothing
        return (total - logit).sum()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        to_hidden, to_weight, hidden, weight, target = ctx.saved_tensors
        if torch.is_grad_enabled():
            defined = partial(_defined, target, ctx.smoothing)
            return *by_definition(defined, (hidden, weight), grad), None, None, None, None
        return to_hidden * grad, to_weight * grad, None, None, None, None


def _defined(target: Tensor, smoothing: float, hidden: Tensor, weight: Tensor) -> Tensor:
    precise = torch.promote_types(weight.dtype, torch.float32)
    return cross_entropy(hidden.to(precise) @ weight.to(precise).mT, target, label_smoothing=smoothing)


def _by_torch(hidden: Tensor, weight: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Each row's log Σ exp of its logits, and the softmax terms of both gradients."""
    light, table = hidden.to(dtype), weight.to(dtype)
    powers = light @ table.mT
    top, mass = exponentials_(powers)
    precise = torch.promote_types(hidden.dtype, torch.float32), torch.promote_types(weight.dtype, torch.float32)
    to_hidden = (powers @ table).to(precise[0]).div_(mass[:, None])
    to_weight = (powers.mT @ (hidden / mass[:, None]).to(dtype)).to(precise[1])
    return top + mass.log(), to_hidden, to_weight


def _by_kernels(hidden: Tensor, weight: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """The same values as `_by_torch`, in fewer passes over memory."""
    powers = bfloat16.product(hidden.to(dtype).contiguous(), weight)
    top, mass = bfloat16.exponentials_(powers)
    to_hidden = bfloat16.to_inputs(powers, weight, torch.float32).div_(mass[:, None])
    to_weight, _ = bfloat16.to_weights(powers, (hidden / mass[:, None]).to(dtype).contiguous(), False)
    return top + mass.log(), to_hidden, to_weight
