"""An attention from a configuration: every part of the algebra by name."""

from dataclasses import dataclass
from typing import Literal

from foveate.attention.attention import Attention
from foveate.attention.bias import BiasConfig
from foveate.attention.efficient import EfficientConfig
from foveate.attention.local import LocalMonotonicConfig, LocalPredictiveConfig
from foveate.attention.normaliser import NormaliserConfig, Softmax
from foveate.attention.score import ScaledDot, ScoreConfig
from foveate.attention.transform import TransformConfig
from foveate.attention.visibility import Visibility, everything


@dataclass(frozen=True, kw_only=True)
class AttentionConfig:
    """score → bias → visibility → normaliser → context."""

    score: ScoreConfig = ScaledDot()
    normaliser: NormaliserConfig = Softmax()
    visibility: Visibility = everything()
    """Who may look at whom, as code, beside what the model demands: "window(left=128, right=0)"."""
    bias: BiasConfig | None = None
    transforms: tuple[TransformConfig, ...] = ()
    """What happens to queries and keys before they are scored, in this order."""

    def build(
        self,
        *,
        query_dim: int,
        key_dim: int,
        num_heads: int = 1,
        visibility: Visibility | None = None,
        kind: Literal["self", "cross"] = "self",
    ) -> Attention:
        demanded = everything() if visibility is None else visibility
        return Attention(
            self.score.build(query_dim=query_dim, key_dim=key_dim, num_heads=num_heads),
            visibility=demanded & self.visibility,
            bias=None if self.bias is None else self.bias.build(num_heads=num_heads, head_dim=key_dim),
            transforms=[transform.build(head_dim=key_dim, num_heads=num_heads) for transform in self.transforms],
            normaliser=self.normaliser.build(),
            kind=kind,
        )


AnyMechanismConfig = AttentionConfig | LocalMonotonicConfig | LocalPredictiveConfig | EfficientConfig
"""The mechanisms that a configuration can name."""
