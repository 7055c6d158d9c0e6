"""Greedy decoding and beam search without Python between two steps, for models whose step is a C function.

`seat.cpp` computes what `walk.py` and `beam.py` compute, with the same numbers. It runs where constraints hide the same
tokens of all sentences; otherwise, and for other models, these functions return None.
"""

from foveate.decode.request import Request
from foveate.decode.seat import Seats, kernels
from foveate.decode.stepper import State, Stepper, require_rows
from foveate.interruption import question
from foveate.search import BeamConfig, GreedyConfig, Hypothesis, beam_size


def greedy_loop(stepper: Stepper, state: State, request: Request, config: GreedyConfig) -> list[Hypothesis] | None:
    """The hypotheses of `greedy`, or None if the loop cannot compute them."""
    hypotheses = _run(stepper, state, request, config)
    return None if hypotheses is None else [best for [best] in hypotheses]


def beam_loop(stepper: Stepper, state: State, request: Request, config: BeamConfig) -> list[list[Hypothesis]] | None:
    """The hypotheses of `beam_search`, or None if the loop cannot compute them."""
    return _run(stepper, state, request, config)


def _run(
    stepper: Stepper, state: State, request: Request, config: BeamConfig | GreedyConfig
) -> list[list[Hypothesis]] | None:
    begin_run, count = getattr(stepper, "begin_run", None), request.sentences
    if begin_run is None or not count or request.prefix is not None or config.no_repeat_ngram or kernels() is None:
        return None
    limits, beam = request.limits(config, stepper).tolist(), beam_size(config)
    run = begin_run(state, max(limits), beam)
    if run is None or 2 * beam > run.vocab:
        return None
    require_rows(run.rows, count * beam)
    seats = Seats(config, request.end, count, room=max(limits))
    penalties = [config.length_penalty if isinstance(config, BeamConfig) else None] * count
    seats.take(range(count), limits, [request.begin] * count, penalties)
    hypotheses = seats.land(run, question())
    return [hypotheses[sentence] for sentence in range(count)]
