"""The algebra of attention: scores, visibility and normalisers are values; an `Attention` joins them."""

from foveate.attention.attention import Attention, Explanation, Plan
from foveate.attention.normaliser import Normaliser, Softmax
from foveate.attention.position import Positions
from foveate.attention.record import AttentionRecord, Recording, record
from foveate.attention.score import (
    Additive,
    AdditiveConfig,
    Dot,
    General,
    GeneralConfig,
    ScaledDot,
    Score,
    ScoreConfig,
)
from foveate.attention.visibility import Visibility, causal, everything, padding, window

__all__ = [
    "Additive",
    "AdditiveConfig",
    "Attention",
    "AttentionRecord",
    "Dot",
    "Explanation",
    "General",
    "GeneralConfig",
    "Normaliser",
    "Plan",
    "Positions",
    "Recording",
    "ScaledDot",
    "Score",
    "ScoreConfig",
    "Softmax",
    "Visibility",
    "causal",
    "everything",
    "padding",
    "record",
    "window",
]
