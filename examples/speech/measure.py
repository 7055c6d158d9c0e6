"""Trains variants of one configuration in one thread for the same time, and keeps their figures in results.json.

The scripts of this folder use it. Data are prepared once and shared by the variants. Times are seconds of the
processor, so that other programs on the machine change them little; every figure has the steps that were made in them.
"""

import json
import os
import shutil
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn

from foveate.cli.setup import resolve
from foveate.config import to_dict
from foveate.storage.run import create_run, read_run
from foveate.tasks import TASKS
from foveate.train import TrainConfig, fit

RESULTS = Path(__file__).parent / "results.json"
SECONDS = "seconds"
"""The file of prepared data that tells how long the preparation took."""
PREPARATION = ("data", "reader", "tokeniser")
"""The settings that prepared data depend on."""
TRIAL = 20
"""The number of steps whose time tells how many steps a variant can make."""


@dataclass(frozen=True)
class Loan:
    """Weights of another run that a training begins with."""

    run: Path
    parts: tuple[str, ...] = ("",)
    """The beginnings of their names; by default all."""

    def lend(self, model: nn.Module) -> None:
        """Give them to a model."""
        weights = load_file(self.run / "model.safetensors")
        shared = {name: weight for name, weight in weights.items() if name.startswith(self.parts)}
        model.load_state_dict({**model.state_dict(), **shared})


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A task with a configuration file and its data."""

    task: str
    configuration: Path
    data: Mapping[str, Path]
    """The files, by the names of their settings: data, valid_data."""

    def train(
        self, settings: Sequence[str], seed: int, run: Path, *, store: Path, seconds: float, loan: Loan | None = None
    ) -> dict[str, float]:
        """Train a variant into a run folder for this time of the processor, from the weights of a loan if there is one.

        Returns the number of steps, the seconds of training with validation, and those of the preparation, whose
        result is kept in `store`.
        """
        torch.set_num_threads(1)
        side = TASKS[self.task].side
        settings = [*settings, f"seed={seed}", f"train.seed={seed}"]
        files = {name: str(path) for name, path in self.data.items()}
        config = resolve({}, str(self.configuration), files, settings, kind=side.run_config)
        preparation = self._prepare(side, config, store)
        shutil.copytree(store, run, copy_function=os.link, ignore=shutil.ignore_patterns("config.json", SECONDS))
        training = paced(config.train, round(seconds / pace(side.open(config, store), config.train.precision)))
        whole = to_dict(replace(config, train=training))
        create_run(run, self.task, whole, read_run(store).tokenisers)
        task = side.open(config, run)
        if loan is not None:
            loan.lend(task.model)
        begin = time.process_time()
        fit(task, training, run, configuration=whole)
        spent = time.process_time() - begin
        return {"steps": training.steps, "CPU seconds": spent, "preparation": preparation}

    def _prepare(self, side: Any, config: Any, store: Path) -> float:
        """The seconds of the preparation, which is not repeated."""
        if not (store / SECONDS).exists():
            begin = time.process_time()
            task = side.prepare(config, store, print)
            create_run(store, self.task, to_dict(config), task.digests)
            (store / SECONDS).write_text(f"{time.process_time() - begin}\n")
        require_same(read_run(store).config, to_dict(config), store)
        return float((store / SECONDS).read_text())


def require_same(prepared: Mapping[str, Any], config: Mapping[str, Any], store: Path) -> None:
    """Stop if data were prepared by other settings than these."""
    others = [name for name in PREPARATION if prepared.get(name) != config.get(name)]
    if others:
        raise SystemExit(f"{store} was prepared with other settings of {', '.join(others)}. Give another --out.")


def pace(task: Any, precision: str = "float32") -> float:
    """The processor's seconds of a step: of its batch, loss and gradients."""
    half = torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16")
    task.model.train()
    begin = time.process_time()
    for step in range(-TRIAL // 4, TRIAL):
        begin = time.process_time() if step == 0 else begin
        with half:
            total = task.loss(task.batch(max(step, 0))).total
        total.backward()
    return (time.process_time() - begin) / TRIAL


def paced(training: TrainConfig, steps: int) -> TrainConfig:
    """The settings for this number of steps, one at least, with four validations."""
    steps = max(steps, 1)
    each = max(steps // 4, 1)
    return replace(training, steps=steps, validate_every=each, save_every=each)


def keep(table: str, row: str, seed: int, figures: Mapping[str, float], *, path: Path = RESULTS) -> None:
    """Write the figures of a row with a seed, over earlier ones of the same row and seed."""
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    results.setdefault(table, {}).setdefault(row, {})[str(seed)] = {name: round(figures[name], 3) for name in figures}
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def show(table: str, *, path: Path = RESULTS) -> None:
    """Print a table of the results."""
    print(*lines(json.loads(path.read_text(encoding="utf-8"))[table]), sep="\n")


def lines(rows: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[str]:
    """A table in Markdown: the mean of each figure over the seeds of a row, with the standard deviation.

    >>> print(*lines({"CTC": {"0": {"WER": 4.0}, "1": {"WER": 5.0}}, "LSTM": {"0": {"WER": 90.5}}}), sep="\\n")
    |  | WER | seeds |
    |---|---|---|
    | CTC | 4.5 ± 0.7 | 2 |
    | LSTM | 90.5 | 1 |
    """
    names = list(dict.fromkeys(name for cells in rows.values() for cell in cells.values() for name in cell))
    written = [f"|  | {' | '.join(names)} | seeds |", "|---" * (len(names) + 2) + "|"]
    for row, cells in rows.items():
        values = (_written([cell[name] for cell in cells.values() if name in cell]) for name in names)
        written.append(f"| {row} | {' | '.join(values)} | {len(cells)} |")
    return written


def _written(values: Sequence[float]) -> str:
    if not values:
        return "–"
    places = 0 if min(values) >= 100 else 1
    spread = f" ± {statistics.stdev(values):.{places}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{places}f}{spread}"
