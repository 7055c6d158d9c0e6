"""The training loop: one for every task.

    for each update:  batches → loss / tokens → gradients → norm (finite?) → clip → AdamW
    at intervals:     log · validate · checkpoint
    at the end:       average, the weights for use

Training is a function of (configuration, seed, step, history of validations). A checkpoint holds the step, the history,
the weights and the moments, and a resumed run ends with the same bits as an uninterrupted one.
"""

import contextlib
import shlex
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foveate import machine, native
from foveate.config import to_dict
from foveate.errors import UsageError
from foveate.storage.checkpoint import MODEL, STATE, Checkpoint, Checkpoints, save_final
from foveate.storage.draft import disk_errors, remove_stale
from foveate.storage.manifest import write_json
from foveate.storage.symbolic_link import require_unlinked
from foveate.train import history as past
from foveate.train.accelerator import chosen_device, placed, repeatable
from foveate.train.history import Validation
from foveate.train.interrupt import Interrupt
from foveate.train.log import MetricsLog, Progress, Quiet
from foveate.train.log_window import Window
from foveate.train.noise import noise_seed
from foveate.train.recipe import TrainConfig
from foveate.train.resumption import exclusive, other_rate, require_same, storable
from foveate.train.sharing import require_shareable, undivided
from foveate.train.state import State
from foveate.train.trainable import Outcome, Trainable, require_measured
from foveate.train.update import Updater
from foveate.train.validation import validation_figures
from foveate.train.world import ALONE, World


def fit(
    task: Trainable,
    config: TrainConfig,
    folder: Path | str,
    *,
    resume: bool = False,
    progress: Progress | None = None,
    configuration: Mapping[str, Any] | None = None,
    accept_changes: bool = False,
    accepted: Collection[str] = (),
    world: World = ALONE,
) -> Outcome:
    """Train the task's model in the run folder, to the end or until Ctrl-C.

    `train.device` moves the model to a GPU while it trains, and batches to it. Without, a task may have its model and
    its batches on one.

    With several processes each calls this with its `world` (`joined`), a task on the same data, and the folder; the
    first one reads and writes there, and all end together.

    `configuration` is the run's whole configuration as plain data. It goes into every checkpoint together with
    `config`. Resuming with a different configuration raises an error that lists the differences, unless
    `accept_changes`; changes of the settings in `accepted` are noted. With more `train.steps` a run continues after its
    last step: schedules are functions of step and steps, so that a cosine then spans all steps, while others continue.
    Resuming a run without a checkpoint starts from the beginning, with the model's present weights.

    The folder receives `checkpoints/`, `metrics.jsonl`, `best.json` and finally `model.safetensors` with
    `model.json`.

    Raises UsageError (folder in use, changed configuration or one that JSON cannot hold, unknown metric, processes that
    are not alike), DataError (loss or gradient not finite, damaged checkpoints), SetupError (disk full) and PeerError
    (another process ended).
    """
    require_measured(task, config)
    progress = progress or Quiet()
    folder = Path(folder)
    whole = storable({**(configuration or {}), "train": to_dict(config)})
    with contextlib.ExitStack() as stack:
        is_whole = world.size == 1 or config.sharding == "replicate"
        stack.enter_context(placed(task.model, chosen_device(config.device), back=is_whole))
        require_shareable(task, config, folder, whole, world)
        world.once(lambda: _take(folder, stack))
        interrupt = stack.enter_context(Interrupt(progress.note))
        if sentence := undivided(config, world.size):
            progress.note(sentence)
        run = _Run(task, config, folder, progress, whole, world)
        if config.reduction == "exact":
            stack.enter_context(repeatable(run.updater.device))
        try:
            run.begin(resume, accept_changes, accepted)
            return run.train(interrupt)
        finally:
            run.close()


def _take(folder: Path, stack: contextlib.ExitStack) -> None:
    """Makes the folder, and locks it until the stack ends."""
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    require_unlinked(folder)
    stack.enter_context(exclusive(folder))


