"""Which path runs: the one that should take the least time, by what it says it does and what this machine was measured
to take for that.

seconds = (Σ_f rate_f · feature_f) · exp(what such sums were wrong by for attentions of about this size)

with one set of rates for each path, number type and for inference or training. Rates come from `foveate doctor
--calibrate`; without one, from a machine of this project with a processor like this one.
"""

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources

import numpy as np
import torch
from torch import Tensor

from foveate import machine, native
from foveate.attention.paths.path import Cost, Formula, Path
from foveate.attention.position import Positions

FEATURES = ("calls", "tiles", "matrices", "pairs", "flops", "rows", "told")
"""What takes time: being called, each tile, each head's matrix in it, each pair of query and key, each floating-point
operation, each number of query, key and value, each pair that the rule is asked about."""
ASSUMED = {"cpu": (3e-5, 3e-5, 2e-7, 3e-9, 2e-11, 1e-9, 1e-9), "other": (3e-5, 3e-5, 0.0, 2e-12, 2e-14, 1e-12, 1e-12)}
"""For a path that nobody has measured, and for devices without a calibration."""
ROOM = {"cpu": (2.0**28, 2e-9), "other": (2.0**31, 2e-11)}
"""Beyond this many bytes, each costs so many seconds: rather a little slower than gigabytes larger."""

Rates = Mapping[str, Sequence[float]]
"""For each variant of a path: a rate for each feature, and behind them points, each a place and an error."""
PLACE = 6
"""Coordinates of a size: logarithms of matrices, queries, keys, width, pairs per query and tiles."""
DOUBT, FLAT = 0.02, 2.0
"""How much weight says that there is no error, or the one of places nobody measured, and no slope of it."""
PLAIN, DOUBTED = ("materialised", "chunked", "product"), math.log(2.0)
"""Paths of plain torch, and by how much longer they are taken to run, as a logarithm, where nobody measured: at sizes
beyond those, their tensors fall out of the cache."""
FURTHEST = 1.5
"""The largest error that is believed, as a logarithm."""
REMEMBERED = 512
"""Lists of rates whose points are kept as arrays."""


def seconds(path: Path, formula: Formula, query: Tensor, key: Tensor, at: Positions, *, training: bool) -> float:
    """How long this path should take; forward and backward when training. What an additive score makes of the keys is
    not in it: that takes every path the same, and a decoder's steps find it made.
    """
    rates = rates_of(path.name, query, training=training)
    cost = path.cost(formula, query, key, at)
    doubt = DOUBTED if path.name in PLAIN else 0.0
    took = estimate(rates, features(cost, query, key), place(cost, query, key), doubt)
    room, dearness = ROOM["cpu" if query.device.type == "cpu" else "other"]
    return took + max(cost.bytes - room, 0.0) * dearness


def features(cost: Cost, query: Tensor, key: Tensor) -> tuple[float, ...]:
    """What a call consists of, in the order of `FEATURES`."""
    matrices = query.shape[0] * query.shape[1]
    rows = matrices * (query.shape[2] * query.shape[3] + 2 * key.shape[2] * key.shape[3])
    pairs = cost.flops / (4.0 * max(query.shape[3], 1)) if cost.pairs is None else cost.pairs
    much = (1.0, cost.tiles, cost.tiles * matrices, pairs, cost.flops, rows, cost.told)
    return tuple(float(number) for number in much)  # sizes are tensors while torch traces


def place(cost: Cost, query: Tensor, key: Tensor) -> tuple[float, ...]:
    """Where a size lies among others: the distance of two is how many times twice as large one is."""
    matrices, pairs = query.shape[0] * query.shape[1], features(cost, query, key)[3]
    sizes = (
        matrices,
        query.shape[2],
        key.shape[2],
        query.shape[3],
        pairs / max(matrices * query.shape[2], 1),
        cost.tiles,
    )
    return tuple(math.log2(max(size, 1)) for size in sizes)


def estimate(
    rates: Sequence[float], features: Sequence[float], place: Sequence[float], elsewhere: float = 0.0
) -> float:
    """Seconds, by rates and the errors of the points around: a plane through these, the near ones counting most
    (locally weighted regression, Cleveland 1979). `elsewhere` is the error far from them all.
    """
    took = sum(rate * much for rate, much in zip(rates, features, strict=False))
    places, errors = _points(rates)
    if not len(places):
        return took
    away = np.concatenate((np.ones((len(places), 1)), places - np.asarray(place)), axis=1)
    weighted = away * np.exp(-(away[:, 1:] ** 2).sum(1, keepdims=True) / 2)
    known = weighted.T @ errors
    known[0] += DOUBT * elsewhere
    plane = np.linalg.solve(weighted.T @ away + np.diag((DOUBT, *(FLAT,) * PLACE)), known)
    return took * math.exp(min(max(float(plane[0]), -FURTHEST), FURTHEST))


_parsed: dict[int, tuple[Sequence[float], np.ndarray, np.ndarray]] = {}


def _points(rates: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Places and errors behind the rates, as arrays; made once for each list, which is kept: its id stays its own."""
    known = _parsed.get(id(rates))
    if known is None or known[0] is not rates:
        if len(_parsed) >= REMEMBERED:
            _parsed.clear()
        points = np.asarray(rates[len(FEATURES) :], dtype=np.float64).reshape(-1, PLACE + 1)
        known = _parsed[id(rates)] = (rates, points[:, :PLACE].copy(), points[:, PLACE].copy())
    return known[1], known[2]


def rates_of(name: str, query: Tensor, *, training: bool) -> Sequence[float]:
    """The rates of a path for tensors such as `query`."""
    kind = rate_key(name, query.dtype, training=training, device=query.device.type)
    if query.device.type != "cpu":
        return machine.current().rates.get(kind, ASSUMED["other"])
    measured = machine.current().rates or default_rates()
    return measured.get(kind) or default_rates().get(kind) or ASSUMED["cpu"]


def rate_key(name: str, dtype: torch.dtype, *, training: bool, device: str = "cpu") -> str:
    """ "product float32 training", "cuda sdpa bfloat16 inference": number types of one width are taken to be alike."""
    light = dtype in (torch.bfloat16, torch.float16)
    where = "" if device == "cpu" else f"{device} "
    return f"{where}{name} {'bfloat16' if light else 'float32'} {'training' if training else 'inference'}"


def is_training(*tensors: Tensor) -> bool:
    """Whether a backward pass will follow."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


@cache
def default_rates() -> Rates:
    """Measured on a processor like this one: with tile registers (AMX), on which bfloat16 products take a fifth of the
    time, or without.
    """
    name = "rates_amx.json" if native.has_tiles() else "rates.json"
    text = (resources.files("foveate.attention") / name).read_text(encoding="utf-8")
    rates: dict[str, list[float]] = json.loads(text)["rates"]
    return rates
