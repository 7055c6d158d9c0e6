"""From scores to weights: softmax, and what may stand in its place."""

from foveate.attention.normaliser.gate import ReLU, Sigmoid
from foveate.attention.normaliser.hard import Choice, Hard, HardConfig
from foveate.attention.normaliser.normaliser import Normaliser, tells_place
from foveate.attention.normaliser.softmax import Softmax, softmax_temperature
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
    "ReLU",
    "Sigmoid",
    "Softmax",
    "Sparsemax",
    "softmax_temperature",
    "tells_place",
]
