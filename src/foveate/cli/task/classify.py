"""The command line's side of classifying."""

import argparse
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from foveate.cli.setup import say
from foveate.cli.task.labelling import (
    SAMPLES,
    class_rows,
    require_measured,
    require_some,
    save_lines,
    say_reports,
    size,
    write_labelling_report,
)
from foveate.cli.task.report import Sample
from foveate.config import build, setting
from foveate.data.labelled import LabelledText, read_labelled
from foveate.metrics import Score
from foveate.storage.run import read_run
from foveate.tasks.classify import ClassifyConfig, ClassifyTask, TextClassifier
from foveate.tasks.labelling import Parts
from foveate.tasks.labelling_suggestion import suggest_classifier
from foveate.tasks.plan import Probe
from foveate.tasks.probe import classify_probe
from foveate.tasks.suggestion import Suggestion
from foveate.train import TrainConfig

__all__ = ["RunConfig", "evaluate", "finish", "open_task", "prepare", "probe", "report", "size", "suggest"]


@dataclass(frozen=True, kw_only=True)
class RunConfig(ClassifyConfig):
    """A classification run: the task's configuration, and how to train."""

    train: TrainConfig = setting(TrainConfig(), "how to train")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_measured(self.train)


def suggest(files: Mapping[str, str]) -> Suggestion:
    """Sizes for a run without a configuration."""
    return suggest_classifier(files["data"])


def probe(config: RunConfig, arguments: argparse.Namespace) -> Probe:
    """What `foveate plan` measures."""
    return classify_probe(config, length=arguments.length, vocab=arguments.vocab)


def prepare(config: RunConfig, folder: Path) -> ClassifyTask:
    """Read the data into the run folder, and say what was left out."""
    task, reports = ClassifyTask.prepare(config, folder)
    say_reports(reports)
    return task


def open_task(config: RunConfig, folder: Path) -> ClassifyTask:
    """The task of a run folder that `prepare` has filled."""
    return ClassifyTask.open(config, folder)


def finish(task: ClassifyTask, config: RunConfig, folder: Path) -> None:
    """report.html, with labels of the first validation texts, and what to try next."""
    classifier = TextClassifier(task.model, task.tokeniser, task.labels)
    _report(classifier, folder, folder / "report.html", _validation(config), "validation")
    say(f"The model is in {folder}, its report in {folder / 'report.html'}.")
    say(f'Try:  foveate classify {shlex.quote(str(folder))} "…"{" --look" if classifier.attends else ""}')


def report(folder: Path, path: Path) -> None:
    """The report of a run, by its files and its validation data."""
    config = build(RunConfig, read_run(folder).config, where="")
    _report(TextClassifier.load(folder, note=say), folder, path, _validation(config), "validation")


def evaluate(arguments: argparse.Namespace) -> list[Score]:
    """Scores of a run on labelled texts: accuracy and F1."""
    folder = Path(arguments.run)
    classifier = TextClassifier.load(folder, note=say)
    config = build(RunConfig, read_run(folder).config, where="")
    examples = list(read_labelled(arguments.data, columns=config.data.columns))
    require_some(examples, arguments)
    predicted = classifier.predict(examples)
    save_lines(arguments.save, predicted.flat[0])
    if arguments.report:
        _report(classifier, folder, Path(arguments.report), examples, Path(arguments.data).name)
        say(f"The report is in {arguments.report}.")
    return predicted.scores() + (class_rows(predicted) if arguments.per_class else [])


def _validation(config: RunConfig) -> list[LabelledText]:
    return list(Parts(config, lambda path: read_labelled(path, columns=config.data.columns))("valid"))


def _report(classifier: TextClassifier, folder: Path, path: Path, examples: Sequence[LabelledText], data: str) -> None:
    predicted, samples = classifier.predict(examples), list[Sample]()
    for example, (label,) in zip(examples[:SAMPLES], predicted.labels, strict=False):
        seen = classifier.look(example.text) if classifier.attends and example.text.strip() else None
        samples.append((example.text, example.label, label, seen))
    shown = shlex.quote(str(folder))
    write_labelling_report(
        classifier.model,
        folder,
        path,
        scores=[*predicted.scores(), *class_rows(predicted)],
        data=f"{data}, {len(examples):,} texts",
        samples=samples,
        commands=[f'foveate classify {shown} "…" --look', f"foveate evaluate {shown} --data FILE --per-class"],
    )
