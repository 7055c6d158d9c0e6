"""The one way in: a model, its state, the sentences and a configuration that says how to decode."""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from foveate import machine
from foveate.decode.beam import BeamConfig, beam_search
from foveate.decode.greedy import GreedyConfig, greedy
from foveate.decode.request import BEGIN, END, Request
from foveate.decode.sample import SampleConfig, sample
from foveate.decode.stepper import Hypothesis, State, Stepper

MULTIPLY_ADDS = 5e5
"""Of one row in a product of usual width, 512 x 1024."""
DecodeConfig = GreedyConfig | BeamConfig | SampleConfig


def beam_size(config: DecodeConfig) -> int:
    """How many rows a sentence takes: what the model's state has to be started with.

    >>> beam_size(GreedyConfig()), beam_size(BeamConfig(beam=5))
    (1, 5)
    """
    return config.beam if isinstance(config, BeamConfig) else 1


def decode(
    stepper: Stepper,
    state: State,
    *,
    sentences: int,
    config: DecodeConfig,
    max_length: Int[Tensor, " sentences"] | int | None = None,
    prefix: Int[Tensor, "sentences length"] | None = None,
    examples: Sequence[int] | None = None,
    begin: int = BEGIN,
    end: int = END,
    device: torch.device | str | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses of each sentence, best first; greedy decoding and sampling give one.

    The state has `sentences * beam_size(config)` rows, those of a sentence together, and has read nothing of the
    target yet. The other arguments are those of `Request`. Results do not depend on which sentences are decoded
    together.

    Raises `UsageError` for lengths that cannot be kept, `DataError` when the model gives NaN.
    """
    request = Request(
        sentences=sentences,
        max_length=max_length,
        prefix=prefix,
        examples=examples,
        begin=begin,
        end=end,
        device=device,
    )
    with machine.small_products(sentences * beam_size(config) * MULTIPLY_ADDS):
        if isinstance(config, BeamConfig):
            return beam_search(stepper, state, request, config)
        if isinstance(config, SampleConfig):
            return [[hypothesis] for hypothesis in sample(stepper, state, request, config)]
        return [[hypothesis] for hypothesis in greedy(stepper, state, request, config)]
