"""Training against translations that were rejected for a better one."""

from dataclasses import dataclass
from math import isfinite

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.config import setting
from foveate.data.batch import Rejection
from foveate.errors import UsageError
from foveate.models import Seq2Seq
from foveate.models.recurrent import RecurrentSeq2Seq
from foveate.nn.loss import Predictions
from foveate.nn.preference import log_probabilities, preference
from foveate.tasks.unlikelihood_loss import learns_from_logits


@dataclass(frozen=True, kw_only=True)
class PreferenceConfig:
    """Targets become more probable than the rejected translations of the data. Without these it is unused.

    Reference: Xu et al. 2024, "Contrastive preference optimization".
    """

    weight: float = setting(1.0, "of −ln σ(β · difference) of a pair for each token of its target, beside the loss")
    beta: float = setting(0.1, "the factor β of the difference between both log-probabilities, in nats")

    def __post_init__(self) -> None:
        for name in ("weight", "beta"):
            value = getattr(self, name)
            if not (value > 0 and isfinite(value)):
                raise ValueError(f"{name} must be finite and above 0, got {value}")

    def loss(self, predictions: Predictions, rejection: Rejection) -> Float[Tensor, ""]:
        """The weighted sum over the pairs with a rejected translation, from predictions for all rows of `rejection`.

        Each pair counts as many times as its target has tokens. Divided by the tokens of all pairs, as the loss of the
        words is, the sum has the same proportion to that loss for short and for long texts.
        """
        target, rows = rejection.target, rejection.rows
        lengths = target.lengths - 1
        others = torch.arange(len(lengths) - len(rows), len(lengths), device=rows.device)
        texts = torch.cat([rows, others])
        better, worse = log_probabilities(predictions, Seq2Seq.predicted(target), lengths, texts).chunk(2)
        return self.weight * (lengths[rows] * preference(better, worse, self.beta)).sum()


def require_comparable(model: nn.Module) -> None:
    """Raises UsageError for a model whose training loss is more than that of its logits."""
    if not learns_from_logits(model, Seq2Seq.loss, RecurrentSeq2Seq.loss):
        raise UsageError(
            f"Rejected translations are for models that learn from their logits alone, and {type(model).__name__} has "
            "more in its loss, such as that of sampled positions. Leave --rejected (data.rejected) out, or choose "
            "another model or normaliser."
        )
