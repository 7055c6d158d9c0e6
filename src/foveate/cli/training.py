"""Training with progress: what `train` and `resume` have in common."""

import shlex
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from foveate.cli.task import module_of
from foveate.cli.voice import say, tell
from foveate.config import to_dict
from foveate.storage.checkpoint import Checkpoints, is_finished
from foveate.suggestion import counted
from foveate.train import Outcome, TrainConfig, fit, step_seconds, total_seconds, watch


def train(
    name: str,
    task: Any,
    config: Any,
    folder: Path,
    *,
    quiet: bool,
    resume: bool = False,
    accepted: Collection[str] = (),
    others: Callable[[float], Iterator[str]] | None = None,
) -> int:
    """Fit, say how it ended, and leave what the named task leaves; 130 when the user interrupted.

    `others` says what other sizes would take, given the seconds that this one takes.
    """
    module = module_of(name)
    done = max(Checkpoints(folder / "checkpoints").steps(), default=0) if resume else 0
    say(f"{type(task.model).__name__} with {task.model.parameter_count():,} parameters; {module.size(task)}.")
    for sentence in () if quiet else outlook(task, config.train, done, others):
        say(sentence)
    progress = watch(sys.stderr, quiet=quiet)
    finished = is_finished(folder)
    outcome = fit(
        task,
        config.train,
        folder,
        resume=resume,
        progress=progress,
        configuration=to_dict(config),
        accepted=accepted,
    )
    if outcome.interrupted:
        shown = shlex.quote(str(folder))
        tell(f"Stopped at step {outcome.step:,}; everything is saved. Continue with:  foveate resume {shown}")
        return 130
    before = finished and outcome.step == done
    ending = "Finished before" if before else "Done"
    tell(f"{ending}: {outcome.stopped_because}, in {outcome.seconds / 60:.1f} minutes. {_best(outcome)}")
    if before:
        say(f"To train for longer:  foveate resume {shlex.quote(str(folder))} {_longer(config.train, outcome)}")
    module.finish(task, config, folder)
    return 0


def outlook(
    task: Any, config: TrainConfig, done: int = 0, others: Callable[[float], Iterator[str]] | None = None
) -> Iterator[str]:
    """How long it will take, by steps that are timed and taken back, before the first one."""
    seconds = step_seconds(task, config) if done < config.steps else None
    if seconds is None:
        return
    left = total_seconds(task, config, seconds, done)
    ends = "" if config.patience is None else ", less if validations stop improving"
    said = f"Estimated time: {duration(left)} for {counted(config.steps - done, 'step')} of {_each(seconds)}{ends}."
    if config.max_minutes is not None and 60 * config.max_minutes < left:
        reached = done + int((config.steps - done) * 60 * config.max_minutes / left)
        said += f" train.max_minutes = {config.max_minutes:g} ends it before, at about step {reached:,}."
    yield said
    if others is not None:
        yield from others(left)


def duration(seconds: float) -> str:
    """
    >>> duration(20.0), duration(600.0), duration(20_000.0)
    ('less than a minute', 'about 10 minutes', 'about 5.6 hours')
    """
    if seconds < 50:
        return "less than a minute"
    if seconds < 5400:
        return f"about {counted(max(round(seconds / 60), 1), 'minute')}"
    return f"about {seconds / 3600:.1f} hours"


def _each(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _longer(config: TrainConfig, outcome: Outcome) -> str:
    """The option that moves what has ended the run."""
    if "minute" in outcome.stopped_because:
        return f"--set train.max_minutes={2 * (config.max_minutes or 1):g}"
    if "steps" in outcome.stopped_because:
        return f"--set train.steps={2 * config.steps}"
    return "--set train.patience=none"


def _best(outcome: Outcome) -> str:
    figures = ", ".join(f"{name} {value:.4g}" for name, value in outcome.best.items())
    return f"Best validation at step {outcome.best_step:,}: {figures}." if outcome.best_step is not None else ""
