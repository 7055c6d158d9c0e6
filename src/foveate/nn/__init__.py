"""Modules with weights."""

from foveate.nn.block import BlockConfig, DecoderBlock, EncoderBlock
from foveate.nn.feedforward import FeedForward
from foveate.nn.multihead import KeyValue, MultiHeadAttention
from foveate.nn.packing import Packing
from foveate.nn.position import (
    BinaryCode,
    BinaryConfig,
    IndexConfig,
    LearnedConfig,
    LearnedPosition,
    NoneConfig,
    NoPosition,
    PositionConfig,
    PositionIndex,
    RNNMade,
    RNNMadeConfig,
    Sinusoid,
    SinusoidalConfig,
    UnitInterval,
    UnitIntervalConfig,
)
from foveate.nn.ran import RAN, RANConfig, RANEncoder, RANExplanation
from foveate.nn.ran_head import RANHead
from foveate.nn.ran_layer import RANOutput, RANState
from foveate.nn.recurrent import LectureGRU, RecurrentConfig, RecurrentDecoder, RecurrentEncoder, RecurrentLayer

__all__ = [
    "RAN",
    "BinaryCode",
    "BinaryConfig",
    "BlockConfig",
    "DecoderBlock",
    "EncoderBlock",
    "FeedForward",
    "IndexConfig",
    "KeyValue",
    "LearnedConfig",
    "LearnedPosition",
    "LectureGRU",
    "MultiHeadAttention",
    "NoPosition",
    "NoneConfig",
    "Packing",
    "PositionConfig",
    "PositionIndex",
    "RANConfig",
    "RANEncoder",
    "RANExplanation",
    "RANHead",
    "RANOutput",
    "RANState",
    "RNNMade",
    "RNNMadeConfig",
    "RecurrentConfig",
    "RecurrentDecoder",
    "RecurrentEncoder",
    "RecurrentLayer",
    "Sinusoid",
    "SinusoidalConfig",
    "UnitInterval",
    "UnitIntervalConfig",
]
