"""Greedy decoding and beam search without Python between two steps, for models whose step is a C function.

The loops of `whole_loop.cpp` compute what `walk.py` and `beam.py` compute, with the same numbers. They run where
constraints hide the same tokens at every step; otherwise, and for other models, these functions return None.
"""

import ctypes
import functools
from typing import Any

import torch
from torch import Tensor

from foveate import native
from foveate.decode.candidate import BLOCK
from foveate.decode.constraint import hidden_alone
from foveate.decode.request import Request
from foveate.decode.stepper import State, Stepper
from foveate.interruption import question
from foveate.search import BeamConfig, Constraints, GreedyConfig, Hypothesis, divisor_of, require_number

COMPLETE, INTERRUPTED, OUTSIDE = range(3)
_Interrupted = ctypes.CFUNCTYPE(ctypes.c_int64)


class _Model(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_void_p) for name in ("run", "step", "select")), ("vocab", ctypes.c_int64)]


class _Search(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("sentences", "beam", "begin", "end", "longest")),
        *((name, ctypes.c_void_p) for name in ("limits", "hidden")),
        ("num_hidden", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("divisors", "interrupted", "logits", "maxima")),
        ("threads", ctypes.c_int64),
    ]


class _Results(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_void_p) for name in ("tokens", "lengths", "counts", "scores", "totals", "running", "finished")
    ]


def greedy_loop(stepper: Stepper, state: State, request: Request, config: GreedyConfig) -> list[Hypothesis] | None:
    """The hypotheses of `greedy`, or None if the loop cannot compute them."""
    results = _run("greedy", stepper, state, request, config, 1, ())
    if results is None:
        return None
    columns = (results[name][:, 0].tolist() for name in ("tokens", "lengths", "totals", "finished"))
    hypotheses = []
    for sentence, (tokens, length, total, finished) in enumerate(zip(*columns, strict=True)):
        require_number(total, sentence)
        hypotheses.append(Hypothesis(tuple(tokens[:length]), total, total, bool(finished)))
    return hypotheses


def beam_loop(stepper: Stepper, state: State, request: Request, config: BeamConfig) -> list[list[Hypothesis]] | None:
    """The hypotheses of `beam_search`, or None if the loop cannot compute them."""
    penalty = config.length_penalty
    longest = int(request.limits(config, stepper).max()) if request.sentences else 0
    divisors = [1.0, *(divisor_of(penalty, length) for length in range(1, longest + 1))]
    results = _run("beam_search", stepper, state, request, config, config.beam, divisors)
    if results is None:
        return None
    names = ("tokens", "lengths", "scores", "totals", "finished")
    columns = (results[name][:, : config.num_best].tolist() for name in names)
    hypotheses = []
    counts, running = (results[name][:, 0].tolist() for name in ("counts", "running"))
    for sentence, (count, last, *row) in enumerate(zip(counts, running, *columns, strict=True)):
        if not count or last != last:
            require_number(last, sentence)
        places = list(zip(*row, strict=True))[:count]
        hypotheses.append(
            [
                Hypothesis(tuple(tokens[:length]), score, total, bool(finished))
                for tokens, length, score, total, finished in places
            ]
        )
    return hypotheses


def _run(
    name: str, stepper: Stepper, state: State, request: Request, config: Constraints, beam: int, divisors: Any
) -> dict[str, Tensor] | None:
    """The results of one loop; None if it cannot compute them."""
    begin_run = getattr(stepper, "begin_run", None)
    if begin_run is None or not request.sentences or request.prefix is not None or config.no_repeat_ngram:
        return None
    library = _kernels()
    if library is None:
        return None
    limits = request.limits(config, stepper)
    longest = int(limits.max())
    run = begin_run(state, longest)
    if run is None:
        return None
    banned = {
        hidden_alone(config, time, prefix=None, end=request.end, vocab=run.vocab)
        for time in range(min(longest, config.min_length + 1))
    }
    if len(banned) > 1 or None in banned or 2 * beam > run.vocab:
        return None
    hidden = torch.tensor(banned.pop(), dtype=torch.int64)
    rows, places = request.sentences * beam, (request.sentences, beam)
    results = {
        "tokens": torch.zeros(*places, longest, dtype=torch.int64),
        "lengths": torch.zeros(places, dtype=torch.int64),
        "counts": torch.zeros(request.sentences, 1, dtype=torch.int64),
        "scores": torch.zeros(places),
        "totals": torch.zeros(places),
        "running": torch.zeros(request.sentences, 1),
        "finished": torch.zeros(places, dtype=torch.uint8),
    }
    logits, maxima = torch.empty(rows, run.vocab), torch.empty(rows, -(-run.vocab // BLOCK))
    divided = torch.tensor(divisors, dtype=torch.float32)
    problems: list[BaseException] = []
    ask = question()

    def interrupted() -> int:
        try:
            ask()  # type: ignore[misc]
        except BaseException as problem:  # it must not pass through C
            problems.append(problem)
        return len(problems)

    callback = None if ask is None else _Interrupted(interrupted)
    search = _Search(
        *(request.sentences, beam, request.begin, request.end, longest),
        *(limits.data_ptr(), hidden.data_ptr(), len(hidden), divided.data_ptr()),
        None if callback is None else ctypes.cast(callback, ctypes.c_void_p).value,
        *(logits.data_ptr(), maxima.data_ptr(), torch.get_num_threads()),
    )
    model = _Model(run.address, run.step, run.select, run.vocab)
    tensors = _Results(*(tensor.data_ptr() for tensor in results.values()))
    function = getattr(library, name)
    function.restype = ctypes.c_int64
    outcome = function(*map(ctypes.byref, (model, search, tensors)))
    if outcome == INTERRUPTED:
        raise problems[0]
    if outcome == OUTSIDE:
        raise IndexError(f"A token is not in the vocabulary of {run.vocab}.")
    return results


@functools.cache
def _kernels() -> ctypes.CDLL | None:
    """The compiled loops, or None without a compiler."""
    return native.load("foveate.decode", "whole_loop.cpp").library
