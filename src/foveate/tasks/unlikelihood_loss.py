"""Training against phrases that a written text repeats by mistake."""

from dataclasses import dataclass
from math import isfinite

from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.config import setting
from foveate.errors import UsageError
from foveate.nn.loss import Predictions
from foveate.nn.unlikelihood import repetitions, unlikelihood


@dataclass(frozen=True, kw_only=True)
class UnlikelihoodConfig:
    """The unlikelihood of tokens that would repeat an n-gram of their text, where the right token would not.

    Reference: Welleck et al. 2020, "Neural text generation with unlikelihood training".
    """

    weight: float = setting(0.0, "of −log(1 − p) of tokens that would repeat an n-gram, beside the loss; 0: without")
    ngram: int = setting(3, "the number of tokens of such an n-gram")

    def __post_init__(self) -> None:
        if not (self.weight >= 0 and isfinite(self.weight)):
            raise ValueError(f"weight must be finite and at least 0, got {self.weight}")
        if self.ngram < 1:
            raise ValueError(f"ngram must be at least 1, got {self.ngram}")

    def loss(
        self,
        predictions: Predictions,
        ids: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
    ) -> Float[Tensor, ""]:
        """The weighted sum over right-padded predicted tokens, whose predictions stand text after text."""
        return self.weight * unlikelihood(predictions, repetitions(ids, lengths, self.ngram))

    def require_logits(self, model: nn.Module, *losses: object) -> None:
        """Raises UsageError for a model whose training loss is more than that of its logits: whose method `loss` is not
        one of these, or whose attention samples positions.
        """
        if self.weight and not learns_from_logits(model, *losses):
            raise UsageError(
                f"unlikelihood.weight is for models that learn from their logits alone, and {type(model).__name__} has "
                "more in its loss, such as that of sampled positions. Leave unlikelihood out, or choose another model "
                "or normaliser."
            )


def learns_from_logits(model: nn.Module, *losses: object) -> bool:
    """Whether a model's method `loss` is one of these, and its attention does not sample positions."""
    return getattr(model, "reinforce", None) is None and getattr(type(model), "loss", None) in losses
