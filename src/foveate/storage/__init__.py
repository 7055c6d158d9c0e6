"""Run folders and checkpoints: what training writes and everything else reads, whole or not at all."""

from foveate.storage.checkpoint import Checkpoint, Checkpoints, load_weights, model_tensors, restore_model, save_final
from foveate.storage.manifest import DamagedError
from foveate.storage.run import Run, create_run, read_run

__all__ = [
    "Checkpoint",
    "Checkpoints",
    "DamagedError",
    "Run",
    "create_run",
    "load_weights",
    "model_tensors",
    "read_run",
    "restore_model",
    "save_final",
]
