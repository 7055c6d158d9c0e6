"""Trains variants of one configuration in one thread for the same time.

The scripts of folders use it. Data are prepared once and shared by the variants. Times are seconds of the
processor, so that other programs on the machine change them little; every figure has the steps that were made in them.
"""

import argparse
import os
import shutil
import time
from collections.abc import Collection, Mapping, Sequence
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

SECONDS = "seconds"
"""The file of prepared data that tells how long the preparation took."""
PREPARATION = ("data", "reader", "tokeniser")
"""The settings that prepared data depend on."""
TRIAL = 20
"""The number of steps whose time tells how many steps a variant can make."""


def measuring(
    description: str | None, *, out: Path, results: Path, seconds: float, variants: Collection[str] = ()
) -> argparse.ArgumentParser:
    """A parser of the options of a script that measures: where, what, with what seeds and for how long."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=out, help=f"folder of the runs ({out})")
    if variants:
        parser.add_argument("--variant", choices=variants, action="append", help="train only this; may be repeated")
    parser.add_argument("--seeds", type=numbers, default=(0,), help="random starts, such as 0,1,2 (0)")
    parser.add_argument(
        "--seconds", type=float, default=seconds, help=f"the processor's seconds of the steps ({seconds:g})"
    )
    parser.add_argument("--results", type=Path, default=results, help=f"file that keeps the figures ({results.name})")
    return parser


def numbers(text: str) -> tuple[int, ...]:
    """The numbers of a list such as 0,1,2."""
    return tuple(map(int, text.split(",")))


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
        outcome = fit(task, training, run, configuration=whole)
        if outcome.interrupted:
            raise SystemExit(f"{run} was interrupted at step {outcome.step} of {training.steps}, and is not measured.")
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
