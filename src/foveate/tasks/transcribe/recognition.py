"""The search for the text of recordings: by CTC, by attention, or by both."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from foveate.data.batch import Batch
from foveate.decode import (
    BeamConfig,
    CTCConfig,
    GreedyConfig,
    Hypothesis,
    JointConfig,
    JointStepper,
    TimedHypothesis,
    beam_size,
    best_path,
    decode,
    prefix_search,
    viterbi,
)
from foveate.errors import UsageError
from foveate.models import Recogniser
from foveate.models.recogniser import Encoded
from foveate.nn.ctc_loss import frames_needed

RecognitionConfig = CTCConfig | JointConfig | BeamConfig | GreedyConfig
"""`ctc`: the texts of CTC; `joint`: by CTC and attention together; `beam` and `greedy`: by attention alone."""
SETTLED = 50
"""Outputs after which a token is certain by default: two seconds, where an output stands for 40 ms. Files and streams
share it, so that their texts are equal.
"""


def usual(model: Recogniser) -> RecognitionConfig:
    """The search that suits a model: with all that it has."""
    if model.decoder is None:
        return CTCConfig(settle_after=SETTLED)
    return BeamConfig() if model.ctc_output is None else JointConfig(ctc_weight=model.ctc_share)


def require_possible(model: Recogniser, config: RecognitionConfig) -> None:
    """Raises UsageError for a search by a part that the model lacks."""
    if isinstance(config, CTCConfig | JointConfig) and model.ctc_output is None:
        raise UsageError(
            "This model has no CTC, because model.ctc_weight is 0: its decoder writes. Choose decode.kind = beam or "
            "greedy."
        )
    if not isinstance(config, CTCConfig) and model.decoder is None:
        raise UsageError("This model has no attention decoder (model.decoder): CTC writes. Choose decode.kind = ctc.")


def quick(model: Recogniser, source: Batch) -> list[Sequence[int]]:
    """The ids of each recording by greedy search: by attention, or in a model without a decoder, by CTC."""
    config = CTCConfig(beam=1) if model.decoder is None else GreedyConfig()
    return [hypotheses[0].tokens for hypotheses in search(model, model.encode(source), config)]


def search(model: Recogniser, encoded: Encoded, config: RecognitionConfig) -> list[list[Hypothesis]]:
    """The hypotheses of each recording, the best first.

    A text that attention writes has at most two tokens for each output of the encoder, and ten more. Raises UsageError
    as `require_possible` does.
    """
    require_possible(model, config)
    if isinstance(config, CTCConfig):
        log_probabilities = model.ctc(encoded)
        if config.beam == 1:
            return [[hypothesis] for hypothesis in best_path(*log_probabilities)]
        return [list(hypotheses) for hypotheses in prefix_search(*log_probabilities, config)]
    beam = beam_size(config)
    state = model.start(encoded, beam)
    stepper: Recogniser | JointStepper = model
    if isinstance(config, JointConfig):
        stepper = JointStepper(model, config.ctc_weight, config.candidates)
        state = stepper.start(state, *model.ctc(encoded), beam)
    limits = 2 * encoded.lengths + 10
    count, device = len(encoded.lengths), encoded.lengths.device
    return decode(stepper, state, sentences=count, config=config, max_length=limits, device=device)


def timed(model: Recogniser, encoded: Encoded, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """The hypotheses, one for each recording, with the outputs of their tokens on CTC's best path. Those of a model
    without CTC, and texts that are too long for their recording, stay without.
    """
    if model.ctc_output is None:
        return list(hypotheses)
    counts = torch.tensor([len(one.tokens) for one in hypotheses])
    tokens = torch.tensor([token for one in hypotheses for token in one.tokens], dtype=torch.int64)
    possible = frames_needed(tokens, counts) <= encoded.lengths.cpu()
    rows = [
        row for row, one in enumerate(possible.tolist()) if one and not isinstance(hypotheses[row], TimedHypothesis)
    ]
    if not rows:
        return list(hypotheses)
    log_probabilities, lengths = model.ctc(encoded)
    chosen = [hypotheses[row] for row in rows]
    target = torch.tensor([token for one in chosen for token in one.tokens], dtype=torch.int64)
    aligned = viterbi(log_probabilities[rows], lengths[rows], target, counts[rows])
    results = list(hypotheses)
    for row, one, path in zip(rows, chosen, aligned, strict=True):
        results[row] = TimedHypothesis(**vars(one), frames=path.frames)
    return results


def with_best(config: RecognitionConfig, count: int) -> RecognitionConfig:
    """The search with so many results."""
    return config if isinstance(config, GreedyConfig) else replace(config, num_best=count)
