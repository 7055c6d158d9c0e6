"""The command line's side of translation: sizes from the data, and a report with translations."""

import argparse
import shlex
from collections.abc import Mapping
from pathlib import Path

from foveate.cli.setup import RunConfig, say
from foveate.cli.task.translation_report import SAMPLES, write_translation_report
from foveate.data.parallel import ParallelData
from foveate.tasks.plan import Probe
from foveate.tasks.probe import translation_probe
from foveate.tasks.suggestion import Suggestion
from foveate.tasks.suggestion import suggest as suggest_sizes
from foveate.tasks.translate import TranslateTask
from foveate.tasks.translator import Translator

__all__ = ["RunConfig", "finish", "open_task", "prepare", "probe", "report", "size", "suggest"]


def suggest(files: Mapping[str, str]) -> Suggestion:
    """Sizes for a run without a configuration."""
    return suggest_sizes(files["source"], files.get("target"))


def probe(config: RunConfig, arguments: argparse.Namespace) -> Probe:
    """What `foveate plan` measures."""
    lengths = (arguments.source_length, arguments.target_length)
    return translation_probe(config, lengths=lengths, vocab=arguments.vocab)


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
    _report(translator, task.validation, folder, folder / "report.html")
    say(f"The model is in {folder}, its report in {folder / 'report.html'}.")
    say(f'Try:  foveate translate {shlex.quote(str(folder))} "…" --align')


def report(folder: Path, path: Path) -> None:
    """The report of a run, by its files."""
    _report(Translator.load(folder, note=say), ParallelData.open(folder / "data" / "valid"), folder, path)


def _report(translator: Translator, validation: ParallelData, folder: Path, path: Path) -> None:
    rows = range(min(SAMPLES, len(validation)))
    sources = [translator.source_tokeniser.decode(validation.source[row].tolist()) for row in rows]
    references = [translator.target_tokeniser.decode(validation.target[row].tolist()) for row in rows]
    translations = translator.translate(sources)
    write_translation_report(translator, folder, path, translations=translations, references=references)
