"""The training loss of models that predict tokens."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def cross_entropy(
    logits: Float[Tensor, "tokens vocab"], target: Int[Tensor, " tokens"], *, label_smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """Σ_t [ (1 − ε) · −log p(y_t) + ε · mean_v −log p(v) ], in nats, summed over tokens.

    Label smoothing spreads ε evenly over the vocabulary (Szegedy et al. 2016; Vaswani et al. 2017, section 5.4).
    """
    return torch.nn.functional.cross_entropy(
        logits.float(), target, label_smoothing=label_smoothing, reduction="sum"
    )
