"""What the command line's sides of tagging and classifying share: reports, and scores on a file."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foveate import inspect
from foveate.cli.setup import say
from foveate.errors import DataError, UsageError
from foveate.inspect import Alignment
from foveate.metrics import Score, class_scores, marks_spans, span_scores
from foveate.storage.draft import disk_errors
from foveate.tasks.labelling import VALIDATED, LabellingTask, Predicted
from foveate.train import TrainConfig

SAMPLES = 8
Sample = tuple[str, str, str, Alignment | None]
"""A text, its labels, what the model says, and where it looked."""


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


def write_report(
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
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    final = folder / "model.json"
    facts = json.loads(final.read_text(encoding="utf-8")) if final.exists() else {}
    name, minutes = type(model).__name__, rows[-1]["seconds"] / 60 if rows else 0.0
    encoder = type(model.encoder).__name__
    html = inspect.report(
        title=f"{name} in {folder.name}",
        summary=[
            ("parameters", f"{model.parameter_count():,}"),
            ("minutes", f"{minutes:.1f}"),
            *((f"validation {name}", f"{value:.4g}") for name, value in facts.get("metrics", {}).items()),
        ],
        curves=rows,
        scores=[
            {"metric": score.name, "value": f"{score.value:.2f}", "data": data, "signature": score.signature or ""}
            for score in scores
        ],
        samples=list(samples),
        card={
            "model": f"{name} over a {encoder}, {model.parameter_count():,} parameters, trained from scratch",
            "training": f"{rows[-1]['step'] if rows else 0:,} steps, {minutes:.1f} minutes",
            "weights": facts.get("weights", "those of an unfinished run"),
            "licence": "that of the training data; the card does not know it",
            "limits": "Only inputs like those it was trained on, and only the labels that it was trained with.",
        },
        commands=list(commands),
    )
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(html, encoding="utf-8")
