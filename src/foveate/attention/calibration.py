"""How fast each path is on this machine: measured, fitted and kept, for the planner."""

import hashlib
import itertools
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as File

import torch
from torch import Tensor

from foveate import machine, native
from foveate.attention.planner import FEATURES, Rates, default_rates, estimate, features, place, rate_key, seconds
from foveate.attention.probe import Case, case, cases, graph
from foveate.attention.visibility import causal, padding, window

PROBES = ((80, 8, 26, 26, 32), (8, 8, 128, 128, 64), (4, 8, 256, 256, 64))
"""Sizes of dot products on which default rates are scaled to a machine."""
LARGEST = {"cpu": 2**29, "cuda": 2**33}
"""Bytes beyond which a path is not tried."""
LONGEST, HOPELESS = 0.15, 3.0
"""A path is not tried that should take more seconds than this, and so many times as long as the fastest, by the rates
known before."""
REPEATS, OFTENEST, LONG = 3, 15, 0.01
"""How often a path runs; more often where that takes less than so many seconds."""
SWEEPS = 3
SUMMED = len(FEATURES)


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


def scale() -> None:
    """Put rates in force that fit this machine roughly, in about three seconds: the default ones, each path's
    multiplied by how much longer or shorter it took for a few attentions. What paths have in common counts as one more
    attention: it keeps those comparable of which few were measured, or none.
    """
    ratios: dict[str, list[float]] = {}
    for probe in _probes():
        for sample in measured(probe):
            if sample.key in default_rates():
                expected = estimate(default_rates()[sample.key], sample.features, sample.place)
                ratios.setdefault(_kind(sample.key), []).append(math.log(sample.seconds / expected))
    alike = {
        dtype: statistics.median(log for name, logs in ratios.items() if name.endswith(dtype) for log in logs)
        for dtype in ("float32", "bfloat16")
    }
    rates = {}
    for name, known in default_rates().items():
        logs = [alike[_kind(name).rsplit(" ", 1)[1]], *ratios.get(_kind(name), [])]
        factor = math.exp(sum(logs) / len(logs))
        rates[name] = [rate * factor for rate in known[:SUMMED]] + list(known[SUMMED:])
    machine.use(replace(machine.current(), rates=rates))


def _probes() -> Iterator[Case]:
    """Some attentions for every kind of path."""
    for dtype in (torch.float32, torch.bfloat16):
        for size in PROBES:
            yield case(size, causal() & padding(), dtype, training=True)
    yield case((50, 1, 1, 40, 256), padding(), torch.float32, True, "additive")
    yield case((1, 2, 600, 600, 64), window(left=64, right=0), torch.float32, training=True)
    yield case((1, 8, 100, 100, 16), graph(100), torch.float32, training=True)
    yield case((16, 8, 32, 32, 32), padding(), torch.float32, True, "linear")


def _kind(key: str) -> str:
    """A path and a number type, of a key of rates."""
    return key.rsplit(" ", 1)[0]


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


def save(calibration: Calibration, file: File | None = None) -> File:
    """Keep the rates for this machine, torch and number of threads."""
    file = file or own_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(f".{os.getpid()}")
    told = {"features": FEATURES, "torch": torch.__version__, "threads": torch.get_num_threads()}
    kept = {name: [float(f"{number:.4g}") for number in numbers] for name, numbers in calibration.rates.items()}
    partial.write_text(json.dumps({**told, "rates": kept}).replace("], ", "],\n") + "\n", encoding="utf-8")
    partial.replace(file)
    return file


def use_kept() -> bool:
    """Put the rates that were kept for this machine in force, if there are any."""
    try:
        kept = json.loads(own_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    if tuple(kept.get("features", ())) != FEATURES:
        return False
    machine.use(replace(machine.current(), rates=kept["rates"]))
    return True


def own_file() -> File:
    """Where this machine's rates lie: another torch, thread count, processor or GPU has others."""
    cache = File(os.environ.get("XDG_CACHE_HOME") or File("~/.cache").expanduser(), "foveate")
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    identity = f"{native.processor()}{gpu}\n{torch.__version__}\n{torch.get_num_threads()}\n{native.state()}"
    return cache / f"rates-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.json"
