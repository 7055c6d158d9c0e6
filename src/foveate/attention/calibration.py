"""How fast each path is on this machine: measured, fitted and kept, for the planner."""

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from foveate import machine
from foveate.attention.planner import Rates, estimate, features, place, rate_key, seconds
from foveate.attention.probe import Case, cases

LARGEST = {"cpu": 2**29, "cuda": 2**33}
"""Bytes beyond which a path is not tried."""
LONGEST, HOPELESS = 0.15, 3.0
"""A path is not tried that should take more seconds than this, and so many times as long as the fastest, by the rates
known before."""
REPEATS, OFTENEST, LONG = 3, 15, 0.01
"""How often a path runs; more often where that takes less than so many seconds."""
SWEEPS = 3


@dataclass(frozen=True)
class Sample:
    """What one path took for one case."""

    case: int
    key: str
    features: tuple[float, ...]
    place: tuple[float, ...]
    seconds: float


@dataclass(frozen=True)
class Calibration:
    """Rates with how well they tell the times they were fitted to."""

    rates: Rates
    samples: int
    error: float
    """The median relative error of the estimates."""

    def __str__(self) -> str:
        fitted = f"{self.samples} measurements of {len(self.rates)} path variants"
        return f"{fitted}, median error of the estimates {self.error:.0%}"


def calibrate(
    *, patience: float = 120.0, report: Callable[[str], None] = lambda line: None, device: str = "cpu"
) -> Calibration:
    """Measure every path on as many attentions as fit into about `patience` seconds, and fit the rates."""
    samples: list[Sample] = []
    started = time.monotonic()
    for number, probe in enumerate(cases(device=device)):
        if number and time.monotonic() - started > patience:
            report(f"measured {number} attentions")
            break
        samples += measured(probe, number)
    return fit(samples)


def measured(case: Case, number: int = 0) -> list[Sample]:
    """The times of all accepting paths that are not hopeless; they take turns, and the fastest of each counts."""
    query, key, at = case.placed
    device, tried = query.device.type, []
    longest = 0.0
    room = LARGEST[device] if device == "cpu" else min(LARGEST[device], torch.cuda.mem_get_info()[0] // 2)
    expected = {
        path: seconds(path, case.attention, query, key, at, training=case.training) for path in case.accepting()
    }
    worth = max(LONGEST, HOPELESS * min(expected.values()))
    for path, soon in expected.items():
        cost = path.cost(case.attention, query, key, at)
        if cost.bytes < room and soon < worth:
            tried.append((path, features(cost, query, key), place(cost, query, key)))
            longest = max(longest, soon)
    repeats = max(REPEATS, min(OFTENEST, int(LONG / max(longest, 1e-6))))
    with torch.set_grad_enabled(case.training):
        times = machine.race(*(case.run(path) for path, *_ in tried), repeats=repeats, device=device)
    keys = (rate_key(path.name, query.dtype, training=case.training, device=device) for path, *_ in tried)
    return [
        Sample(number, name, parts, where, took)
        for name, (_, parts, where), took in zip(keys, tried, times, strict=True)
    ]


def joined(one: Calibration, other: Calibration) -> Calibration:
    """The rates of two devices."""
    error = max((one, other), key=lambda calibration: calibration.samples).error
    return Calibration({**one.rates, **other.rates}, one.samples + other.samples, error)


def fit(samples: Sequence[Sample]) -> Calibration:
    """Rates that make relative errors small, and the errors that remain.

    A machine is at times slower than at others, and all paths of a case with it: what they have in common beyond the
    estimates is taken off their times before the next fit.
    """
    cases: dict[int, list[int]] = {}
    for index, sample in enumerate(samples):
        cases.setdefault(sample.case, []).append(index)
    times = [sample.seconds for sample in samples]
    for _ in range(SWEEPS):
        rates = _fitted(samples, times)
        known = [estimate(rates[sample.key], sample.features, sample.place) for sample in samples]
        for mine in cases.values():
            if len(mine) > 1:
                slower = sum(math.log(samples[index].seconds / known[index]) for index in mine) / (len(mine) + 1)
                for index in mine:
                    times[index] = samples[index].seconds * math.exp(-slower)
    rates = _fitted(samples, times)
    errors = sorted(
        abs(estimate(rates[sample.key], sample.features, sample.place) / took - 1)
        for sample, took in zip(samples, times, strict=True)
    )
    return Calibration(rates, len(samples), errors[len(errors) // 2] if errors else math.nan)


def _fitted(samples: Sequence[Sample], times: Sequence[float]) -> dict[str, list[float]]:
    rates: dict[str, list[float]] = {}
    for name in sorted({sample.key for sample in samples}):
        mine = [index for index, sample in enumerate(samples) if sample.key == name]
        took = torch.tensor([times[index] for index in mine], dtype=torch.float64)
        much = torch.tensor([samples[index].features for index in mine], dtype=torch.float64)
        found = _non_negative(much / took[:, None], torch.ones(len(mine), dtype=torch.float64))
        errors = (took / (much @ found).clamp(min=1e-12)).log()
        points = [[*samples[index].place, float(error)] for index, error in zip(mine, errors, strict=True)]
        rates[name] = [*found.tolist(), *itertools.chain(*points)]
    return rates


def _non_negative(matrix: Tensor, target: Tensor) -> Tensor:
    """min ‖A x − b‖ with x ≥ 0 (Lawson and Hanson 1974, chapter 23)."""
    scale = matrix.norm(dim=0).clamp(min=1e-300)
    matrix = matrix / scale
    x = torch.zeros(matrix.shape[1], dtype=matrix.dtype)
    free = torch.zeros_like(x, dtype=torch.bool)
    for _ in range(3 * len(x)):
        gradient = matrix.T @ (target - matrix @ x)
        gradient[free] = -torch.inf
        if gradient.max() <= 1e-9:
            break
        free[int(gradient.argmax())] = True
        while True:
            trial = torch.zeros_like(x)
            trial[free] = torch.linalg.lstsq(matrix[:, free], target[:, None]).solution[:, 0]
            if (trial[free] > 0).all():
                x = trial
                break
            bad = free & (trial <= 0)
            step = (x[bad] / (x[bad] - trial[bad]).clamp(min=1e-300)).min()
            x = x + step * (trial - x)
            free &= x > 1e-12
            x[~free] = 0.0
    return x / scale
