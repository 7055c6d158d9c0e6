"""What the command line's sides of tagging and classifying share: all but what a model reads and says."""

import argparse
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from foveate.cli.setup import say, say_columns
from foveate.cli.task.report import Sample, write_report
from foveate.config import build
from foveate.data.text import columns_there
from foveate.errors import DataError, UsageError
from foveate.metrics import Score, class_scores, marks_spans, span_scores
from foveate.storage.draft import disk_errors
from foveate.storage.run import read_run
from foveate.tasks.labelling import VALIDATED, LabellingTask, Parts, Predicted
from foveate.train import TrainConfig

SAMPLES = 8
Example = TypeVar("Example")
Labeller = TypeVar("Labeller")
Task = TypeVar("Task", bound=LabellingTask[Any])


def require_measured(train: TrainConfig) -> None:
    """Raises ValueError when the best checkpoint is to be chosen by what is not measured."""
    if train.metric not in VALIDATED:
        raise ValueError(f"train.metric must be one of {', '.join(VALIDATED)}, got {train.metric!r}")


def size(task: LabellingTask[Any]) -> str:
    """How much there is to train on, in words."""
    labelled = task.training.labels.num_tokens
    return f"{len(task.training):,} training examples, {labelled:,} labels of {len(task.labels)} kinds"


def class_rows(predicted: Predicted) -> list[Score]:
    """F1 of every class, and of every kind of span where the labels mark spans."""
    flat = predicted.flat
    by_name = [("F1", score) for score in class_scores(*flat)]
    if marks_spans(flat[1]):
        by_name += [("span F1", score) for score in span_scores(predicted.labels, predicted.gold)]
    return [
        Score(
            name=f"{what} of {score.name}",
            value=score.f1,
            signature=f"precision:{score.precision:.2f}|recall:{score.recall:.2f}|support:{score.there}",
            higher_is_better=True,
        )
        for what, score in by_name
    ]


@dataclass(frozen=True, kw_only=True)
class Side(ABC, Generic[Task, Labeller, Example]):
    """The command line's side of one of the tasks; `module.prepare = SIDE.prepare`, and so on."""

    name: str
    what: str
    """What the examples are, in the plural."""
    config: type[Any]
    task: type[Any]
    load: Callable[..., Labeller]
    """A trained model in use, from its run folder."""
    read: Callable[..., Iterator[Example]]
    labels: Callable[[Example], Sequence[str]]
    """Those of an example."""
    parts: tuple[str, str]
    """What the columns of a table hold."""

    @abstractmethod
    def labeller(self, task: Task) -> Labeller:
        """The model of a task, in use."""

    @abstractmethod
    def lines(self, labeller: Labeller, examples: Sequence[Example]) -> list[str]:
        """What the model says, a line an example."""

    @abstractmethod
    def scores(self, labeller: Labeller, examples: Sequence[Example], *, per_class: bool) -> list[Score]: ...

    @abstractmethod
    def samples(self, labeller: Labeller, examples: Sequence[Example]) -> list[Sample]:
        """Examples for a report, with what was looked at."""

    def examples(self, config: Any, path: str) -> Iterator[Example]:
        """Those of a file, as the run reads them."""
        return self.read(path, columns=config.data.columns)

    def looks(self, labeller: Labeller) -> bool:
        """Whether its command can show where the model looked."""
        return False

    def prepare(self, config: Any, folder: Path) -> Task:
        """Read the data into the run folder, and say which columns were taken and what was left out."""
        say_columns(config.data.data, config.data.columns, self.parts)
        task, reports = self.task.prepare(config, folder)
        for part, report in reports.items():
            say(f"{part}: {report}")
        return task

    def open_task(self, config: Any, folder: Path) -> Task:
        """The task of a run folder that `prepare` has filled."""
        return self.task.open(config, folder)

    def finish(self, task: Task, config: Any, folder: Path) -> None:
        """report.html, with labels of the first validation examples, and what to try next."""
        labeller = self.labeller(task)
        self._report(labeller, folder, folder / "report.html", self._validation(config), "validation")
        say(f"The model is in {folder}, its report in {folder / 'report.html'}.")
        say(f"Try:  {self._command(labeller, folder)}")

    def report(self, folder: Path, path: Path) -> None:
        """The report of a run, by its files and its validation data."""
        config = build(self.config, read_run(folder).config, where="")
        self._report(self.load(folder, note=say), folder, path, self._validation(config), "validation")

    def evaluate(self, arguments: argparse.Namespace) -> list[Score]:
        """Scores of a run on labelled examples."""
        folder = Path(arguments.run)
        labeller = self.load(folder, note=say)
        config = build(self.config, read_run(folder).config, where="")
        columns = arguments.columns or columns_there(arguments.data, config.data.columns)
        config = replace(config, data=replace(config.data, columns=columns))
        examples = list(self.examples(config, arguments.data))
        require_some(examples, arguments)
        if arguments.save:
            save_lines(arguments.save, self.lines(labeller, examples))
        if arguments.report:
            self._report(labeller, folder, Path(arguments.report), examples, Path(arguments.data).name)
            say(f"The report is in {arguments.report}.")
        return self.scores(labeller, examples, per_class=arguments.per_class)

    def _command(self, labeller: Labeller, folder: Path) -> str:
        return f'foveate {self.name} {shlex.quote(str(folder))} "…"{" --look" if self.looks(labeller) else ""}'

    def _validation(self, config: Any) -> list[Example]:
        parts = Parts(config, lambda path: self.examples(config, path), self.labels)
        return list(parts("valid"))

    def _report(self, labeller: Any, folder: Path, path: Path, examples: Sequence[Example], data: str) -> None:
        model, about = labeller.model, f"{data}, {len(examples):,} {self.what}"
        kind = f"{type(model).__name__} over a {type(model.encoder).__name__}"
        card = {"limits": "Only inputs like those it was trained on, and only the labels that it was trained with."}
        if begun := read_run(folder).config.get("initialise_from"):
            card["model"] = f"{kind}, {model.parameter_count():,} parameters, begun with the encoder of {begun}"
        write_report(
            model,
            folder,
            path,
            kind=kind,
            scores=[
                {"metric": score.name, "value": f"{score.value:.2f}", "data": about, "signature": score.signature or ""}
                for score in self.scores(labeller, examples, per_class=True)
            ],
            samples=self.samples(labeller, examples[:SAMPLES]),
            card=card,
            commands=[
                self._command(labeller, folder),
                f"foveate evaluate {shlex.quote(str(folder))} --data FILE --per-class",
            ],
        )


def require_some(examples: Sequence[Any], arguments: argparse.Namespace) -> None:
    """Raises DataError for a file without examples, UsageError for what only other tasks can do."""
    if not examples:
        raise DataError(f"{arguments.data} has no examples. Give a file with examples to score the model on.")
    if arguments.metrics:
        raise UsageError("--metrics chooses scores of translations; labels get accuracy and F1. Leave it out.")


def save_lines(path: str, lines: Sequence[str]) -> None:
    """Keep what the model said, a line an example."""
    with disk_errors(Path(path)):
        Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
