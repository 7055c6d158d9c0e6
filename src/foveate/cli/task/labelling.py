"""What the command line's sides of tagging and classifying share: reports, and scores on a file."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foveate.cli.setup import say
from foveate.cli.task.report import Sample, write_report
from foveate.errors import DataError, UsageError
from foveate.metrics import Score, class_scores, marks_spans, span_scores
from foveate.storage.draft import disk_errors
from foveate.tasks.labelling import VALIDATED, LabellingTask, Predicted
from foveate.train import TrainConfig

SAMPLES = 8


def require_measured(train: TrainConfig) -> None:
    """Raises ValueError when the best checkpoint is to be chosen by what is not measured."""
    if train.metric not in VALIDATED:
        raise ValueError(f"train.metric must be one of {', '.join(VALIDATED)}, got {train.metric!r}")


def size(task: LabellingTask[Any]) -> str:
    """How much there is to train on, in words."""
    labelled = task.training.labels.num_tokens
    return f"{len(task.training):,} training examples, {labelled:,} labels of {len(task.labels)} kinds"


def say_reports(reports: dict[str, Any]) -> None:
    for part, report in reports.items():
        say(f"{part}: {report}")


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
            signature=f"precision:{score.precision:.2f}|recall:{score.recall:.2f}|there:{score.there}",
            higher_is_better=True,
        )
        for what, score in by_name
    ]


def require_some(examples: Sequence[Any], arguments: argparse.Namespace) -> None:
    """Raises DataError for a file without examples, UsageError for what only other tasks can do."""
    if not examples:
        raise DataError(f"{arguments.data} has no examples. Give a file with examples to score the model on.")
    if arguments.metrics:
        raise UsageError("--metrics chooses scores of translations; labels get accuracy and F1. Leave it out.")


def save_lines(path: str | None, lines: Sequence[str]) -> None:
    """Keep what the model said, a line an example."""
    if path:
        with disk_errors(Path(path)):
            Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write_labelling_report(
    model: Any,
    folder: Path,
    path: Path,
    *,
    scores: Sequence[Score],
    data: str,
    samples: Sequence[Sample],
    commands: Sequence[str],
) -> None:
    """Curves, scores, examples and the model card of a run, as one HTML file."""
    write_report(
        model,
        folder,
        path,
        kind=f"{type(model).__name__} over a {type(model.encoder).__name__}",
        scores=[
            {"metric": score.name, "value": f"{score.value:.2f}", "data": data, "signature": score.signature or ""}
            for score in scores
        ],
        samples=samples,
        card={"limits": "Only inputs like those it was trained on, and only the labels that it was trained with."},
        commands=commands,
    )
