"""Trains small models in worlds of forked processes, for `test_world`; prints what happened as JSON.

    python world_group.py FOLDER

All groups are forked from this process, which imports torch once.
"""

import contextlib
import io
import json
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from kill_and_resume import Addition, Silent, traces
from worlds import KILLED, ends, fork_world, kill

from foveate.errors import DataError, FoveateError
from foveate.storage.checkpoint import read_final
from foveate.train import Constant, Loss, TrainConfig, fit
from foveate.train.world import World

CONFIG = replace(KILLED, steps=24, validate_every=6, save_every=6, log_every=5, average=2)
Hook = Callable[[int, int], object]
"""A function of a rank and a step, called after each update."""


class Told(Silent):
    """Calls a hook after each update and keeps the notes."""

    def __init__(self, rank: int, hook: Hook) -> None:
        self.rank, self.hook = rank, hook
        self.notes: list[str] = []

    def advance(self, step: int, loss: float) -> None:
        self.hook(self.rank, step)

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)


class Task(Addition):
    """`Addition`; `at` is called with the number of each batch, and may change it; `more` returns more metrics; `valid`
    is called with the number of each batch of a validation.
    """

    def __init__(
        self,
        at: Callable[[int, Tensor], Tensor] | None = None,
        factor: float = 1.0,
        more: Callable[[int], dict[str, float]] = lambda number: {},
        valid: Callable[[int], object] = lambda number: None,
    ) -> None:
        super().__init__()
        self.at, self.factor, self.more, self.valid, self.number = at, factor, more, valid, 0
        self.numbers = set[int]()
        """The validation batches that this rank has computed."""

    def batch(self, step: int) -> Tensor:
        self.number = step
        rows = super().batch(step)
        return self.at(step, rows) if self.at else rows

    def loss(self, batch: Tensor) -> Loss:
        loss = super().loss(batch)
        factor = self.factor if self.model.training and self.number == 13 else 1.0
        return Loss(loss.total * factor, loss.count, {**loss.metrics, **self.more(self.number)})

    def validated(self, number: int) -> tuple[float, int]:
        self.valid(number)
        self.numbers.add(number)
        return super().validated(number)

    def describe(self, batch: Tensor) -> str:
        return f"sums like {batch[0].tolist()}"


def group(
    folder: Path,
    size: int,
    config: TrainConfig = CONFIG,
    *,
    task: Callable[[int], Task] = lambda rank: Task(),
    hook: Hook = lambda rank, step: None,
    place: Callable[[int, Path], Path] = lambda rank, folder: folder,
    settings: Callable[[int, TrainConfig], TrainConfig] = lambda rank, config: config,
    wait: Callable[[list[int]], object] = lambda processes: None,
) -> list[dict[str, Any]]:
    """The end of each rank of a world that trains in the folder: its code, and its outcome or its error."""
    folder.mkdir(exist_ok=True)

    def work(world: World) -> None:
        told = Told(world.rank, hook)
        try:
            mine = task(world.rank)
            ours, where = settings(world.rank, config), place(world.rank, folder)
            outcome = fit(mine, ours, where, resume=True, progress=told, world=world)
            total = sum(float(parameter.detach().double().sum()) for parameter in mine.model.parameters())
            ending = {**asdict(outcome), "sum": total, "validated": sorted(mine.numbers)}
        except FoveateError as error:
            ending = {"error": str(error), "kind": type(error).__name__, "shared": error.shared}
            raise
        finally:
            report(folder, world.rank).write_text(json.dumps({**ending, "notes": told.notes}))

    processes = fork_world(size, work)
    wait(processes)
    codes = ends(processes)
    reports = [report(folder, rank) for rank in range(size)]
    return [
        {"code": code, **(json.loads(path.read_text()) if path.exists() else {})}
        for code, path in zip(codes, reports, strict=True)
    ]


def report(folder: Path, rank: int) -> Path:
    return folder / f"ending-of-rank-{rank}.json"


