"""The entry point of decoding: one function for all decoding configurations."""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from foveate import machine
from foveate.decode.beam import beam_search
from foveate.decode.greedy import greedy
from foveate.decode.request import BEGIN, END, Request
from foveate.decode.sample import sample
from foveate.decode.stepper import State, Stepper
from foveate.search import BeamConfig, DecodeConfig, Hypothesis, SampleConfig, beam_size

MULTIPLY_ADDS = 5e5
"""Multiplications of one row in a product of usual width, 512 x 1024."""


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

    The initial state has `sentences * beam_size(config)` rows, those of a sentence together. The other arguments are
    those of `Request`. Results do not depend on the batch.

    Raises `UsageError` for impossible lengths, `DataError` if the model returns NaN.
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
