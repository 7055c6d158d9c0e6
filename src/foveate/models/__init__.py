"""One readable file per architecture."""

from foveate.models.bahdanau import Bahdanau, BahdanauConfig
from foveate.models.fixed_context import FixedContext, FixedContextConfig
from foveate.models.luong import Luong, LuongConfig
from foveate.models.seq2seq import Seq2Seq
from foveate.models.transformer import Transformer, TransformerConfig

ModelConfig = FixedContextConfig | BahdanauConfig | LuongConfig | TransformerConfig
"""The models that a configuration can name: "fixed_context", "bahdanau", "luong", "transformer"."""

__all__ = [
    "Bahdanau",
    "BahdanauConfig",
    "FixedContext",
    "FixedContextConfig",
    "Luong",
    "LuongConfig",
    "ModelConfig",
    "Seq2Seq",
    "Transformer",
    "TransformerConfig",
]