def laws(folder: Path) -> dict[str, Any]:
    """What happened in each experiment, by name."""

    def interrupt(rank: int, at: int) -> Hook:
        return lambda mine, step: os.kill(os.getpid(), signal.SIGTERM) if (mine, step) == (rank, at) else None

    def weights(name: str) -> Any:
        final = read_final(folder / name)
        return {**traces(folder / name, CONFIG.steps), "value": final.value if final else None}

    results: dict[str, Any] = {"ends": {}, "traces": {}}

    def note(name: str, endings: list[dict[str, Any]]) -> None:
        results["ends"][name] = endings

    for size in (1, 2, 3):
        note(f"exact-{size}", group(folder / f"exact-{size}", size))
        results["traces"][f"exact-{size}"] = weights(f"exact-{size}")
    note("chain-3", group(folder / "chain", 3, hook=interrupt(2, 7)))
    note("chain-1", group(folder / "chain", 1, hook=interrupt(0, 11)))
    note("chain-2", group(folder / "chain", 2))
    results["traces"]["chain"] = weights("chain")
    fast = replace(CONFIG, reduction="fast")
    for size in (1, 2):
        note(f"fast-{size}", group(folder / f"fast-{size}", size, fast))
        results["traces"][f"fast-{size}"] = weights(f"fast-{size}")
    note("fast-stopped", group(folder / "fast-changed", 2, fast, hook=interrupt(1, 7)))
    note("fast-changed", group(folder / "fast-changed", 1, fast))

    note("too-many", group(folder / "too-many", 2, replace(CONFIG, accumulate=1)))
    others = replace(CONFIG, seed=1, schedule=Constant())
    note("settings", group(folder / "settings", 2, settings=lambda rank, one: others if rank else one))
    for name, more in (("other-metrics", ("odd", "even")), ("more-metrics", ("odd", "accuracy"))):

        def task(rank: int, more: tuple[str, str] = more) -> Task:
            return Task(more=lambda number: {more[number % 2]: 1.0})

        note(name, group(folder / name, 2, task=task))
    for name in ("mine", "yours"):
        (folder / "data" / name / "data").mkdir(parents=True)
        (folder / "data" / name / "data" / "index.json").write_text(name)
    note("data", group(folder / "data", 2, place=lambda rank, where: where / ("mine", "yours")[rank]))

    nan = float("nan")
    for name, factor in (("not-a-number", nan), ("too-large", 1e7)):
        note(name, group(folder / name, 2, task=lambda rank, factor=factor: Task(factor=factor)))

    def strange(number: int) -> None:
        if number == 3:
            raise DataError("Batch 3 cannot be read.")

    note("validation", group(folder / "validation", 2, task=lambda rank: Task(valid=strange)))

    def full(rank: int, step: int) -> None:
        if (rank, step) == (0, 8):
            resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.RLIM_INFINITY))

    note("full-disk", group(folder / "full-disk", 2, hook=full))
    note("time", group(folder / "time", 2, replace(CONFIG, steps=10**6, max_minutes=0.5 / 60)))

    quick = replace(CONFIG, stall_seconds=2.0)

    def kill_after(late: int, processes: list[int]) -> None:
        """Waits until the other one of two ranks has ended, then kills the late one."""
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        end = time.monotonic() + 30
        while os.waitid(os.P_PID, processes[1 - late], options) is None and time.monotonic() < end:
            time.sleep(0.02)
        os.kill(processes[late], signal.SIGKILL)

    for rank in (0, 1):

        def stop(mine: int, step: int, rank: int = rank) -> None:
            if (mine, step) == (rank, 8):
                os.kill(os.getpid(), signal.SIGSTOP)

        def watch(processes: list[int], rank: int = rank) -> None:
            os.waitpid(processes[rank], os.WUNTRACED)
            began = time.monotonic()
            kill_after(rank, processes)
            results[f"rank-{rank}-stopped-for"] = time.monotonic() - began

        note(f"rank-{rank}-stopped", group(folder / f"rank-{rank}-stopped", 2, quick, hook=stop, wait=watch))

    def stop_all(rank: int, step: int) -> None:
        if step == 8:
            os.kill(os.getpid(), signal.SIGSTOP)

    def continue_late(processes: list[int]) -> None:
        for process in processes:
            os.waitpid(process, os.WUNTRACED)
        time.sleep(1.25 * quick.stall_seconds)
        for process in processes:
            os.kill(process, signal.SIGCONT)

    note("all-stopped", group(folder / "all-stopped", 2, quick, hook=stop_all, wait=continue_late))

    def sleep(step: int, rows: Tensor) -> Tensor:
        if step == 33:
            time.sleep(60)
        return rows

    hanging = group(
        folder / "hanging", 2, quick, task=lambda rank: Task(sleep), wait=lambda processes: kill_after(1, processes)
    )
    note("hanging", hanging)

    def leave(world: World) -> None:
        """The first rank ends, while the second one does nothing that needs a connection."""
        world.watch(2.0)
        if world.is_first:
            os._exit(0)
        time.sleep(60)

    results["left"] = ends(fork_world(2, leave))
    with contextlib.redirect_stdout(io.StringIO()) as said:
        kill(2, seed=random.randrange(10**6))
    results["kills"] = said.getvalue()
    return results


if __name__ == "__main__":
    torch.set_num_threads(1)
    fit(Addition(), replace(CONFIG, steps=1), Path(sys.argv[1], "warm"), progress=Silent())
    print(json.dumps(laws(Path(sys.argv[1]))))
