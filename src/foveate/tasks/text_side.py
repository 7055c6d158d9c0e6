"""The interface between commands and both kinds of language model: all of it except making, using and showing them."""

import argparse
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from foveate.data.text import read_lines, require_lasting
from foveate.data.tokeniser import EOS
from foveate.errors import DataError
from foveate.suggestion import counted
from foveate.tasks.exported import Note
from foveate.tasks.report_page import Sample, write_report
from foveate.tasks.run_plan import Allowance, Reason, Suggestion, with_others
from foveate.tasks.side import Asked, Figures, Scored, Side, in_percent, written
from foveate.tasks.text_task import TextData, TextTask, text_of
from foveate.voice import say

SAMPLES, LEAST, MOST = 4, 4, 60
"""Samples of a report, and tokens of each: a picture of more has no room."""
MANY_CHARACTERS = 256
"""Beyond these a character is better spelt in pieces."""
LARGE = 20_000_000
"""Characters from which on subwords are worth their vocabulary."""
ENOUGH = 300_000
"""Characters from which on subwords serve a model that fills gaps."""
ROWS_TOKENS = 4096
"""Tokens of a batch."""
Test = tuple[str, Figures]
"""A file and the figures of its text."""


class TextSide(Side):
    """The side of a task that reads one text."""

    names: ClassVar[tuple[str, str]]
    """The names of the columns and of the rows of a sample's picture."""

    @abstractmethod
    def samples(self, model: Any, data: TextData) -> list[Sample]:
        """Validation lines for a report, each with what the model makes of a part of it."""

    @abstractmethod
    def figures(self, model: Any, lines: Sequence[str], arguments: argparse.Namespace) -> Figures:
        """The measurements of `evaluate` on the lines of a text."""

    def prepare(self, config: Any, folder: Path, note: Note = lambda sentence: None) -> Any:
        task = super().prepare(config, folder, note)
        for part, store in (("train", task.data.training), ("valid", task.data.validation)):
            note(f"{part}: {counted(len(store) - 1, 'line')}, {counted(store.num_tokens - 1, 'token')}.")
        return task

    def size(self, task: TextTask[Any, Any]) -> str:
        return f"{task.data.training.num_tokens - 1:,} tokens to train on"

    def texts(self, model: Any, arguments: argparse.Namespace) -> Sequence[str]:
        return list(read_lines(arguments.text))

    def evaluate(self, arguments: argparse.Namespace) -> Figures:
        folder = Path(arguments.run)
        model = self.load(folder, precision=arguments.precision)
        figures = self.figures(model, list(read_lines(arguments.text)), arguments)
        if arguments.report:
            test = Path(arguments.text).name, figures
            self.write_report(model, self.saved_config(folder), folder, Path(arguments.report), test)
            say(f"The report is in {arguments.report}.")
        return figures

    def write_report(self, model: Any, config: Any, folder: Path, path: Path, test: Test | None = None) -> None:
        data = TextData.open(folder)
        measured = {name: f"{value:.4g}" for name, value in test[1].items()} if test else {}
        training, validation = (f"{store.num_tokens - 1:,} tokens" for store in (data.training, data.validation))
        write_report(
            model.model,
            folder,
            path,
            tiles=[(f"test {name}", value) for name, value in measured.items()],
            scores=[{"metric": name, "value": value, "data": test[0]} for name, value in measured.items() if test],
            samples=self.samples(model, data),
            card={
                "data": f"{training} of a vocabulary of {data.tokeniser.vocab_size:,}",
                "validation": validation,
                "test": test[0] if test else "not yet: foveate evaluate RUN --text FILE --report FILE",
                "limits": "It goes on as its text does, true or not; and it may say word for word what it was trained "
                "on.",
            },
            commands=[self.command(model, folder), f"foveate evaluate {written(folder)} --text FILE"],
            names=self.names,
        )

    def metrics(self) -> tuple[str, ...]:
        return self.validated

    def hold_out(self, config: Any, folder: Path) -> dict[str, Any]:
        """No files: the last lines are held out, whatever the seed."""
        return {}

    def score(self, task: Any, config: Any, folder: Path, request: Asked) -> Scored:
        if request.test:
            task = task.tested_on(request.test["text"], folder / "data" / "test")
        return Scored(values=self.pick(in_percent(task.validate()), request.metrics))


