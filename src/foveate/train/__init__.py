"""Training: one loop for anything with `loss(batch)`, and checkpoints that survive kill -9 and detect damage."""

from foveate.storage.checkpoint import Checkpoints, load_weights, restore_model
from foveate.train.estimate import step_seconds, total_seconds
from foveate.train.log import Progress, watch
from foveate.train.loop import fit
from foveate.train.recipe import TrainConfig
from foveate.train.schedule import Constant, Cosine, InverseSquareRoot, Plateau, noam_peak
from foveate.train.trainable import Loss, Outcome, Trainable, require_measured

__all__ = [
    "Checkpoints",
    "Constant",
    "Cosine",
    "InverseSquareRoot",
    "Loss",
    "Outcome",
    "Plateau",
    "Progress",
    "TrainConfig",
    "Trainable",
    "fit",
    "load_weights",
    "noam_peak",
    "require_measured",
    "restore_model",
    "step_seconds",
    "total_seconds",
    "watch",
]
