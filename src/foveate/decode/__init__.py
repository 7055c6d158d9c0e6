"""Decoding generates whole sequences with any model that scores the next token, through the `Stepper` protocol."""

from foveate.decode.beam import beam_search
from foveate.decode.ctc import CTCConfig, best_path
from foveate.decode.flight import Arrival, Flight, Limits
from foveate.decode.forced_alignment import occupation, viterbi
from foveate.decode.frame import TimedHypothesis, TokenFrames
from foveate.decode.fusion import Fusion
from foveate.decode.greedy import greedy
from foveate.decode.joint import JointConfig, JointState, JointStepper
from foveate.decode.prefix_search import Partial, PrefixState, PrefixStream, prefix_search
from foveate.decode.prompt_flight import Prompt, PromptFlight, Written
from foveate.decode.request import Request
from foveate.decode.sample import sample
from foveate.decode.search import decode
from foveate.decode.stepper import State, Stepper
from foveate.search import (
    Average,
    BeamConfig,
    Constraints,
    DecodeConfig,
    GreedyConfig,
    Hypothesis,
    LengthPenalty,
    SampleConfig,
    Wu,
    beam_size,
)

__all__ = [
    "Arrival",
    "Average",
    "BeamConfig",
    "CTCConfig",
    "Constraints",
    "DecodeConfig",
    "Flight",
    "Fusion",
    "GreedyConfig",
    "Hypothesis",
    "JointConfig",
    "JointState",
    "JointStepper",
    "LengthPenalty",
    "Limits",
    "Partial",
    "PrefixState",
    "PrefixStream",
    "Prompt",
    "PromptFlight",
    "Request",
    "SampleConfig",
    "State",
    "Stepper",
    "TimedHypothesis",
    "TokenFrames",
    "Written",
    "Wu",
    "beam_search",
    "beam_size",
    "best_path",
    "decode",
    "greedy",
    "occupation",
    "prefix_search",
    "sample",
    "viterbi",
]
