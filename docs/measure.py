"""Measures the time of every part on this machine: milliseconds at three lengths, and their growth."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from mechanism import Entry, built, placed, sized
from torch import Tensor, nn

from foveate import machine, native
from foveate.attention import Attention, Mechanism, window

SIZES, FEWER = (256, 1024, 4096), 512
"""Lengths; where the longest takes too much memory or time, `FEWER` stands in for it."""
ROOM, PATIENCE = 2**31, 8e3
"""Bytes and milliseconds of one forward and backward pass that are too much."""
WIDTH, KERNEL, NEAR = 512, 3, 64
"""Sizes of the layers that the lectures compare."""
HEADS, HEAD_DIM = 8, 64
ROUNDS, ENOUGH = 6, 2.0
"""Repetitions of a job; after the second they end when they have taken so many seconds in all."""


@dataclass(frozen=True)
class Job:
    """One call to time."""

    call: Callable[[], Tensor]
    weights: int
    trains: bool = True
    """Whether there is anything to take gradients for."""
    plan: dict[str, Any] | None = None
    """The chosen path, its arithmetic and its memory."""


def job(entry: Entry, size: int) -> Job:
    """A part at work on `size` positions."""
    torch.manual_seed(0)
    if entry.section == "position":
        position = sized(entry.config, size).build(WIDTH)
        place, length = torch.arange(size)[None], torch.tensor([[size]])
        return Job(lambda: position(place, length), _count(position), trains=_count(position) > 0)
    if entry.section == "recurrent":
        config = replace(entry.config, model_dim=WIDTH, num_heads=HEADS, head_dim=HEAD_DIM)
        network, document = config.build().eval(), torch.randn(1, size, WIDTH, requires_grad=True)
        return Job(lambda: network(document).tokens, _count(network))
    mechanism, x, at = timed(entry, size)
    plan = mechanism.plan(x, x, at=at)
    chosen = next(path for path in plan.paths if path.name == plan.chosen)
    said = {"path": plan.chosen, "flops": chosen.flops, "bytes": chosen.bytes}
    return Job(lambda: mechanism.run(x, x, x, at=at), _count(mechanism), plan=said)


def timed(entry: Entry, size: int) -> tuple[Mechanism, Tensor, Any]:
    """The timed mechanism, its input for query, key and value, and their positions."""
    mechanism = built(sized(entry.config, size), dim=HEAD_DIM, heads=HEADS)
    return mechanism, torch.randn(1, HEADS, size, HEAD_DIM, requires_grad=True), placed(entry, size, HEADS)


def measure(every: list[Entry], before: dict[str, Any], *, with_layers: bool) -> dict[str, Any]:
    """The figures of these parts, added to the earlier ones of the others."""
    torch.set_num_threads(1)
    machine.tune()
    mechanisms = dict(before["mechanisms"])
    for entry in every:
        mechanisms[entry.name] = row(entry)
        print(entry.name, mechanisms[entry.name], flush=True)
    about = f"float32, one thread of an {_processor()}; times are the minimum of {ROUNDS} runs, or of fewer long ones."
    return {"about": about, "mechanisms": mechanisms, "layers": _layers() if with_layers else before["layers"]}


def row(entry: Entry) -> dict[str, Any]:
    """The figures of one part at every length that fits."""
    found: dict[str, Any] = {}
    *shorter, longest = SIZES
    for size in shorter:
        one = job(entry, size)
        found.setdefault("weights", one.weights)
        found[str(size)] = _figures(one)
    short, long = (found[str(size)].get("training", found[str(size)]["forward"]) for size in shorter)
    # The lengths are four times each other: what the step before made slower, this one will.
    if long * long / short <= PATIENCE:
        one = job(entry, longest)
        # What a backward pass keeps is about as much again.
        if one.plan is None or 2 * one.plan["bytes"] <= ROOM:
            found[str(longest)] = _figures(one)
            return found
    found[str(FEWER)] = _figures(job(entry, FEWER))
    return found


def growth(row: dict[str, Any], what: str) -> float | None:
    """p of time ~ n^p, fitted to the logarithms; None for fewer than three lengths."""
    points = [(int(size), at[what]) for size, at in row.items() if size.isdigit() and what in at]
    if len(points) < 3:
        return None
    sizes, times = np.log(np.array(points)).T
    return float(np.polyfit(sizes, times, 1)[0])


class Bare(nn.Module):
    """Attention of heads to each other, without projections."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x: Tensor) -> Tensor:
        heads = x.unflatten(-1, (HEADS, -1)).transpose(1, 2)
        return self.attention.run(heads, heads, heads)


def layers() -> dict[str, Callable[[Tensor], Tensor]]:
    """Exactly the operations that `complexity.table` counts: attention without projections, and Elman's recurrence."""
    recurrence = nn.RNN(WIDTH, WIDTH, bias=False, batch_first=True)
    convolution = nn.Conv1d(WIDTH, WIDTH, KERNEL, padding=KERNEL // 2, bias=False)
    return {
        "self-attention": Bare(Attention()),
        "recurrent": lambda x: recurrence(x)[0],
        "convolution": lambda x: convolution(x.mT),
        "restricted self-attention": Bare(Attention(visibility=window(left=NEAR, right=NEAR))),
    }


def _layers() -> dict[str, Any]:
    """Milliseconds of the four layers that the lectures compare."""
    torch.manual_seed(0)
    rows: dict[str, Any] = {}
    for name, layer in layers().items():
        rows[name] = {}
        for size in SIZES:
            x = torch.randn(1, size, WIDTH, requires_grad=True)
            rows[name][str(size)] = _figures(Job(lambda layer=layer, x=x: layer(x), 0))
        print(name, rows[name], flush=True)
    return rows


def _figures(one: Job) -> dict[str, Any]:
    def forward() -> None:
        with torch.no_grad():
            one.call()

    times = {"forward": _milliseconds(forward)}
    if one.trains:
        times["training"] = _milliseconds(lambda: one.call().sum().backward())
    return {**(one.plan or {}), **times}


def _milliseconds(job: Callable[[], object]) -> float:
    best, spent, rounds = math.inf, 0.0, 0
    while rounds < ROUNDS and (rounds < 2 or spent < ENOUGH):
        started = time.process_time()
        job()
        took = time.process_time() - started
        best, spent, rounds = min(best, took), spent + took, rounds + 1
    return float(f"{best * 1e3:.3g}")


def _count(module: nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


def _processor() -> str:
    lines = native.processor().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return (names or ["unknown processor"])[0].replace("(R)", "") + " with AMX" * native.has_tiles()
