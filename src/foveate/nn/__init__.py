"""Modules with weights."""

from foveate.nn.block import BlockConfig, DecoderBlock, EncoderBlock
from foveate.nn.feedforward import FeedForward
from foveate.nn.multihead import KeyValue, MultiHeadAttention
from foveate.nn.packing import Packing
from foveate.nn.position import LearnedConfig, LearnedPosition, PositionConfig, Sinusoid, SinusoidalConfig
from foveate.nn.ran import RAN, RANConfig, RANEncoder, RANExplanation
from foveate.nn.ran_head import RANHead
from foveate.nn.ran_layer import RANOutput, RANState
from foveate.nn.recurrent import LectureGRU, RecurrentConfig, RecurrentDecoder, RecurrentEncoder, RecurrentLayer

__all__ = [
    "RAN",
    "BlockConfig",
    "DecoderBlock",
    "EncoderBlock",
    "FeedForward",
    "KeyValue",
    "LearnedConfig",
    "LearnedPosition",
    "LectureGRU",
    "MultiHeadAttention",
    "Packing",
    "PositionConfig",
    "RANConfig",
    "RANEncoder",
    "RANExplanation",
    "RANHead",
    "RANOutput",
    "RANState",
    "RecurrentConfig",
    "RecurrentDecoder",
    "RecurrentEncoder",
    "RecurrentLayer",
    "Sinusoid",
    "SinusoidalConfig",
]
