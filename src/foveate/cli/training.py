"""Training with progress: what `train` and `resume` have in common."""

import shlex
import sys
from pathlib import Path
from typing import Any

from foveate.cli.task import module_of
from foveate.cli.voice import say, tell
from foveate.config import to_dict
from foveate.storage.checkpoint import is_finished
from foveate.train import Outcome, fit, watch


def train(name: str, task: Any, config: Any, folder: Path, *, quiet: bool, resume: bool = False) -> int:
    """Fit, say how it ended, and leave what the named task leaves; 130 when the user interrupted."""
    module = module_of(name)
    say(f"{type(task.model).__name__} with {task.model.parameter_count():,} parameters; {module.size(task)}.")
    ending = "Finished before" if is_finished(folder) else "Done"
    progress = watch(sys.stderr, quiet=quiet)
    outcome = fit(task, config.train, folder, resume=resume, progress=progress, configuration=to_dict(config))
    if outcome.interrupted:
        shown = shlex.quote(str(folder))
        tell(f"Stopped at step {outcome.step:,}; everything is saved. Continue with:  foveate resume {shown}")
        return 130
    tell(f"{ending}: {outcome.stopped_because}, in {outcome.seconds / 60:.1f} minutes. {_best(outcome)}")
    if resume and ending == "Finished before":
        say("A run keeps its settings. To train for longer, begin another: foveate train … --set train.steps=N")
    module.finish(task, config, folder)
    return 0


def _best(outcome: Outcome) -> str:
    figures = ", ".join(f"{name} {value:.4g}" for name, value in outcome.best.items())
    return f"Best validation at step {outcome.best_step:,}: {figures}." if outcome.best_step is not None else ""
