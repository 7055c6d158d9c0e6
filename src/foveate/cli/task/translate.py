"""The command line's side of translation: sizes from the data, and a report with translations."""

import argparse
import shlex
import time
from pathlib import Path

from foveate.cli.options import metric_names, pairs_of
from foveate.cli.setup import RunConfig, decode_config, say, say_columns
from foveate.cli.task.translation_report import SAMPLES, Test, write_translation_report
from foveate.data.parallel import ParallelData
from foveate.errors import DataError
from foveate.metrics import Score
from foveate.storage.draft import disk_errors
from foveate.suggestion import counted
from foveate.tasks.evaluation import evaluate, require_metrics, suitable_metrics
from foveate.tasks.plan import Probe
from foveate.tasks.probe import translation_probe
from foveate.tasks.size import Allowance
from foveate.tasks.suggestion import Suggestion
from foveate.tasks.suggestion import suggest as suggest_sizes
from foveate.tasks.translate.task import TranslateTask
from foveate.tasks.translate.use import Translator

__all__ = ["RunConfig", "evaluate_pairs", "finish", "open_task", "prepare", "probe", "report", "size", "suggest"]


def suggest(config: RunConfig, allowance: Allowance) -> Suggestion:
    """Sizes for a run without a configuration; `config` says where the data are."""
    return suggest_sizes(config, allowance)


def probe(config: RunConfig, arguments: argparse.Namespace) -> Probe:
    """What `foveate plan` measures."""
    lengths = (arguments.source_length, arguments.target_length)
    return translation_probe(config, lengths=lengths, vocab=arguments.vocab)


def prepare(config: RunConfig, folder: Path) -> TranslateTask:
    """Read the data into the run folder, and say which columns were taken and what was left out."""
    if config.data.target is None:
        say_columns(config.data.source, config.data.columns, ("source", "target"))
    task, reports = TranslateTask.prepare(config, folder)
    for part, report in reports.items():
        say(f"{part}: {report}")
    return task


def open_task(config: RunConfig, folder: Path) -> TranslateTask:
    """The task of a run folder that `prepare` has filled."""
    return TranslateTask.open(config, folder)


def size(task: TranslateTask) -> str:
    """How much there is to train on, in words."""
    return counted(len(task.training), "training pair")


def finish(task: TranslateTask, config: RunConfig, folder: Path) -> None:
    """report.html, with translations of the first validation pairs, and what to try next."""
    translator = Translator(task.model, task.source_tokeniser, task.target_tokeniser, config.decode)
    _report(translator, task.validation, folder, folder / "report.html")
    say(f"The model is in {folder}, its report in {folder / 'report.html'}.")
    say(f'Try:  foveate translate {shlex.quote(str(folder))} "…" --align')


def report(folder: Path, path: Path) -> None:
    """The report of a run, by its files."""
    _report(Translator.load(folder, note=say), ParallelData.open(folder / "data" / "valid"), folder, path)


def evaluate_pairs(arguments: argparse.Namespace) -> list[Score]:
    """Scores of a run's translations of pairs; kept and reported where that is asked for."""
    pairs = list(pairs_of(arguments))
    if not pairs:
        raise DataError(f"{arguments.source} has no lines. Give a file with pairs to score the model on.")
    translator = Translator.load(arguments.run, precision=arguments.precision, note=say)
    config = decode_config(translator.config, arguments)
    names = metric_names(arguments) or suitable_metrics(translator.target_tokeniser)
    require_metrics(names)
    for path in filter(None, (arguments.save, arguments.report)):
        with disk_errors(Path(path)):  # before the work rather than after it
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).open("a").close()
    started = time.perf_counter()
    translations = translator.translate([pair.source for pair in pairs], config=config)
    seconds = time.perf_counter() - started
    unfinished = sum(not translation.finished for translation in translations)
    lines, cut = counted(len(pairs), "line"), f"{unfinished} reached the length limit before an end"
    say(f"{lines} in {seconds:.1f} seconds; {cut}.")
    hypotheses = [translation.text for translation in translations]
    if arguments.save:
        with disk_errors(Path(arguments.save)):
            Path(arguments.save).write_text("".join(f"{text}\n" for text in hypotheses), encoding="utf-8")
    references = [pair.target for pair in pairs]
    scores = evaluate(hypotheses, references, names)
    if arguments.report:
        write_translation_report(
            translator,
            Path(arguments.run),
            Path(arguments.report),
            translations=translations[:SAMPLES],
            references=references[:SAMPLES],
            test=Test(file=Path(arguments.source).name, lines=len(pairs), scores=scores),
        )
        say(f"The report is in {arguments.report}.")
    return scores


def _report(translator: Translator, validation: ParallelData, folder: Path, path: Path) -> None:
    rows = range(min(SAMPLES, len(validation)))
    sources = [translator.source_tokeniser.decode(validation.source[row].tolist()) for row in rows]
    references = [translator.target_tokeniser.decode(validation.target[row].tolist()) for row in rows]
    translations = translator.translate(sources)
    write_translation_report(translator, folder, path, translations=translations, references=references)
