"""The algebra of attention: scores, visibility and normalisers are values; an `Attention` joins them."""

from foveate.attention.attention import Attention, Explanation, Plan
from foveate.attention.bias import Alibi, AlibiConfig, Bias
from foveate.attention.configuration import AnyMechanismConfig, AttentionConfig
from foveate.attention.mechanism import Mechanism, MechanismConfig
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
from foveate.attention.transform import Rotary, Transform
from foveate.attention.visibility import Visibility, causal, everything, padding, window

__all__ = [
    "Additive",
    "AdditiveConfig",
    "Alibi",
    "AlibiConfig",
    "AnyMechanismConfig",
    "Attention",
    "AttentionConfig",
    "AttentionRecord",
    "Bias",
    "Dot",
    "Explanation",
    "General",
    "GeneralConfig",
    "Mechanism",
    "MechanismConfig",
    "Normaliser",
    "Plan",
    "Positions",
    "Recording",
    "Rotary",
    "ScaledDot",
    "Score",
    "ScoreConfig",
    "Softmax",
    "Transform",
    "Visibility",
    "causal",
    "everything",
    "padding",
    "record",
    "window",
]
