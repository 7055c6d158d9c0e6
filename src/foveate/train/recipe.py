"""The settings of the training loop."""

from dataclasses import dataclass
from typing import Literal

from foveate.config import require_choices, require_counts, setting
from foveate.train.accelerator import require_name
from foveate.train.schedule import Constant, Cosine, InverseSquareRoot, Plateau

Direction = Literal["lower", "higher"]


def direction(metric: str) -> Direction:
    """Whether a lower or a higher value of a validation metric is better.

    >>> direction("loss"), direction("character_error"), direction("macro_f1")
    ('lower', 'lower', 'higher')
    """
    rises = metric.endswith(("accuracy", "f1")) or metric.startswith("roc_auc")
    return "higher" if rises else "lower"


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The settings of the training loop, for every task."""

    steps: int = setting(10_000, "updates to make")
    max_minutes: float | None = setting(None, "stop cleanly after this time, resumed parts included")
    learning_rate: float = setting(1e-3, "the base rate; the schedule multiplies it")
    schedule: Constant | InverseSquareRoot | Cosine | Plateau = setting(
        InverseSquareRoot(warmup=400), "how the rate changes: constant, inverse_square_root, cosine or plateau"
    )
    weight_decay: float = setting(0.01, "AdamW's decay, applied to matrices only")
    betas: tuple[float, float] = setting((0.9, 0.98), "AdamW's averages of the gradient and of its square")
    eps: float = setting(1e-8, "AdamW's guard against division by zero")
    clip_norm: float | None = setting(1.0, "longest gradient, in the Euclidean norm over all weights; none: any length")
    accumulate: int = setting(1, "batches whose gradients make one update")
    reduction: Literal["fast", "exact"] = setting(
        "fast",
        "how the gradients of accumulated batches are added; exact: as integers, whose sum has the same bits for any "
        "number of processes",
    )
    sharding: Literal["replicate", "moments", "full"] = setting(
        "replicate",
        "how several processes hold the model; replicate: each as a whole; moments: each has a part of the weights and "
        "of AdamW's moments, and the whole model during an update; full: also gradients, and one block's weights at a "
        "time",
    )
    precision: Literal["float32", "bfloat16"] = setting(
        "float32", "bfloat16: products in half precision, weights stay float32"
    )
    device: str | None = setting(
        None,
        "where the model trains; cpu; cuda: a GPU, or with several processes one for each; cuda:1: a certain GPU; "
        "auto: a GPU if there is one; none: the CPU, or in a program where the model is",
    )
    validate_every: int = setting(500, "updates between validations")
    save_every: int = setting(500, "updates between checkpoints")
    keep: int = setting(3, "newest checkpoints to keep, besides those that are best or averaged")
    metric: str = setting("loss", "the validation metric that decides which checkpoint is best")
    better: Direction | None = setting(
        None, "whether a lower or a higher metric is better; none: higher for accuracy, F1 and AUC, otherwise lower"
    )
    patience: int | None = setting(None, "stop after this many validations without a better metric; none: never")
    average: int = setting(1, "checkpoints whose weights are averaged at the end; 1: the best one alone")
    average_of: Literal["last", "best"] = setting("last", "which checkpoints are averaged")
    log_every: int = setting(50, "updates between rows of metrics.jsonl")
    stall_seconds: float = setting(60.0, "with several processes, the time after which one that hangs ends the run")
    seed: int = setting(0, "seed of the dropout noise")

    def __post_init__(self) -> None:
        require_choices(self)
        require_counts(self, "steps", "accumulate", "validate_every", "save_every", "keep", "average", "log_every")
        for name in ("max_minutes", "clip_norm", "patience", "learning_rate", "eps", "stall_seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be more than 0, got {value}")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas must be at least 0 and less than 1, got {list(self.betas)}")
        if self.sharding != "replicate" and self.reduction == "exact":
            raise ValueError(
                f'sharding = "{self.sharding}" adds floating-point numbers, and reduction = "exact" whole gradients as '
                "integers of 64 bits, for which each process needs the memory that sharding saves. Choose reduction = "
                '"fast", or sharding = "replicate"'
            )
        if self.device is not None:
            require_name(self.device)
        if self.weight_decay < 0:
            raise ValueError(f"weight_decay must be at least 0, got {self.weight_decay}")

    @property
    def direction(self) -> Direction:
        """Whether a lower or a higher `metric` is better: `better`, or what is usual for the metric."""
        return self.better or direction(self.metric)
