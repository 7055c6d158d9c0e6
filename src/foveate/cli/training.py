"""Training with progress and a report at the end: what `train` and `resume` have in common."""

import shlex
import sys
from pathlib import Path

from foveate.cli.report import SAMPLES, write_report
from foveate.cli.setup import RunConfig, say
from foveate.config import to_dict
from foveate.tasks.translate import TranslateTask
from foveate.tasks.translator import Translator
from foveate.train import Outcome, fit, watch


def train(task: TranslateTask, config: RunConfig, folder: Path, *, quiet: bool, resume: bool = False) -> int:
    """Fit, say how it ended, and leave a report; 130 when the user interrupted."""
    if not quiet:
        name = type(task.model).__name__
        say(f"{name} with {task.model.parameter_count():,} parameters; {len(task.training):,} training pairs.")
    ending = "Finished before" if (folder / "model.json").exists() else "Done"
    shown = shlex.quote(str(folder))
    progress = watch(sys.stderr, quiet=quiet)
    outcome = fit(task, config.train, folder, resume=resume, progress=progress, configuration=to_dict(config))
    if outcome.interrupted:
        say(f"Stopped at step {outcome.step:,}; everything is saved. Continue with:  foveate resume {shown}")
        return 130
    say(f"{ending}: {outcome.stopped_because}, in {outcome.seconds / 60:.1f} minutes. {_best(outcome)}")
    report_on_validation(task, config, folder)
    say(f"The model is in {folder}, its report in {folder / 'report.html'}.")
    say(f'Try:  foveate translate {shown} "…" --align')
    return 0


def report_on_validation(task: TranslateTask, config: RunConfig, folder: Path) -> None:
    """report.html, with translations of the first validation pairs."""
    translator = Translator(task.model, task.source_tokeniser, task.target_tokeniser, config.decode)
    rows = range(min(SAMPLES, len(task.validation)))
    sources = [task.source_tokeniser.decode(task.validation.source[row].tolist()) for row in rows]
    references = [task.target_tokeniser.decode(task.validation.target[row].tolist()) for row in rows]
    translations = translator.translate(sources)
    write_report(translator, folder, folder / "report.html", translations=translations, references=references)


def _best(outcome: Outcome) -> str:
    figures = ", ".join(f"{name} {value:.4g}" for name, value in outcome.best.items())
    return f"Best validation at step {outcome.best_step:,}: {figures}." if outcome.best_step is not None else ""