def validation_lines(data: TextData, positions: int | None) -> list[str]:
    """Some lines of the validation text for a report, from all of it, cut where they are too long for a picture or for
    half of the model's `positions`.
    """
    most = MOST if positions is None else min(MOST, positions // 2)
    lines, line = list[list[int]](), list[int]()
    for token in data.validation.tokens.tolist()[1:]:
        if token != EOS:
            line.append(token)
            continue
        if len(line) >= LEAST:
            lines.append(line[:most])
        line = []
    return [text_of(data.tokeniser, line) for line in lines[:: max(len(lines) // SAMPLES, 1)][:SAMPLES]]


def suggested(path: str, allowance: Allowance, *, masked: bool) -> Suggestion:
    """Tokeniser, model and steps by the text; `masked` for a model that fills gaps, whose tokens should be pieces of
    words where there is text to learn them from: a missing letter follows from its word.

    Raises DataError when the text is empty.
    """
    require_lasting(path)
    lines, characters, different = 0, 0, set[str]()
    for line in read_lines(path):
        lines, characters = lines + 1, characters + len(line) + 1
        different.update(line)
    if not different:
        raise DataError(f"{path} has no text. Give a file with text to learn from.")
    counts = lines, characters, len(different)
    return with_others(lambda allowance: _suggested(*counts, allowance, masked=masked), allowance)


def _suggested(lines: int, characters: int, different: int, allowance: Allowance, *, masked: bool) -> Suggestion:
    tokeniser, why, tokens = _tokeniser(characters, different, masked=masked)
    model, about, block, pace = _model(characters, allowance.tier, masked=masked)
    # Some thirty readings of a small text, few of a large one; each step reads about ROWS_TOKENS tokens.
    steps = allowance.steps(min(max(30 * tokens // ROWS_TOKENS, 1_000), 20_000), pace=pace)
    interval = max(steps // 20, 50)
    return Suggestion(
        {
            "tokeniser": tokeniser,
            "model": model,
            "data": {"block_length": block, "max_tokens": ROWS_TOKENS},
            "train": {
                "steps": steps,
                "validate_every": interval,
                "save_every": interval,
                "patience": 5,
                "weight_decay": 0.1,
                "schedule": {"kind": "cosine", "warmup": max(steps // 20, 20)},
            },
        },
        f"{counted(lines, 'line')}, {counted(characters, 'character')} ({different:,} different).",
        (
            Reason("tokeniser", why),
            Reason("model", f"{about}, {allowance}; it reads {block} tokens at once", ("model", "data.block_length")),
        ),
    )


def _tokeniser(characters: int, different: int, *, masked: bool) -> tuple[dict[str, Any], str, int]:
    """The tokeniser, a reason, and roughly the number of tokens that it makes of the text."""
    if characters >= LARGE or (masked and characters >= ENOUGH):
        size = 8_000 if characters >= LARGE else 4_000
        return {"kind": "sentencepiece", "vocab_size": size}, f"enough text for {size:,} subwords", characters // 4
    if different > MANY_CHARACTERS:
        return {"kind": "byte"}, f"{different:,} different characters, so bytes", characters
    return {"kind": "character"}, f"{different} different characters, so one token each", characters


def _model(characters: int, tier: int, *, masked: bool) -> tuple[dict[str, Any], str, int, float]:
    """The model, its description, the length of a block, and the seconds of one core that a step takes."""
    layers, width, block, dropped, pace = 2, 128, 128, 0.2, 0.17
    if characters >= 500_000:
        layers, width, block, dropped, pace = (4, 128, 256, 0.1, 0.33) if tier == 0 else (4, 256, 256, 0.2, 1.0)
    if characters >= LARGE and tier == 2:
        layers, width, block, dropped, pace = 6, 384, 256, 0.1, 3.0
    sizes = {"model_dim": width, "num_heads": width // 32, "feedforward_dim": 4 * width, "dropout": dropped}
    kind, name = ("bert", "BERT") if masked else ("gpt", "GPT")
    return {"kind": kind, "num_layers": layers, "block": sizes}, f"a {name}, {layers} layers, {width} wide", block, pace
