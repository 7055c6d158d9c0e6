"""The training loss of models that predict tokens."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Loss:
    """A loss as a sum and the number of things summed (tokens), so that batches of different sizes add up exactly.

    `metrics` are sums over the same tokens; the log shows them divided by their count.
    """

    total: Float[Tensor, ""]
    count: int
    metrics: Mapping[str, Tensor | float] = field(default_factory=dict)


def cross_entropy(
    logits: Float[Tensor, "tokens vocab"], target: Int[Tensor, " tokens"], *, label_smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """Σ_t [ (1 − ε) · −log p(y_t) + ε · mean_v −log p(v) ], in nats, summed over tokens.

    Label smoothing spreads ε evenly over the vocabulary (Szegedy et al. 2016; Vaswani et al. 2017, section 5.4).
    """
    return torch.nn.functional.cross_entropy(logits.float(), target, label_smoothing=label_smoothing, reduction="sum")
