"""Modules with weights."""

from foveate.nn.embed import Input, Patches, Tokens, Vectors
from foveate.nn.encoder import (
    CNNEncoderConfig,
    Encoder,
    EncoderConfig,
    RANEncoderConfig,
    RNNEncoderConfig,
    TransformerEncoderConfig,
    WindowEncoderConfig,
)
from foveate.nn.feedforward import FeedForward
from foveate.nn.multihead import KeyValue, MultiHeadAttention
from foveate.nn.packing import Packing
from foveate.nn.pooling import (
    AttentionPooling,
    AttentionPoolingConfig,
    FirstPoolingConfig,
    MaxPoolingConfig,
    MeanPoolingConfig,
    PoolingConfig,
)
from foveate.nn.position_vector import (
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
from foveate.nn.recurrent_layer import LectureGRU, RecurrentConfig, RecurrentDecoder, RecurrentEncoder, RecurrentLayer
from foveate.nn.stream import Chain, Placed, Pointwise, Stream
from foveate.nn.subsampling import (
    AnySubsamplingConfig,
    PlaneSubsamplingConfig,
    PyramidConfig,
    Subsampling,
    SubsamplingConfig,
)
from foveate.nn.transformer_block import BlockConfig, DecoderBlock, EncoderBlock

__all__ = [
    "RAN",
    "AnySubsamplingConfig",
    "AttentionPooling",
    "AttentionPoolingConfig",
    "BinaryCode",
    "BinaryConfig",
    "BlockConfig",
    "CNNEncoderConfig",
    "Chain",
    "DecoderBlock",
    "Encoder",
    "EncoderBlock",
    "EncoderConfig",
    "FeedForward",
    "FirstPoolingConfig",
    "IndexConfig",
    "Input",
    "KeyValue",
    "LearnedConfig",
    "LearnedPosition",
    "LectureGRU",
    "MaxPoolingConfig",
    "MeanPoolingConfig",
    "MultiHeadAttention",
    "NoPosition",
    "NoneConfig",
    "Packing",
    "Patches",
    "Placed",
    "PlaneSubsamplingConfig",
    "Pointwise",
    "PoolingConfig",
    "PositionConfig",
    "PositionIndex",
    "PyramidConfig",
    "RANConfig",
    "RANEncoder",
    "RANEncoderConfig",
    "RANExplanation",
    "RANHead",
    "RANOutput",
    "RANState",
    "RNNEncoderConfig",
    "RNNMade",
    "RNNMadeConfig",
    "RecurrentConfig",
    "RecurrentDecoder",
    "RecurrentEncoder",
    "RecurrentLayer",
    "Sinusoid",
    "SinusoidalConfig",
    "Stream",
    "Subsampling",
    "SubsamplingConfig",
    "Tokens",
    "TransformerEncoderConfig",
    "UnitInterval",
    "UnitIntervalConfig",
    "Vectors",
    "WindowEncoderConfig",
]
