"""From scores to weights: softmax, and functions that replace it."""

from foveate.attention.normaliser.hard import Choice, Hard, HardConfig
from foveate.attention.normaliser.normaliser import (
    Normaliser,
    Proportional,
    ReLU,
    Sigmoid,
    Softmax,
    softmax_temperature,
    tells_place,
)
from foveate.attention.normaliser.sparse import Entmax, Sparsemax

NormaliserConfig = Softmax | ReLU | Sigmoid | Sparsemax | Entmax | HardConfig
"""The normalisers that a configuration can name."""

__all__ = [
    "Choice",
    "Entmax",
    "Hard",
    "HardConfig",
    "Normaliser",
    "NormaliserConfig",
    "Proportional",
    "ReLU",
    "Sigmoid",
    "Softmax",
    "Sparsemax",
    "softmax_temperature",
    "tells_place",
]
