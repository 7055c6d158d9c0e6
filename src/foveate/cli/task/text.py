"""What the command line's sides of both kinds of language model share."""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from foveate.cli.setup import say
from foveate.cli.task.report import Sample, write_report
from foveate.data.text import read_lines
from foveate.data.tokeniser import EOS
from foveate.suggestion import counted
from foveate.tasks.text import TextData, TextTask, text_of
from foveate.train import TrainConfig

SAMPLES, LEAST, MOST = 4, 4, 60
"""Samples of a report, and tokens of each: a picture of more has no room."""
Figures = Mapping[str, float]


def require_measured(train: TrainConfig, measured: Sequence[str]) -> None:
    """Raises ValueError when the best checkpoint is to be chosen by what is not measured."""
    if train.metric not in measured:
        raise ValueError(f"train.metric must be one of {', '.join(measured)}, got {train.metric!r}")


def say_sizes(task: TextTask[Any, Any]) -> None:
    for part, store in (("train", task.data.training), ("valid", task.data.validation)):
        say(f"{part}: {counted(len(store) - 1, 'line')}, {counted(store.num_tokens - 1, 'token')}.")


def size(task: TextTask[Any, Any]) -> str:
    """How much there is to train on, in words."""
    return f"{task.data.training.num_tokens - 1:,} tokens to train on"


def validation_lines(data: TextData) -> list[str]:
    """Some lines of the validation text for a report, from all of it, cut where they are too long for a picture."""
    lines, line = list[list[int]](), list[int]()
    for token in data.validation.tokens.tolist()[1:]:
        if token != EOS:
            line.append(token)
            continue
        if len(line) >= LEAST:
            lines.append(line[:MOST])
        line = []
    return [text_of(data.tokeniser, line) for line in lines[:: max(len(lines) // SAMPLES, 1)][:SAMPLES]]


def print_figures(arguments: argparse.Namespace, figures: Figures) -> None:
    if arguments.json:
        print(json.dumps(dict(figures)))
    else:
        print(*(f"{name} = {value:.4g}" for name, value in figures.items()), sep="\n")


def text_lines(arguments: argparse.Namespace) -> list[str]:
    """The text that a model is scored on."""
    return list(read_lines(arguments.text))


def write_text_report(
    model: Any,
    data: TextData,
    folder: Path,
    path: Path,
    *,
    samples: Sequence[Sample],
    commands: Sequence[str],
    test: tuple[str, Figures] | None = None,
    names: tuple[str, str],
) -> None:
    """Curves, samples and the model card of a run; `test` is a file and the figures of its text."""
    rows = (
        [{"metric": name, "value": f"{value:.4g}", "data": test[0]} for name, value in test[1].items()] if test else []
    )
    training, validation = (f"{store.num_tokens - 1:,} tokens" for store in (data.training, data.validation))
    write_report(
        model,
        folder,
        path,
        tiles=[(f"test {name}", f"{value:.4g}") for name, value in test[1].items()] if test else [],
        scores=rows,
        samples=samples,
        card={
            "data": f"{training} of a vocabulary of {data.tokeniser.vocab_size:,}",
            "validation": validation,
            "test": test[0] if test else "not yet: foveate evaluate RUN --text FILE --report FILE",
            "limits": "It goes on as its text does, true or not; and it may say word for word what it was trained on.",
        },
        commands=commands,
        names=names,
    )
