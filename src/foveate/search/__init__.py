"""Settings of decoders, length penalties and hypotheses, without tensors."""

from foveate.search.decoding import BeamConfig, Constraints, DecodeConfig, GreedyConfig, SampleConfig, beam_size
from foveate.search.hypothesis import Hypothesis, require_number
from foveate.search.length_penalty import Average, LengthPenalty, Wu, divisor_of

__all__ = [
    "Average",
    "BeamConfig",
    "Constraints",
    "DecodeConfig",
    "GreedyConfig",
    "Hypothesis",
    "LengthPenalty",
    "SampleConfig",
    "Wu",
    "beam_size",
    "divisor_of",
    "require_number",
]
