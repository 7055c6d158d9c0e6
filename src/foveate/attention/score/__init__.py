"""How well a query and a key match: dot products, small networks, places."""

from foveate.attention.score.additive import Additive, AdditiveConfig
from foveate.attention.score.cosine import Cosine, CosineConfig
from foveate.attention.score.form import (
    Form,
    PairNetwork,
    PairScore,
    Product,
    ProductScore,
    checked_form,
    dot_factor,
    form_from,
    form_of,
    require_true_form,
)
from foveate.attention.score.graph import EdgeScore, GatConfig, GATScore, GatV2Config, GATv2Score
from foveate.attention.score.location import (
    FeedbackScore,
    Location,
    LocationAware,
    LocationAwareConfig,
    LocationConfig,
)
from foveate.attention.score.product import Dot, General, GeneralConfig, ScaledDot
from foveate.attention.score.relative import ShawRelative, ShawRelativeConfig
from foveate.attention.score.score import (
    FactoredScore,
    KeyedScore,
    PlacedScore,
    Score,
    is_factored,
    is_placed,
    symbol_of,
)

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
