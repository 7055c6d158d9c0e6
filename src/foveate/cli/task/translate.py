"""The command line's side of translation: sizes from the data, and a report with translations."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from foveate.cli.report import SAMPLES, write_report
from foveate.cli.setup import RunConfig, say
from foveate.tasks.suggestion import Suggestion
from foveate.tasks.suggestion import suggest as suggest_sizes
from foveate.tasks.translate import TranslateTask
from foveate.tasks.translator import Translator

__all__ = ["RunConfig", "finish", "open_task", "prepare", "suggest"]


def suggest(files: Mapping[str, str]) -> Suggestion:
    """Sizes for a run without a configuration."""
    return suggest_sizes(files["source"], files.get("target"))


def prepare(config: RunConfig, folder: Path) -> TranslateTask:
    """Read the data into the run folder, and say what was left out."""
    task, reports = TranslateTask.prepare(config, folder)
    for part, report in reports.items():
        say(f"{part}: {report}")
    return task


def open_task(config: RunConfig, folder: Path) -> TranslateTask:
    """The task of a run folder that `prepare` has filled."""
    return TranslateTask.open(config, folder)


def size(task: TranslateTask) -> str:
    """How much there is to train on, in words."""
    return f"{len(task.training):,} training pairs"


def finish(task: TranslateTask, config: RunConfig, folder: Path) -> None:
    """report.html, with translations of the first validation pairs, and what to try next."""
    translator = Translator(task.model, task.source_tokeniser, task.target_tokeniser, config.decode)
    rows = range(min(SAMPLES, len(task.validation)))
    sources = [task.source_tokeniser.decode(task.validation.source[row].tolist()) for row in rows]
    references = [task.target_tokeniser.decode(task.validation.target[row].tolist()) for row in rows]
    translations = translator.translate(sources)
    write_report(translator, folder, folder / "report.html", translations=translations, references=references)
    say(f"The model is in {folder}, its report in {folder / 'report.html'}.")
    say(f'Try:  foveate translate {shlex.quote(str(folder))} "…" --align')
