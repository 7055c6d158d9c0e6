"""Scores, which say how well a query and a key match: dot products, small networks, places."""

from foveate.attention.score.additive import Additive, AdditiveConfig, GatConfig, GATScore, GatV2Config, GATv2Score
from foveate.attention.score.form import (
    EdgeScore,
    FactoredScore,
    Form,
    KeyedScore,
    PairNetwork,
    PairScore,
    PlacedScore,
    Product,
    ProductScore,
    Score,
    checked_form,
    dot_factor,
    form_from,
    form_of,
    is_factored,
    is_placed,
    require_true_form,
    symbol_of,
)
from foveate.attention.score.location import (
    FeedbackScore,
    Location,
    LocationAware,
    LocationAwareConfig,
    LocationConfig,
    ShawRelative,
    ShawRelativeConfig,
)
from foveate.attention.score.product import Cosine, CosineConfig, Dot, General, GeneralConfig, ScaledDot

ScoreConfig = (
    Dot
    | ScaledDot
    | GeneralConfig
    | AdditiveConfig
    | CosineConfig
    | LocationConfig
    | LocationAwareConfig
    | ShawRelativeConfig
    | GatConfig
    | GatV2Config
)
"""The scores that a configuration can name."""

__all__ = [
    "Additive",
    "AdditiveConfig",
    "Cosine",
    "CosineConfig",
    "Dot",
    "EdgeScore",
    "FactoredScore",
    "FeedbackScore",
    "Form",
    "GATScore",
    "GATv2Score",
    "GatConfig",
    "GatV2Config",
    "General",
    "GeneralConfig",
    "KeyedScore",
    "Location",
    "LocationAware",
    "LocationAwareConfig",
    "LocationConfig",
    "PairNetwork",
    "PairScore",
    "PlacedScore",
    "Product",
    "ProductScore",
    "ScaledDot",
    "Score",
    "ScoreConfig",
    "ShawRelative",
    "ShawRelativeConfig",
    "checked_form",
    "dot_factor",
    "form_from",
    "form_of",
    "is_factored",
    "is_placed",
    "require_true_form",
    "symbol_of",
]
