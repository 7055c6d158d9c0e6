"""Attentions by other formulas than softmax over all pairs, with the same verbs: run, explain, plan.

linear        φ(q) Σ φ(k) vᵀ, φ = elu + 1        running sums      implied weights
performer     the same, φ by random features      running sums      implied weights
linformer     softmax over mixtures of keys       not causal        projected weights
reformer      softmax inside hashed buckets       sort and chunk    exact weights, mostly 0
sinkhorn      own block and a sorted mixture      block by block    implied weights
synthesizer   softmax of scores without keys      all pairs         exact weights
local_block, sparse, longformer, bigbird          softmax over a pattern of positions
"""

from foveate.attention.efficient.kernel import RunningSum, running_sum
from foveate.attention.efficient.linear import LinearAttention, LinearConfig, PerformerAttention, PerformerConfig
from foveate.attention.efficient.linformer import LinformerAttention, LinformerConfig
from foveate.attention.efficient.pattern import (
    BigbirdConfig,
    LocalBlockConfig,
    LocalMonotonicConfig,
    LocalPredictiveConfig,
    LongformerConfig,
    SparseConfig,
)
from foveate.attention.efficient.reformer import ReformerAttention, ReformerConfig
from foveate.attention.efficient.sinkhorn import SinkhornAttention, SinkhornConfig
from foveate.attention.efficient.synthesizer import SynthesizerConfig
from foveate.attention.mechanism import AttentionConfig

EfficientConfig = (
    LinearConfig
    | PerformerConfig
    | LinformerConfig
    | ReformerConfig
    | SinkhornConfig
    | SynthesizerConfig
    | LocalBlockConfig
    | SparseConfig
    | LongformerConfig
    | BigbirdConfig
)
"""The mechanisms for long sequences that a configuration can name."""
AnyMechanismConfig = AttentionConfig | LocalMonotonicConfig | LocalPredictiveConfig | EfficientConfig
"""All mechanisms that a configuration can name."""

__all__ = [
    "AnyMechanismConfig",
    "BigbirdConfig",
    "EfficientConfig",
    "LinearAttention",
    "LinearConfig",
    "LinformerAttention",
    "LinformerConfig",
    "LocalBlockConfig",
    "LocalMonotonicConfig",
    "LocalPredictiveConfig",
    "LongformerConfig",
    "PerformerAttention",
    "PerformerConfig",
    "ReformerAttention",
    "ReformerConfig",
    "RunningSum",
    "SinkhornAttention",
    "SinkhornConfig",
    "SparseConfig",
    "SynthesizerConfig",
    "running_sum",
]