class _Run:
    """The state of one call of `fit`."""

    def __init__(
        self,
        task: Trainable,
        config: TrainConfig,
        folder: Path,
        progress: Progress,
        configuration: Mapping[str, Any],
        world: World,
    ) -> None:
        self.task, self.config, self.configuration = task, config, configuration
        self.world = world
        self.folder, self.progress = folder, progress
        self.model = task.model
        self.updater = Updater(task, config, world)
        self.weights = self.updater.weights
        self.checkpoints = Checkpoints(folder / "checkpoints", progress.note)
        self.step = 0
        self.updates = 0
        self.tokens = 0
        self.history: list[Validation] = []
        self.window = Window()
        self.saved: tuple[int, int] | None = None
        self.earlier_seconds = 0.0
        self.started = time.monotonic()
        self.log: MetricsLog | None = None
        self.stopping, self.clock = False, 0.0
        """For several processes: whether one was asked to stop, and the first one's seconds, at the last update."""

    # -- beginning and end ---------------------------------------------------------------------------------------------

    def begin(self, resume: bool, accept_changes: bool, accepted: Collection[str] = ()) -> None:
        """Restores the newest sound checkpoint when resuming; refuses a used folder otherwise."""
        values = self.world.once(lambda: self._open(resume, accept_changes, accepted), during="reading the checkpoint")
        checkpoint = None
        if values:
            checkpoint = Checkpoint(self.checkpoints.path(values["step"]), values["step"], values)
            if not self.world.is_first:
                self._adopt(State.read(values, checkpoint.step, checkpoint.path / STATE), values)
        self.weights.receive(checkpoint, self.updater.optimiser)
        self.clock = self.earlier_seconds
        self.started = time.monotonic()
        budget = self.config.max_minutes
        self.progress.begin(
            self.step, self.config.steps, None if budget is None else max(0.0, budget * 60 - self.earlier_seconds)
        )

    def _open(self, resume: bool, accept_changes: bool, accepted: Collection[str]) -> dict[str, Any] | None:
        """`begin` in the first process; returns the restored state for the others."""
        remove_stale(self.folder)
        with disk_errors(self.checkpoints.folder):
            self.checkpoints.folder.mkdir(exist_ok=True)
        remove_stale(self.checkpoints.folder)
        steps = self.checkpoints.steps()
        if steps and not resume:
            raise UsageError(
                f"{self.folder} holds a run already, saved at step {steps[-1]:,}. "
                f"Continue it with `foveate resume {shlex.quote(str(self.folder))}`, or name another folder."
            )
        log, newest = self.folder / "metrics.jsonl", self.checkpoints.newest() if resume else None
        if newest:
            self._restore(newest, accept_changes, accepted)
        elif resume and (self.world.size == 1 or log.exists()):
            self.progress.tell("This run has no checkpoint yet: starting from the beginning.")
        self.log = MetricsLog(log, keep=newest.state["log_bytes"] if newest else 0)
        return newest.state if newest else None

    def close(self) -> None:
        """Closes the log and the display."""
        if self.log:
            self.log.close()
        self.progress.end()

    def train(self, interrupt: Interrupt) -> Outcome:
        """The loop."""
        self.model.train()
        while True:
            if self.stopping or (self.world.size == 1 and interrupt.requested):
                self._save()
                return self._outcome("interrupted", interrupted=True)
            reason = self._ending()
            if reason or self.step % self.config.validate_every == 0:
                self._validate()
            reason = reason or self._patience_ending()
            if reason or self._is_save_due():
                self._save()
            if reason:
                return self._outcome(reason, weights=self._finish())
            self._update(interrupt)

    def _outcome(self, reason: str, *, weights: str = "", interrupted: bool = False) -> Outcome:
        best = past.best(self.history)
        return Outcome(
            step=self.step,
            seconds=self.seconds,
            tokens=self.tokens,
            best_step=best.step if best else None,
            best=best.metrics if best else {},
            weights=weights,
            interrupted=interrupted,
            stopped_because=reason,
        )

    @property
    def seconds(self) -> float:
        """Time spent on this run, resumed parts included."""
        return self.earlier_seconds + time.monotonic() - self.started

    def _ending(self) -> str:
        if self.step >= self.config.steps:
            return f"all {self.config.steps:,} steps are done"
        seconds = self.clock if self.world.size > 1 else self.seconds
        if self.config.max_minutes is not None and seconds >= self.config.max_minutes * 60:
            return f"its time is used up, train.max_minutes = {self.config.max_minutes:g}"
        return self._patience_ending()

    def _patience_ending(self) -> str:
        patience = self.config.patience
        # A shorter run may have validated at its end, where this one would not have.
        if patience is not None and past.wait(self._regular_history()) >= patience:
            return f"no better {self.config.metric} in {patience} validations"
        return ""

    def _update(self, interrupt: Interrupt) -> None:
        self.world.computing(limited=self.updates > 0)  # the first one compiles, plans and allocates
        if not self.updates:  # a run that was long from the start has no validation at the end of a shorter one
            self.history = self._regular_history()
        stop = interrupt.requested or self.world.is_orphan
        updated = self.updater(self.step + 1, self.history, stop=stop, seconds=self.seconds)
        self.stopping, self.clock = updated.stop, updated.seconds
        self.updates += 1
        self.step += 1
        self.tokens += updated.count
        self.window.add(updated)
        self.progress.advance(self.step, updated.total / max(updated.count, 1))
        if self.step % self.config.log_every == 0:
            figures = self.window.close(self.seconds)
            self._row("train", {**figures, "learning_rate": updated.learning_rate, "tokens": self.tokens})

    def _row(self, kind: str, figures: Mapping[str, Any]) -> None:
        row = self._figures(kind, figures)
        self.world.once(lambda: self._write(row), during="writing the log")

    def _figures(self, kind: str, figures: Mapping[str, Any]) -> dict[str, Any]:
        epoch = self.step * self.config.accumulate / max(self.task.steps_per_epoch, 1)
        seconds = round(self.seconds, 3)
        return {"kind": kind, "step": self.step, "epoch": round(epoch, 4), **figures, "seconds": seconds}

    def _write(self, row: Mapping[str, Any]) -> None:
        if self.log:
            self.log.write(row)
        self.progress.row(row)

    # -- validation ----------------------------------------------------------------------------------------------------

    def _validate(self) -> None:
        """Validates once per step, also after resuming from a checkpoint between an update and its validation."""
        if self.step == 0 or (self.history and self.history[-1].step == self.step):
            return
        entry = self._measure()
        self.history.append(entry)
        best = past.best(self.history)
        self._row("valid", {**entry.metrics, "best": best is entry})

    def _measure(self) -> Validation:
        self.model.eval()
        started, seed = time.monotonic(), noise_seed(self.config.seed, -1 - self.step)
        with torch.no_grad(), self.updater.autocast(), self.weights.gathered():
            metrics = validation_figures(self.task, self.world, self.updater.device, seed)
        self.model.train()
        self.window.pause(time.monotonic() - started)
        if self.config.metric not in metrics:
            error = UsageError(
                f"The configuration compares checkpoints by train.metric = {self.config.metric!r}, "
                f"but validation measures: {', '.join(metrics)}. Choose one of these."
            )
            error.shared = True
            raise error
        sign = 1 if self.config.direction == "lower" else -1
        return Validation(step=self.step, value=sign * metrics[self.config.metric], metrics=metrics)

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def _is_save_due(self) -> bool:
        if self.step == 0:
            return False
        validated = bool(self.history) and self.history[-1].step == self.step
        return self.step % self.config.save_every == 0 or (validated and self.step in self._best_steps())

    def _regular_history(self) -> list[Validation]:
        return [entry for entry in self.history if entry.step % self.config.validate_every == 0]

    def _best_steps(self) -> list[int]:
        return past.best_steps(self.history, self.config.average if self.config.average_of == "best" else 1)

    def _last_steps(self) -> list[int]:
        """The regular checkpoints, without those after Ctrl-C, so that Ctrl-C does not change the average."""
        regular = [step for step in self.checkpoints.steps() if step % self.config.save_every == 0]
        return sorted({*regular, self.step})[-self.config.average :]

    def _save(self) -> None:
        now = (self.step, len(self.history))
        if self.saved == now:
            return
        started = time.monotonic()
        self.weights.save(self.checkpoints, self.step, self.updater.optimiser, self._state)
        self.saved = now
        self.world.once(self._tidy, during="removing checkpoints")
        self.window.pause(time.monotonic() - started)

    def _state(self) -> dict[str, Any]:
        return {
            "tokens": self.tokens,
            "seconds": self.seconds,
            "history": [entry.to_dict() for entry in self.history],
            "window": self.window.to_dict(),
            "log_bytes": self.log.position() if self.log else 0,
            "configuration": self.configuration,
            "tuning": asdict(machine.current()),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "native": native.in_use(),
            "world": self.world.size,
            "device": self.updater.device.type,
        }

    def _tidy(self) -> None:
        self._name_best()
        regular = past.best_steps(self._regular_history(), len(self._best_steps()))  # those of a run that goes on
        self.checkpoints.prune(self.config.keep, {*self._best_steps(), *regular, *self._last_steps()})

    def _name_best(self) -> None:
        best = past.best(self.history)
        if best:
            checkpoint = self.checkpoints.path(best.step).relative_to(self.folder)
            write_json(self.folder / "best.json", {"checkpoint": str(checkpoint), **best.to_dict()})

    def _restore(self, checkpoint: Checkpoint, accept_changes: bool, accepted: Collection[str]) -> None:
        state = State.read(checkpoint.state, checkpoint.step, checkpoint.path / STATE)
        for sentence in require_same(
            checkpoint.state,
            self.configuration,
            self.folder,
            accept_changes=accept_changes,
            accepted=accepted,
            world=self.world.size,
            device=self.updater.device.type,
        ):
            self.progress.note(sentence)
        self.weights.restore(checkpoint, self.updater.optimiser)
        self._adopt(state, checkpoint.state)
        self.checkpoints.set_aside(self.step)
        self._name_best()  # a process that was killed between the checkpoint and best.json has left another one there
        self.progress.tell(f"Resuming after step {self.step:,}, from {checkpoint.path}.")
        planned = checkpoint.state["configuration"].get("train", {}).get("steps")
        if sentence := other_rate(self.config, self.step, self.history, planned):
            self.progress.note(sentence)

    def _adopt(self, state: State, values: Mapping[str, Any]) -> None:
        """Continues at a state, whose plain `values` have the open window."""
        machine.use(state.tuning)
        self.step, self.tokens, self.earlier_seconds = state.step, state.tokens, state.seconds
        self.history = state.validations
        self.saved = (self.step, len(self.history))
        self.window = Window.from_dict(values["window"])

    # -- the weights for use -------------------------------------------------------------------------------------------

    def _finish(self) -> str:
        """Writes the final weights, which the model then has in all processes; a description of them.

        They are the average if it validates better than the best checkpoint, else the latter.
        """
        steps, averaged = self.world.once(self._averaged_steps, during="choosing checkpoints"), None
        if steps:
            self.weights.load([self.checkpoints.path(step) / MODEL for step in steps], "the average")
            averaged = self._measure()
        final = self.world.once(lambda: self._final(steps, averaged), during="choosing the final weights")
        tensors = self.weights.whole() if final["checkpoint"] is None else None
        self.world.once(lambda: self._write_final(tensors, **final), during="writing the final weights")
        self.weights.load([self.folder / MODEL], str(self.folder))
        self.weights.release()
        self.model.eval()
        return str(final["weights"])

    def _averaged_steps(self) -> list[int]:
        if self.config.average < 2:
            return []
        steps = self._last_steps() if self.config.average_of == "last" else self._best_steps()
        sound = self.checkpoints.sound(steps)
        return sound if len(sound) > 1 else []

    def _final(self, steps: Sequence[int], averaged: Validation | None) -> dict[str, Any]:
        """The step of the checkpoint whose weights are the final ones, None for those of the model; their description,
        value and metrics.
        """
        saved, best = self.checkpoints.steps(), past.best(self.history)
        ranked = (entry for entry in past.ranked(self.history) if entry.step in saved)
        chosen = next((entry for entry in ranked if self.checkpoints.sound([entry.step])), None)
        words = f"weights after step {self.step}" if chosen is None else f"checkpoint of step {chosen.step}"
        checkpoint = None if chosen is None else chosen.step
        if averaged:
            self._write(self._figures("average", averaged.metrics))
            if best is None or chosen is None or averaged.value <= best.value:
                chosen, checkpoint = averaged, None
                words = f"average of the checkpoints of steps {', '.join(map(str, steps))}"
            else:
                self.progress.tell(
                    f"The average of {len(steps)} checkpoints is not better than the best one, which is used."
                )
        figures = {
            "value": past.to_json(chosen.value) if chosen else None,
            "metrics": past.metrics_to_json(chosen.metrics) if chosen else {},
        }
        return {"checkpoint": checkpoint, "weights": words, **figures}

    def _write_final(self, tensors: Mapping[str, Tensor] | None, checkpoint: int | None, **figures: Any) -> None:
        if checkpoint is not None:
            tensors = self.checkpoints.files(checkpoint).whole()
        save_final(self.folder, tensors or {}, {**figures, "step": self.step})
